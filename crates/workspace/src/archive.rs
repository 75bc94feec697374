//! Packs a directory for whoever keeps it after the pod is gone: a patch against a base, or a tarball. It does not know HTTP.
//!
//! An archive is written to an unnamed scratch file on the directory's own volume (else on the temporary one), so that memory
//! stays small and a crash leaves nothing behind.

mod exclude;
mod folder;
mod tarball;
mod zip;

use std::{
    fs::File,
    io::{self, Seek as _},
    path::{Path, PathBuf},
};

use openhands_protocol::file::ArchiveFormat;

use self::exclude::Excludes;
pub use self::folder::zip_folder;
use crate::{
    file::{Download, FileError, absolute},
    git::{Delta, GitError, GitReader, Identity},
};

/// Most exclude patterns of a request, and most bytes of one.
const MAX_EXCLUDES: usize = 200;
const MAX_EXCLUDE_BYTES: usize = 4096;
/// How deep a repository is looked for below the directory that was named.
const MAX_DEPTH: usize = 3;
/// Directories whose repositories are somebody else's.
const NOT_SEARCHED: &[&str] = &["node_modules", "venv", "site-packages", "vendor"];
/// Most directories that the look for a repository visits.
const MAX_VISITED: usize = 10_000;

/// What to pack.
#[derive(Clone, Debug)]
pub struct ArchiveRequest {
    /// The directory, absolute. When it is no repository but holds exactly one, that is packed instead.
    pub path: String,
    /// As what.
    pub format: ArchiveFormat,
    /// What a patch is against; chosen when `None`.
    pub base_ref: Option<String>,
    /// Whether heavy directories that can be made again are left out.
    pub default_excludes: bool,
    /// More patterns to leave out.
    pub excludes: Vec<String>,
    /// Most bytes of the archive (patch) or of the files in it (tarball).
    pub limit: u64,
}

/// An archive, ready to be read.
#[derive(Debug)]
pub struct Archive {
    /// The archive itself.
    pub download: Download,
    /// The directory that was packed.
    pub root: PathBuf,
    /// Whether it is a repository.
    pub is_repository: bool,
    /// Origin's address without credentials.
    pub remote: Option<String>,
    /// The branch, or `DETACHED`.
    pub branch: Option<String>,
    /// The commit that was checked out.
    pub head: Option<String>,
    /// The commit that a patch is against; `None` for a tarball and for a repository without commits.
    pub base: Option<String>,
}

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The directory cannot be packed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The request makes no sense; the text says why.
    #[error("{0}")]
    Refused(String),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl GitReader {
    /// Packs a directory.
    ///
    /// # Errors
    /// When the path is no directory, a pattern or the base is refused, the archive would be too large, or git fails.
    pub async fn archive(&self, request: ArchiveRequest) -> Result<Archive, ArchiveError> {
        let path = absolute(&request.path)?;
        check(&request)?;
        let (root, is_repository, scratch) = blocking(move || prepare(&path)).await?;
        let excludes = Excludes::new(request.default_excludes, &request.excludes);
        let (file, base) = match request.format {
            ArchiveFormat::GitDelta => self.patch(&root, &request, &excludes, scratch).await?,
            ArchiveFormat::TarGz => (pack(root.clone(), excludes, request.limit, scratch).await?, None),
        };
        let identity = if is_repository { self.identity(&root).await } else { Identity::default() };
        let name = root.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
        let download = Download::of(file, format!("{name}{}", request.format.suffix())).map_err(failed)?;
        let Identity { remote, branch, head } = identity;
        Ok(Archive { download, root, is_repository, remote, branch, head, base })
    }

    async fn patch(
        &self,
        root: &Path,
        request: &ArchiveRequest,
        excludes: &Excludes,
        scratch: File,
    ) -> Result<(File, Option<String>), ArchiveError> {
        let pathspecs = excludes.pathspecs();
        let base = request.base_ref.as_deref();
        let delta = Delta { directory: root, base, pathspecs: &pathspecs, limit: request.limit };
        let mut to = tokio::fs::File::from_std(scratch);
        let base = match self.delta(delta, &mut to).await {
            Ok(base) => base,
            Err(GitError::UnknownRevision(name)) => {
                return Err(ArchiveError::Refused(format!("base_ref '{name}' could not be resolved")));
            }
            Err(GitError::TooLarge { limit, .. }) => return Err(FileError::TooLarge { limit }.into()),
            Err(error) => return Err(error.into()),
        };
        let mut file = to.into_std().await;
        file.rewind().map_err(failed)?;
        Ok((file, base))
    }
}

fn check(request: &ArchiveRequest) -> Result<(), ArchiveError> {
    if request.base_ref.as_deref().is_some_and(|base| base.starts_with('-')) {
        return Err(ArchiveError::Refused("base_ref must not start with '-'".to_owned()));
    }
    let fits = |pattern: &String| pattern.len() <= MAX_EXCLUDE_BYTES && !pattern.contains('\0');
    if request.excludes.len() > MAX_EXCLUDES || !request.excludes.iter().all(fits) {
        let text =
            format!("exclude: at most {MAX_EXCLUDES} patterns of at most {MAX_EXCLUDE_BYTES} bytes, without NUL");
        return Err(ArchiveError::Refused(text));
    }
    Ok(())
}

async fn pack(root: PathBuf, excludes: Excludes, limit: u64, mut scratch: File) -> Result<File, ArchiveError> {
    blocking(move || {
        tarball::write(&root, &excludes, limit, &mut scratch).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => FileError::TooLarge { limit },
            _ => failed(error),
        })?;
        scratch.rewind().map_err(failed)?;
        Ok(scratch)
    })
    .await
}

fn failed(source: io::Error) -> FileError {
    FileError::failed("archive directory", source)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, ArchiveError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.unwrap_or_else(|error| Err(failed(io::Error::other(error))))?)
}

/// The directory to pack, whether it is a repository, and a scratch file. Blocking.
fn prepare(path: &Path) -> Result<(PathBuf, bool, File), FileError> {
    let real = path.canonicalize().map_err(|_| FileError::DirectoryNotFound)?;
    if !real.is_dir() {
        return Err(FileError::NotADirectory);
    }
    // Beside the directory, never in it: it would pack itself.
    let scratch = real.parent().and_then(|parent| tempfile::tempfile_in(parent).ok());
    let scratch = scratch.map_or_else(tempfile::tempfile, Ok).map_err(failed)?;
    let root = repository_below(&real).unwrap_or(real);
    let is_repository = root.join(".git").exists();
    Ok((root, is_repository, scratch))
}

/// The only repository below a directory that is none itself, some levels down.
fn repository_below(directory: &Path) -> Option<PathBuf> {
    if directory.join(".git").exists() {
        return None;
    }
    let mut found = None;
    let mut waiting = vec![(directory.to_owned(), 0)];
    let mut visited = 0;
    while let Some((current, depth)) = waiting.pop() {
        visited += 1;
        if visited > MAX_VISITED {
            return None;
        }
        for child in std::fs::read_dir(current).into_iter().flatten().flatten() {
            let name = child.file_name();
            let name = name.to_string_lossy();
            let is_directory = child.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_directory || name.starts_with('.') || NOT_SEARCHED.contains(&name.as_ref()) {
                continue;
            }
            if child.path().join(".git").exists() {
                if found.is_some() {
                    // Several: the caller has to say which.
                    return None;
                }
                found = Some(child.path());
            } else if depth + 1 < MAX_DEPTH {
                waiting.push((child.path(), depth + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, process::Command};

    use tempfile::TempDir;

    use super::*;

    fn git(directory: &Path, arguments: &[&str]) {
        let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
        let status = Command::new("git").args(identity).args(arguments).current_dir(directory).status().unwrap();
        assert!(status.success());
    }

    fn request(path: &Path, format: ArchiveFormat) -> ArchiveRequest {
        ArchiveRequest {
            path: path.display().to_string(),
            format,
            base_ref: None,
            default_excludes: true,
            excludes: Vec::new(),
            limit: 1 << 20,
        }
    }

    fn repository(at: &Path) {
        std::fs::create_dir_all(at).unwrap();
        git(at, &["init", "-q", "-b", "main"]);
        std::fs::write(at.join("file"), "one\n").unwrap();
        git(at, &["add", "-A"]);
        git(at, &["commit", "-q", "-m", "one"]);
        git(at, &["checkout", "-q", "--detach"]);
        git(at, &["remote", "add", "origin", "https://user:token@host/a.git"]);
        std::fs::write(at.join("file"), "two\n").unwrap();
    }

    async fn text(archive: Archive) -> String {
        let mut file = archive.download.file;
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text.len() as u64, archive.download.size);
        text
    }

    #[tokio::test]
    async fn the_only_repository_below_is_packed_as_a_patch() {
        let directory = TempDir::new().unwrap();
        let root = directory.path().join("group/repo");
        repository(&root);
        let archive = GitReader::default().archive(request(directory.path(), ArchiveFormat::GitDelta)).await.unwrap();
        assert_eq!((archive.download.name.as_str(), archive.is_repository), ("repo.patch", true));
        assert_eq!(archive.remote.as_deref(), Some("https://host/a.git"));
        assert_eq!(archive.branch.as_deref(), Some("DETACHED"));
        assert_eq!((archive.base.is_some(), &archive.base), (true, &archive.head));
        let patch = text(archive).await;
        assert!(patch.contains("-one\n+two\n"), "{patch}");
    }

    #[tokio::test]
    async fn several_repositories_are_packed_as_they_are() {
        let directory = TempDir::new().unwrap();
        repository(&directory.path().join("one"));
        repository(&directory.path().join("two"));
        let reader = GitReader::default();
        let error = reader.archive(request(directory.path(), ArchiveFormat::GitDelta)).await.unwrap_err();
        assert!(matches!(error, ArchiveError::Git(GitError::NotARepository(_))), "{error}");
        let archive = reader.archive(request(directory.path(), ArchiveFormat::TarGz)).await.unwrap();
        assert_eq!((archive.root, archive.is_repository), (directory.path().canonicalize().unwrap(), false));
    }

    #[tokio::test]
    async fn wrong_requests_are_refused_with_a_reason() {
        let directory = TempDir::new().unwrap();
        let root = directory.path().join("repo");
        repository(&root);
        let refused = async |change: fn(&mut ArchiveRequest)| {
            let mut request = request(&root, ArchiveFormat::GitDelta);
            change(&mut request);
            GitReader::default().archive(request).await.unwrap_err().to_string()
        };
        assert_eq!(refused(|request| request.path = "relative".to_owned()).await, "Path must be absolute");
        assert_eq!(refused(|request| request.path = "/no/where".to_owned()).await, "Directory not found");
        assert_eq!(refused(|request| request.path.push_str("/file")).await, "Path is not a directory");
        assert_eq!(
            refused(|request| request.base_ref = Some("-x".to_owned())).await,
            "base_ref must not start with '-'"
        );
        assert_eq!(
            refused(|request| request.base_ref = Some("nope".to_owned())).await,
            "base_ref 'nope' could not be resolved"
        );
        assert_eq!(refused(|request| request.limit = 3).await, "larger than the limit of 3 bytes");
        assert!(
            refused(|request| request.excludes = vec!["x".to_owned(); 201]).await.starts_with("exclude: at most 200")
        );
    }

    #[tokio::test]
    async fn nothing_is_left_beside_the_directory() {
        let directory = TempDir::new().unwrap();
        let root = directory.path().join("repo");
        repository(&root);
        for format in [ArchiveFormat::TarGz, ArchiveFormat::GitDelta] {
            let archive = GitReader::default().archive(request(&root, format)).await.unwrap();
            assert!(archive.download.size > 0);
            let names: Vec<_> =
                std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, ["repo"]);
        }
    }
}

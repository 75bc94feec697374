//! Makes and lists directories.

use std::{io, path::Path};

use openhands_protocol::file::{FileBrowserEntry, HomeResponse, SubdirectoryEntry, SubdirectoryPage};

use super::{FileError, absolute};

/// Most directories that the home listing shows.
const MAX_FAVORITES: usize = 50;
/// Most directories of a listing that are looked at.
const MAX_LISTED: usize = 100_000;

/// Makes a directory with its parents; one that is there is left as it is.
///
/// # Errors
/// When the path is not absolute, something on it is no directory, or it cannot be made.
pub async fn create_directory(path: &str) -> Result<(), FileError> {
    let path = absolute(path)?;
    blocking(move || {
        std::fs::create_dir_all(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => FileError::ExistsNotADirectory,
            io::ErrorKind::PermissionDenied => FileError::PermissionDenied(path.display().to_string()),
            _ => FileError::failed("create directory", error),
        })
    })
    .await
}

/// Which directories a listing shows.
#[derive(Clone, Debug)]
pub struct SubdirectorySearch {
    /// The directory, absolute.
    pub path: String,
    /// The name the page starts with: `next_page_id` of the page before. What is not known starts at the beginning.
    pub page_id: Option<String>,
    /// Most entries of the page.
    pub limit: usize,
    /// Whether names that start with a dot are shown.
    pub include_hidden: bool,
}

/// One page of a directory's subdirectories, by name without regard to case. Files and links are left out.
///
/// # Errors
/// When the path is not absolute, does not exist, is no directory or cannot be read.
pub async fn search_subdirectories(search: SubdirectorySearch) -> Result<SubdirectoryPage, FileError> {
    let path = absolute(&search.path)?;
    blocking(move || {
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(FileError::NotADirectory),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(FileError::PermissionDenied(path.display().to_string()));
            }
            Err(_) => return Err(FileError::DirectoryNotFound),
        }
        let mut names = subdirectories(&path, search.include_hidden).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => FileError::PermissionDenied(path.display().to_string()),
            _ => FileError::failed("list directory", error),
        })?;
        // The exact name breaks ties, so that every entry has a place of its own.
        names.sort_by_cached_key(|name| (name.to_lowercase(), name.clone()));
        let from = search.page_id.map_or(0, |page| first_of_page(&names, &page));
        let rest = names.get(from..).unwrap_or_default();
        let next_page_id = rest.get(search.limit).cloned();
        let entry =
            |name: &String| SubdirectoryEntry { name: name.clone(), path: path.join(name).display().to_string() };
        Ok(SubdirectoryPage { items: rest.iter().take(search.limit).map(entry).collect(), next_page_id })
    })
    .await
}

fn first_of_page(names: &[String], page: &str) -> usize {
    let exact = names.iter().position(|name| name == page);
    exact.or_else(|| names.iter().position(|name| name.to_lowercase() == page)).unwrap_or(0)
}

/// The home directory of the server's user, its subdirectories and the root.
pub async fn home(include_hidden: bool) -> HomeResponse {
    let home = std::env::home_dir().filter(|home| home.is_absolute()).unwrap_or_else(|| "/".into());
    let entries = blocking(move || {
        // A home that cannot be read has no favourites.
        let mut names = subdirectories(&home, include_hidden).unwrap_or_default();
        names.sort_by_cached_key(|name| name.to_lowercase());
        names.truncate(MAX_FAVORITES);
        let entry = |name: String| FileBrowserEntry { path: home.join(&name).display().to_string(), label: name };
        let favorites = names.into_iter().map(entry).collect();
        Ok((home.display().to_string(), favorites))
    });
    let (home, favorites) = entries.await.unwrap_or_else(|_: FileError| ("/".to_owned(), Vec::new()));
    let root = FileBrowserEntry { label: "/".to_owned(), path: "/".to_owned() };
    HomeResponse { home, favorites, locations: vec![root] }
}

fn subdirectories(path: &Path, include_hidden: bool) -> io::Result<Vec<String>> {
    let names = std::fs::read_dir(path)?.flatten().filter_map(|entry| {
        // Does not follow links. A name that is no text could not be asked for again.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name().into_string().ok()?;
        (is_directory && (include_hidden || !name.starts_with('.'))).then_some(name)
    });
    Ok(names.take(MAX_LISTED).collect())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(FileError::failed("reach the disk", io::Error::other(error))))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    async fn list(
        directory: &TempDir,
        page_id: Option<&str>,
        limit: usize,
        include_hidden: bool,
    ) -> (Vec<String>, Option<String>) {
        let path = directory.path().display().to_string();
        let page_id = page_id.map(str::to_owned);
        let page = search_subdirectories(SubdirectorySearch { path, page_id, limit, include_hidden }).await.unwrap();
        (page.items.into_iter().map(|entry| entry.name).collect(), page.next_page_id)
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test]
    async fn directories_are_listed_in_pages() {
        let directory = TempDir::new().unwrap();
        for name in ["b", "A", "a", "C", ".hidden"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        std::fs::write(directory.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("a", directory.path().join("link")).unwrap();
        assert_eq!(list(&directory, None, 100, false).await, (owned(&["A", "a", "b", "C"]), None));
        assert_eq!(list(&directory, None, 100, true).await, (owned(&[".hidden", "A", "a", "b", "C"]), None));
        assert_eq!(list(&directory, None, 1, false).await, (owned(&["A"]), Some("a".to_owned())));
        assert_eq!(list(&directory, Some("a"), 2, false).await, (owned(&["a", "b"]), Some("C".to_owned())));
        assert_eq!(list(&directory, Some("c"), 2, false).await, (owned(&["C"]), None));
        assert_eq!(list(&directory, Some("unknown"), 1, false).await, (owned(&["A"]), Some("a".to_owned())));
    }

    #[tokio::test]
    async fn paths_are_absolute() {
        let directory = TempDir::new().unwrap();
        std::fs::create_dir(directory.path().join("a")).unwrap();
        let path = directory.path().display().to_string();
        let page = search_subdirectories(SubdirectorySearch {
            path: path.clone(),
            page_id: None,
            limit: 1,
            include_hidden: false,
        });
        assert_eq!(page.await.unwrap().items, [SubdirectoryEntry { name: "a".to_owned(), path: format!("{path}/a") }]);
    }

    #[tokio::test]
    async fn wrong_paths_are_told_apart() {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let list = async |path: &str| {
            let search = SubdirectorySearch { path: path.to_owned(), page_id: None, limit: 1, include_hidden: false };
            search_subdirectories(search).await.unwrap_err().to_string()
        };
        assert_eq!(list("relative").await, "Path must be absolute");
        assert_eq!(list("/no/where").await, "Directory not found");
        assert_eq!(list(file.to_str().unwrap()).await, "Path is not a directory");
        let create = async |path: &Path| create_directory(path.to_str().unwrap()).await.unwrap_err().to_string();
        assert_eq!(create(Path::new("relative")).await, "Path must be absolute");
        assert_eq!(create(&file).await, "Path exists and is not a directory");
        assert_eq!(create(&file.join("x")).await, "Path exists and is not a directory");
    }

    #[tokio::test]
    async fn creation_may_be_repeated() {
        let directory = TempDir::new().unwrap();
        let made = directory.path().join("made/dir");
        for _ in 0..2 {
            create_directory(made.to_str().unwrap()).await.unwrap();
            assert!(made.is_dir());
        }
    }

    #[tokio::test]
    async fn home_has_a_root() {
        let answer = home(false).await;
        assert!(Path::new(&answer.home).is_absolute());
        assert_eq!(answer.locations, [FileBrowserEntry { label: "/".to_owned(), path: "/".to_owned() }]);
        assert!(answer.favorites.iter().all(|entry| Path::new(&entry.path).is_dir() && !entry.label.starts_with('.')));
    }
}

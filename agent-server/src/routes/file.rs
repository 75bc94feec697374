//! `/api/file`: files and directories of the pod, by absolute path.

mod receive;
mod send;
mod trajectory;

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, HeaderName, HeaderValue},
    response::Response,
    routing::{get, post},
};
use openhands_protocol::file::{ArchiveFormat, HomeResponse, SubdirectoryPage};
use openhands_workspace::{
    archive::{Archive, ArchiveError, ArchiveRequest},
    file::{Download, FileError, SubdirectorySearch, create_directory, home, search_subdirectories},
};
use serde_json::{Value, json};

use crate::{error::ApiError, extract::Ready, query::Query, state::AppState};

use self::send::{percent_encoded, send};

/// Most bytes of an archive (patch) or of the files in it (tarball).
const MAX_ARCHIVE: u64 = 16 * 1024 * 1024 * 1024;

/// The parameter that names the conversation of a trajectory, where another one is in the path already.
pub(super) const TRAJECTORY: &str = "trajectory_id";

/// The routes.
pub fn router() -> Router<AppState> {
    router_at("/api")
        .route("/api/file/search_subdirs", get(search))
        .route("/api/file/home", get(home_directory))
        .route("/api/file/download-trajectory/{conversation_id}", get(trajectory::download))
}

/// The routes of one conversation.
pub(super) fn bound_router(prefix: &str) -> Router<AppState> {
    // Whoever binds the request checks that both ids are the same.
    router_at(prefix).route(&format!("{prefix}/file/download-trajectory/{{{TRAJECTORY}}}"), get(trajectory::download))
}

fn router_at(prefix: &str) -> Router<AppState> {
    let at = |path: &str| format!("{prefix}/file/{path}");
    Router::new()
        // An upload is not held in memory, so it has its own limit.
        .route(&at("upload"), post(receive::upload).layer(DefaultBodyLimit::disable()))
        .route(&at("download"), get(download))
        .route(&at("create_directory"), post(create))
        .route(&at("archive"), get(archive))
}

impl From<FileError> for ApiError {
    fn from(error: FileError) -> Self {
        let text = error.to_string();
        match error {
            FileError::NotAbsolute
            | FileError::NotAFile
            | FileError::NotADirectory
            | FileError::IsADirectory
            | FileError::ParentNotADirectory
            | FileError::ExistsNotADirectory => Self::BadRequest(text),
            FileError::FileNotFound | FileError::DirectoryNotFound => Self::Missing(text),
            FileError::PermissionDenied(_) => Self::Forbidden(text),
            FileError::TooLarge { .. } => Self::TooLarge(text),
            FileError::Failed { .. } => {
                tracing::error!(error = text, "file request failed");
                Self::Failed(text)
            }
        }
    }
}

impl From<ArchiveError> for ApiError {
    fn from(error: ArchiveError) -> Self {
        use openhands_workspace::git::GitError;
        match error {
            ArchiveError::File(error) => error.into(),
            ArchiveError::Refused(text) => Self::BadRequest(text),
            ArchiveError::Git(error @ GitError::NotARepository(_)) => Self::BadRequest(error.to_string()),
            ArchiveError::Git(error) => Self::Failed(format!("Failed to generate git delta: {error}")),
        }
    }
}

async fn download(
    _: Ready,
    State(state): State<AppState>,
    headers: HeaderMap,
    mut query: Query,
) -> Result<Response, ApiError> {
    let path = query.required("path");
    query.finish()?;
    state.clock().touch();
    send(Download::open(&path).await?, "application/octet-stream", &headers).await
}

async fn create(_: Ready, State(state): State<AppState>, mut query: Query) -> Result<Json<Value>, ApiError> {
    let path = query.required("path");
    query.finish()?;
    state.clock().touch();
    create_directory(&path).await?;
    Ok(Json(json!({ "success": true })))
}

async fn search(_: Ready, mut query: Query) -> Result<Json<SubdirectoryPage>, ApiError> {
    let path = query.required("path");
    let limit = query.limit();
    let include_hidden = query.flag("include_hidden");
    query.finish()?;
    let page_id = query.text("page_id").filter(|page| !page.is_empty()).map(str::to_owned);
    Ok(Json(search_subdirectories(SubdirectorySearch { path, page_id, limit, include_hidden }).await?))
}

async fn home_directory(_: Ready, mut query: Query) -> Result<Json<HomeResponse>, ApiError> {
    let include_hidden = query.flag("include_hidden");
    query.finish()?;
    Ok(Json(home(include_hidden).await))
}

async fn archive(
    Ready(app): Ready,
    State(state): State<AppState>,
    headers: HeaderMap,
    mut query: Query,
) -> Result<Response, ApiError> {
    let path = query.required("path");
    let formats = [ArchiveFormat::GitDelta, ArchiveFormat::TarGz];
    let format = query.literal("format", &[("git-delta", formats[0]), ("tar.gz", formats[1])]);
    let default_excludes = query.text("use_default_excludes").is_none() || query.flag("use_default_excludes");
    query.finish()?;
    state.clock().touch();
    let format = format.unwrap_or(ArchiveFormat::GitDelta);
    let base_ref = query.text("base_ref").map(str::to_owned);
    let excludes = query.all("exclude").into_iter().map(str::to_owned).collect();
    let request =
        ArchiveRequest { path, format, base_ref: base_ref.clone(), default_excludes, excludes, limit: MAX_ARCHIVE };
    let archive = app.git.archive(request).await?;
    let described = description(&archive, base_ref);
    let mut response = send(archive.download, format.media_type(), &headers).await?;
    for (name, value) in described {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    Ok(response)
}

/// What the archive is of, so that whoever keeps it can replay it.
fn description(archive: &Archive, base_ref: Option<String>) -> Vec<(&'static str, String)> {
    let escaped = |text: &Option<String>| text.as_deref().map(percent_encoded);
    let root = archive.is_repository.then(|| percent_encoded(&archive.root.to_string_lossy()));
    let base_ref = archive.base.as_ref().map(|_| base_ref.unwrap_or_else(|| "auto".to_owned()));
    let all = [
        ("x-archive-repo-remote", escaped(&archive.remote)),
        ("x-archive-branch", escaped(&archive.branch)),
        ("x-archive-head-commit", escaped(&archive.head)),
        ("x-archive-repo-root", root),
        ("x-archive-base-commit", archive.base.clone()),
        ("x-archive-base-ref", base_ref),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

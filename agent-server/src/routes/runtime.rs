//! `/api/conversations/{id}/bash|file|git`: the routes of the same names, bound to one conversation. Paths must lie in its
//! workspace, commands run there and have events of their own. The check of paths keeps requests in their place; it is no
//! sandbox for commands.

use std::path::{Component, Path, PathBuf};

use axum::{
    Router,
    extract::{FromRequestParts, Request, State},
    middleware::{self, Next},
    response::Response,
};
use openhands_protocol::ConversationId;

use super::{bash, file, git};
use crate::{
    error::ApiError,
    extract::{ConversationPath, Ready, path_parameter},
    query::Query,
    service::ServiceError,
    state::AppState,
};

/// Where the routes are.
const PREFIX: &str = "/api/conversations/{conversation_id}";

/// The routes.
pub fn router(state: &AppState) -> Router<AppState> {
    bash::router_at(PREFIX)
        .merge(file::bound_router(PREFIX))
        .merge(git::router_at(PREFIX))
        .route_layer(middleware::from_fn_with_state(state.clone(), bind))
}

async fn bind(State(state): State<AppState>, request: Request, next: Next) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    let Ready(app) = Ready::from_request_parts(&mut parts, &state).await?;
    let ConversationPath(id) = ConversationPath::from_request_parts(&mut parts, &state).await?;
    let conversation = app.conversations.get(id).await.map_err(|error| match error {
        ServiceError::Unknown => ApiError::Missing("Conversation not found".to_owned()),
        other => other.into(),
    })?;
    let info = conversation.info();
    let working_dir = info.pointer("/workspace/working_dir").and_then(serde_json::Value::as_str).unwrap_or_default();
    let root = resolved(PathBuf::from(working_dir)).await;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    if let Some(path) = query.text("path") {
        let inside = Path::new(path).is_absolute() && resolved(path.into()).await.starts_with(&root);
        if !inside {
            return Err(ApiError::Unprocessable("path must be inside the conversation workspace".to_owned()));
        }
    }
    if let Ok(trajectory) = path_parameter(&mut parts, &state, file::TRAJECTORY).await {
        match trajectory.parse::<ConversationId>() {
            Ok(other) if other == id => {}
            Ok(_) => {
                let text = "Trajectory must belong to the selected conversation";
                return Err(ApiError::Unprocessable(text.to_owned()));
            }
            Err(_) => return Err(ApiError::Unprocessable("Invalid trajectory conversation id".to_owned())),
        }
    }
    let commands = app.commands.of(id, &app.conversations.root().join(id.hex()), &root);
    parts.extensions.insert(bash::Shell(commands));
    // Held until the answer is there, so that the conversation stays awake.
    let answer = next.run(Request::from_parts(parts, body)).await;
    drop(conversation);
    Ok(answer)
}

/// A path without links and dots; what does not exist is taken as it is written.
async fn resolved(path: PathBuf) -> PathBuf {
    let mut missing = Vec::new();
    let mut existing = path.as_path();
    loop {
        if let Ok(real) = tokio::fs::canonicalize(existing).await {
            return missing.iter().rev().fold(real, |path, part| normal(path, part));
        }
        let (Some(parent), Some(last)) = (existing.parent(), existing.components().next_back()) else { return path };
        missing.push(last);
        existing = parent;
    }
}

fn normal(mut path: PathBuf, part: &Component<'_>) -> PathBuf {
    match part {
        Component::ParentDir => {
            path.pop();
        }
        Component::Normal(name) => path.push(name),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn paths_are_resolved_as_far_as_they_exist() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        for (given, expected) in [
            ("real/new", "real/new"),
            ("link/new/x", "real/new/x"),
            ("link/../y", "y"),
            ("none/../../z", "../z"),
            ("", ""),
        ] {
            let expected = if expected == "../z" { root.parent().unwrap().join("z") } else { root.join(expected) };
            assert_eq!(resolved(root.join(given)).await, expected.components().collect::<PathBuf>(), "{given}");
        }
    }
}

//! What the reference's API has and this version has not: answered with 501 that names the operation, never with a pretended
//! success. A row leaves this table when its operation arrives.

use axum::{Router, routing};

use crate::{error::ApiError, state::AppState};

/// Method and path.
const OPERATIONS: &[(&str, &str)] = &[
    ("GET", "/api/conversations/{conversation_id}/workspace"),
    ("GET", "/api/conversations/{conversation_id}/workspace/{*file_path}"),
    ("GET", "/api/conversations/{conversation_id}/vscode/url"),
    ("GET", "/api/conversations/{conversation_id}/vscode/status"),
    ("POST", "/api/conversations/{conversation_id}/goal"),
    ("POST", "/api/conversations/{conversation_id}/goal/stop"),
    ("POST", "/api/conversations/{conversation_id}/goal/resume"),
    ("POST", "/api/conversations/{conversation_id}/load_plugin"),
    ("POST", "/api/conversations/{conversation_id}/switch_acp_model"),
    ("POST", "/api/conversations/{conversation_id}/children"),
    ("POST", "/api/conversations/{conversation_id}/navigate"),
    ("GET", "/api/tools/catalog"),
    ("GET", "/api/skills/catalog"),
    ("POST", "/api/skills/sync"),
    ("POST", "/api/skills/install"),
    ("GET", "/api/skills/installed"),
    ("GET", "/api/skills/installed/{skill_name}"),
    ("PATCH", "/api/skills/installed/{skill_name}"),
    ("DELETE", "/api/skills/installed/{skill_name}"),
    ("POST", "/api/skills/installed/{skill_name}/refresh"),
    ("GET", "/api/skills/marketplace"),
    ("POST", "/api/sub-agents"),
    ("POST", "/api/plugins"),
    ("POST", "/api/plugins/fetch"),
    ("POST", "/api/plugins/install"),
    ("GET", "/api/plugins/installed"),
    ("GET", "/api/plugins/installed/{plugin_name}"),
    ("PATCH", "/api/plugins/installed/{plugin_name}"),
    ("DELETE", "/api/plugins/installed/{plugin_name}"),
    ("POST", "/api/plugins/installed/{plugin_name}/refresh"),
    ("GET", "/api/plugins/marketplace"),
    ("POST", "/api/canvas-extensions/install"),
    ("GET", "/api/canvas-extensions/installed"),
    ("GET", "/api/canvas-extensions/installed/{extension_name}"),
    ("PATCH", "/api/canvas-extensions/installed/{extension_name}"),
    ("DELETE", "/api/canvas-extensions/installed/{extension_name}"),
    ("GET", "/api/canvas-extensions/installed/{extension_name}/backend"),
    ("POST", "/api/canvas-extensions/installed/{extension_name}/backend/prepare"),
    ("POST", "/api/canvas-extensions/installed/{extension_name}/backend/start"),
    ("POST", "/api/canvas-extensions/installed/{extension_name}/backend/stop"),
    ("GET", "/api/canvas-extensions/installed/{extension_name}/backend/logs"),
    ("DELETE", "/api/canvas-extensions/installed/{extension_name}/backend/data"),
    ("GET", "/api/canvas-extensions/installed/{extension_name}/bundle"),
    ("GET", "/api/canvas-extensions/installed/{extension_name}/icon"),
    ("POST", "/api/hooks"),
    ("POST", "/api/acp/models"),
    ("POST", "/api/mcp/test"),
    ("POST", "/api/mcp/oauth/start"),
    ("GET", "/api/mcp/oauth/status/{job_id}"),
    ("POST", "/api/mcp/oauth/callback/{job_id}"),
    ("POST", "/api/settings/mcp/{settings_key}"),
    ("PATCH", "/api/settings/mcp/{settings_key}"),
    ("DELETE", "/api/settings/mcp/{settings_key}"),
    ("GET", "/api/workspaces"),
    ("POST", "/api/workspaces"),
    ("DELETE", "/api/workspaces"),
    ("POST", "/api/workspaces/parents"),
    ("DELETE", "/api/workspaces/parents"),
    ("GET", "/api/agent-profiles"),
    ("GET", "/api/agent-profiles/{name}"),
    ("POST", "/api/agent-profiles/{name}"),
    ("DELETE", "/api/agent-profiles/{name}"),
    ("POST", "/api/agent-profiles/{name}/rename"),
    ("POST", "/api/agent-profiles/{name}/activate"),
    ("POST", "/api/agent-profiles/{name}/materialize"),
    ("GET", "/api/meta-profiles"),
    ("GET", "/api/meta-profiles/{name}"),
    ("POST", "/api/meta-profiles/{name}"),
    ("DELETE", "/api/meta-profiles/{name}"),
    ("POST", "/api/meta-profiles/{name}/activate"),
    ("POST", "/api/auth/workspace-session"),
    ("DELETE", "/api/auth/workspace-session"),
    ("POST", "/app-backends/{extension_name}/session"),
    ("DELETE", "/app-backends/{extension_name}/session"),
];

/// The routes.
pub fn router() -> Router<AppState> {
    OPERATIONS.iter().fold(Router::new(), |router, (method, path)| {
        let refuse = move || async move { ApiError::NotSupported(format!("{method} {path}")) };
        let route = match *method {
            "GET" => routing::get(refuse),
            "PUT" => routing::put(refuse),
            "PATCH" => routing::patch(refuse),
            "DELETE" => routing::delete(refuse),
            _ => routing::post(refuse),
        };
        router.route(path, route)
    })
}

/// The paths, for redirects.
pub fn templates() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|(_, path)| *path)
}

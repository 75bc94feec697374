//! `/api/git`: what changed in a repository. Outside a repository nothing has changed, so the answers are empty.

use std::path::Path;

use axum::{
    Json, Router,
    extract::{Request, State},
    routing::get,
};
use openhands_protocol::git::{GitChange, GitCommitsPage, GitDiff, GitProvider, GitProviderRepositoryPage};
use openhands_workspace::git::GitError;
use serde_json::json;

use crate::{
    error::ApiError,
    extract::{Ready, path_parameter},
    query::Query,
    state::AppState,
    validation::Problem,
};

/// What a commit's name looks like. Nothing else may reach git's command line.
const SHA_PATTERN: &str = "^[0-9a-fA-F]{4,64}$";

/// The routes.
pub fn router() -> Router<AppState> {
    router_at("/api").route("/api/git/repositories/search", get(repositories))
}

/// The routes of repositories on disk, below a path.
pub(super) fn router_at(prefix: &str) -> Router<AppState> {
    let at = |path: &str| format!("{prefix}/git/{path}");
    Router::new()
        .route(&at("changes"), get(changes))
        .route(&at("diff"), get(diff))
        .route(&at("commits"), get(commits))
        .route(&at("commits/{sha}/changes"), get(commit_changes))
}

impl From<GitError> for ApiError {
    fn from(error: GitError) -> Self {
        match error {
            GitError::NotInstalled | GitError::Broken { .. } => Self::Failed(error.to_string()),
            GitError::Run { .. } => Self::internal(error),
            GitError::NotARepository(_)
            | GitError::UnknownRevision(_)
            | GitError::Path(_)
            | GitError::Command { .. }
            | GitError::Timeout { .. }
            | GitError::TooLarge { .. } => Self::BadRequest(error.to_string()),
        }
    }
}

/// The answer, or its empty form outside a repository.
fn or_empty<T: Default>(answer: Result<T, GitError>) -> Result<Json<T>, ApiError> {
    match answer {
        Ok(answer) => Ok(Json(answer)),
        Err(GitError::NotARepository(_)) => Ok(Json(T::default())),
        Err(error) => Err(error.into()),
    }
}

async fn changes(
    Ready(app): Ready,
    State(state): State<AppState>,
    mut query: Query,
) -> Result<Json<Vec<GitChange>>, ApiError> {
    let path = query.required("path");
    query.finish()?;
    state.clock().touch();
    or_empty(app.git.changes(Path::new(&path), query.text("ref")).await)
}

async fn diff(Ready(app): Ready, State(state): State<AppState>, mut query: Query) -> Result<Json<GitDiff>, ApiError> {
    let path = query.required("path");
    let commit = query.text("commit").map(str::to_owned);
    if let Some(commit) = &commit
        && !is_sha(commit)
    {
        query.problem(not_a_sha("query", "commit", commit));
    }
    query.finish()?;
    state.clock().touch();
    let path = Path::new(&path);
    match (query.text("ref"), commit) {
        (Some(_), Some(_)) => Err(ApiError::BadRequest("'ref' and 'commit' are mutually exclusive".to_owned())),
        (None, Some(commit)) => or_empty(app.git.commit_diff(path, &commit).await),
        (reference, None) => or_empty(app.git.diff(path, reference).await),
    }
}

async fn commits(
    Ready(app): Ready,
    State(state): State<AppState>,
    mut query: Query,
) -> Result<Json<GitCommitsPage>, ApiError> {
    let path = query.required("path");
    let limit = number(&mut query, "limit", 50, 200);
    query.finish()?;
    state.clock().touch();
    or_empty(app.git.commits(Path::new(&path), limit).await)
}

async fn commit_changes(
    Ready(app): Ready,
    State(state): State<AppState>,
    request: Request,
) -> Result<Json<Vec<GitChange>>, ApiError> {
    let (mut parts, _) = request.into_parts();
    let sha = path_parameter(&mut parts, &state, "sha").await?;
    let mut query = Query::parse(parts.uri.query().unwrap_or_default());
    if !is_sha(&sha) {
        query.problem(not_a_sha("path", "sha", &sha));
    }
    let path = query.required("path");
    query.finish()?;
    state.clock().touch();
    or_empty(app.git.commit_changes(Path::new(&path), &sha).await)
}

/// Repositories of a hosting provider. The tokens for it live in the settings' secrets, which this version does not keep, so
/// the answer is that of a server without a token.
async fn repositories(_: Ready, mut query: Query) -> Result<Json<GitProviderRepositoryPage>, ApiError> {
    let known = [GitProvider::Github, GitProvider::Gitlab, GitProvider::Bitbucket, GitProvider::AzureDevops];
    if query.text("provider").is_none() {
        query.required("provider");
    }
    let provider = query.choice("provider", &known.map(|provider| (provider.name(), provider)));
    number(&mut query, "limit", 100, 100);
    query.finish()?;
    match provider {
        Some(GitProvider::Github) => {
            Ok(Json(GitProviderRepositoryPage { missing_token: true, ..GitProviderRepositoryPage::default() }))
        }
        other => {
            let name = other.map_or("", GitProvider::name);
            Err(ApiError::BadRequest(format!("Repository discovery is not supported for provider '{name}'")))
        }
    }
}

/// A whole number from 1 to `high`.
fn number(query: &mut Query, name: &str, default: usize, high: usize) -> usize {
    let Some(text) = query.text(name).map(str::to_owned) else { return default };
    let problem = match text.trim().parse::<i128>() {
        Err(_) => {
            let msg = "Input should be a valid integer, unable to parse string as an integer";
            Problem::new("int_parsing", ["query", name], msg)
        }
        Ok(value) if value < 1 => {
            let msg = "Input should be greater than or equal to 1";
            Problem::new("greater_than_equal", ["query", name], msg).ctx(json!({ "ge": 1 }))
        }
        Ok(value) => match usize::try_from(value) {
            Ok(value) if value <= high => return value,
            _ => {
                let msg = format!("Input should be less than or equal to {high}");
                Problem::new("less_than_equal", ["query", name], msg).ctx(json!({ "le": high }))
            }
        },
    };
    query.problem(problem.input(text));
    default
}

fn is_sha(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn not_a_sha(place: &str, name: &str, text: &str) -> Problem {
    let msg = format!("String should match pattern '{SHA_PATTERN}'");
    Problem::new("string_pattern_mismatch", [place, name], msg).input(text).ctx(json!({ "pattern": SHA_PATTERN }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hexadecimal_names_of_commits_pass() {
        for (text, expected) in
            [("abcd", true), ("ABCDEF0123", true), ("abc", false), ("--all", false), ("HEAD~1", false)]
        {
            assert_eq!(is_sha(text), expected, "{text}");
        }
        assert!(!is_sha(&"a".repeat(65)));
    }

    #[test]
    fn limits_start_at_one() {
        for (text, kind) in
            [("limit=0", "greater_than_equal"), ("limit=201", "less_than_equal"), ("limit=x", "int_parsing")]
        {
            let mut query = Query::parse(text);
            number(&mut query, "limit", 50, 200);
            let Err(ApiError::Invalid(problems)) = query.finish() else { panic!("{text}") };
            assert_eq!(problems[0].kind, kind);
        }
        assert_eq!(number(&mut Query::parse("limit=200"), "limit", 50, 200), 200);
        assert_eq!(number(&mut Query::parse(""), "limit", 50, 200), 50);
    }
}

//! Paths that differ from a route only by a slash at the end are redirected there, as the reference does.

use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::{error::ApiError, openapi, routes::unsupported};

/// 307 to the route with or without the slash, else 404.
pub async fn redirect_or_not_found(request: Request) -> Response {
    let uri = request.uri();
    let path = uri.path();
    let other = match path.strip_suffix('/') {
        Some(without) if !without.is_empty() => without.to_owned(),
        Some(_) => return ApiError::NotFound.into_response(),
        None => format!("{path}/"),
    };
    let known = openapi::templates().chain(unsupported::templates()).any(|template| matches(template, &other));
    if !known {
        return ApiError::NotFound.into_response();
    }
    let target = uri.query().map_or_else(|| other.clone(), |query| format!("{other}?{query}"));
    match HeaderValue::try_from(target) {
        Ok(target) => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, target)]).into_response(),
        Err(_) => ApiError::NotFound.into_response(),
    }
}

/// Whether a path is one of a template with `{parameters}`.
fn matches(template: &str, path: &str) -> bool {
    let (mut want, mut have) = (template.split('/'), path.split('/'));
    loop {
        match (want.next(), have.next()) {
            (None, None) => return true,
            (Some(want), Some(have)) if want == have => {}
            (Some(want), Some(have)) if want.starts_with('{') && !have.is_empty() => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_match_whole_paths() {
        assert!(matches("/a/{id}/b", "/a/1/b"));
        assert!(matches("/a/", "/a/"));
        assert!(!matches("/a/{id}", "/a/"));
        assert!(!matches("/a/{id}", "/a/1/b"));
        assert!(!matches("/a", "/b"));
    }
}

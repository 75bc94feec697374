//! Takes a file out of a multipart body as it arrives.

use std::time::Duration;

use axum::{
    Json,
    extract::{FromRequest as _, Multipart, Request, State, multipart::Field},
};
use openhands_protocol::file::FileUploadResult;
use openhands_workspace::file::Upload;
use serde_json::{Value, json};

use crate::{error::ApiError, extract::Ready, query::Query, state::AppState, validation::Problem};

/// Most bytes of one file.
const MAX_UPLOAD: u64 = 16 * 1024 * 1024 * 1024;
/// How long the next piece may take to arrive.
const PIECE_WAIT: Duration = Duration::from_secs(120);
/// Most bytes that are read only to be able to answer a client that is still sending.
const MAX_DRAINED: usize = 64 * 1024 * 1024;
/// Longest text that is taken for a file by mistake and repeated in the answer.
const MAX_TEXT: usize = 256;

/// `POST /api/file/upload?path=`, the file in the part `file`.
pub(super) async fn upload(
    _: Ready,
    State(state): State<AppState>,
    request: Request,
) -> Result<Json<FileUploadResult>, ApiError> {
    state.clock().touch();
    let mut query = Query::parse(request.uri().query().unwrap_or_default());
    let path = query.required("path");
    let Ok(mut body) = Multipart::from_request(request, &state).await else {
        query.problem(no_file());
        return Err(query.finish().err().unwrap_or_else(|| ApiError::invalid(no_file())));
    };
    let result = match query.finish() {
        Ok(()) => receive(&mut body, &path).await,
        Err(refusal) => Err(refusal),
    };
    if result.is_err() {
        drain(body).await;
    }
    result.map(|file_size| Json(FileUploadResult { success: true, file_size }))
}

fn no_file() -> Problem {
    Problem::new("missing", ["body", "file"], "Field required").input(Value::Null)
}

async fn receive(body: &mut Multipart, path: &str) -> Result<u64, ApiError> {
    while let Some(field) = in_time(body.next_field()).await? {
        if field.name() != Some("file") {
            continue;
        }
        if field.file_name().is_none() {
            return Err(ApiError::invalid(not_a_file(field).await?));
        }
        return store(field, path).await;
    }
    Err(ApiError::invalid(no_file()))
}

async fn store(mut field: Field<'_>, path: &str) -> Result<u64, ApiError> {
    let mut upload = Upload::begin(path, MAX_UPLOAD).await?;
    while let Some(piece) = in_time(field.chunk()).await? {
        upload.write(&piece).await?;
    }
    Ok(upload.finish().await?)
}

/// A part without a file name is a plain form value.
async fn not_a_file(mut field: Field<'_>) -> Result<Problem, ApiError> {
    let piece = in_time(field.chunk()).await?.unwrap_or_default();
    let text = String::from_utf8_lossy(&piece).chars().take(MAX_TEXT).collect::<String>();
    let reason = "Expected UploadFile, received: <class 'str'>";
    let problem = Problem::new("value_error", ["body", "file"], format!("Value error, {reason}"));
    Ok(problem.input(text).ctx(json!({ "error": reason })))
}

async fn in_time<T>(
    next: impl Future<Output = Result<Option<T>, axum::extract::multipart::MultipartError>>,
) -> Result<Option<T>, ApiError> {
    match tokio::time::timeout(PIECE_WAIT, next).await {
        Ok(Ok(next)) => Ok(next),
        Ok(Err(_)) => Err(ApiError::BadRequest("Invalid multipart data.".to_owned())),
        Err(_) => Err(ApiError::BadRequest(format!("nothing arrived for {} s", PIECE_WAIT.as_secs()))),
    }
}

/// Reads on for a while: a client that is cut off while it sends may never see the answer.
async fn drain(mut body: Multipart) {
    let mut left = MAX_DRAINED;
    while let Ok(Some(mut field)) = in_time(body.next_field()).await {
        while let Ok(Some(piece)) = in_time(field.chunk()).await {
            match left.checked_sub(piece.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }
}

//! `/api/bash`: commands beside conversations, and their events.

use axum::{
    Json, Router,
    extract::{FromRequestParts, State},
    http::{header, request::Parts},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use bytes::Bytes;
use openhands_protocol::bash::{
    BashEventKind, BashId, BashOutput, ClearedEvents, DEFAULT_TIMEOUT_SECONDS, ExecuteBashRequest,
};
use openhands_workspace::bash::{BashError, BashSearch, BashService, events_to_json};
use serde_json::{Map, Value, json};

use crate::{
    error::ApiError,
    extract::{RawBody, path_parameter},
    query::{Query, uuid_text},
    state::AppState,
    validation::Problem,
};

/// Most events of one batch.
const MAX_BATCH: usize = 1000;

/// The routes.
pub fn router() -> Router<AppState> {
    router_at("/api")
}

/// The routes below a path.
pub(super) fn router_at(prefix: &str) -> Router<AppState> {
    let at = |path: &str| format!("{prefix}/bash/{path}");
    Router::new()
        .route(&at("bash_events/search"), get(search))
        .route(&at("bash_events/{event_id}"), get(one))
        .route(&at("bash_events/"), get(batch))
        .route(&at("bash_events"), delete(clear))
        .route(&at("start_bash_command"), post(start))
        .route(&at("execute_bash_command"), post(execute))
        .route(&at("bash_commands/{command_id}/stop"), post(stop))
}

/// The service that a request is for: that of its conversation, else the server's.
#[derive(Clone)]
pub(super) struct Shell(pub(super) BashService);

impl FromRequestParts<AppState> for Shell {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        match parts.extensions.get::<Self>() {
            Some(bound) => Ok(bound.clone()),
            None => state.app().map(|app| Self(app.bash.clone())),
        }
    }
}

impl From<BashError> for ApiError {
    fn from(error: BashError) -> Self {
        match error {
            BashError::Closed => Self::Unavailable(error.to_string()),
            BashError::TooManyRunning { .. } => Self::TooManyRequests(error.to_string()),
            BashError::Storage(_) => Self::internal(error),
        }
    }
}

async fn search(Shell(bash): Shell, mut query: Query) -> Result<Response, ApiError> {
    let kinds = [("BashCommand", BashEventKind::BashCommand), ("BashOutput", BashEventKind::BashOutput)];
    let search = BashSearch {
        kind: query.literal("kind__eq", &kinds),
        command: command_id(&mut query),
        from_micros: micros(&mut query, "timestamp__gte"),
        before_micros: micros(&mut query, "timestamp__lt"),
        order_above: integer(&mut query, "order__gt"),
        descending: query.choice("sort_order", &[("TIMESTAMP", false), ("TIMESTAMP_DESC", true)]).unwrap_or(false),
        page_id: query.text("page_id").map(str::to_owned),
        limit: query.limit(),
    };
    query.finish()?;
    Ok(as_json(bash.search(search).await?.to_json()))
}

async fn one(
    Shell(bash): Shell,
    State(state): State<AppState>,
    request: axum::extract::Request,
) -> Result<Response, ApiError> {
    let (mut parts, _) = request.into_parts();
    // Every text may be asked for; one that is no id names nothing.
    let id = path_parameter(&mut parts, &state, "event_id").await?.parse().map_err(|_| ApiError::NotFound)?;
    bash.get(id).await?.map(as_json).ok_or(ApiError::NotFound)
}

async fn batch(Shell(bash): Shell, RawBody(body): RawBody) -> Result<Response, ApiError> {
    let ids = texts(body)?;
    let mut events = Vec::with_capacity(ids.len());
    for id in ids {
        events.push(match id.parse() {
            Ok(id) => bash.get(id).await?,
            Err(_) => None,
        });
    }
    Ok(as_json(events_to_json(&events)))
}

async fn start(
    Shell(bash): Shell,
    State(state): State<AppState>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    state.clock().touch();
    let request = read_request(body, "body").map_err(ApiError::Invalid)?;
    Ok(as_json(bash.start(request).await?.event))
}

async fn execute(
    Shell(bash): Shell,
    State(state): State<AppState>,
    RawBody(body): RawBody,
) -> Result<Json<BashOutput>, ApiError> {
    state.clock().touch();
    let request = read_request(body, "body").map_err(ApiError::Invalid)?;
    let output = bash.execute(request).await?;
    state.clock().touch();
    Ok(Json(output))
}

async fn stop(
    Shell(bash): Shell,
    State(state): State<AppState>,
    request: axum::extract::Request,
) -> Result<Json<Value>, ApiError> {
    state.clock().touch();
    let (mut parts, _) = request.into_parts();
    let text = path_parameter(&mut parts, &state, "command_id").await?;
    let id =
        text.parse().map_err(|error| not_a_uuid("path", "command_id", &text, &error)).map_err(ApiError::invalid)?;
    if bash.stop(id).await? { Ok(Json(json!({ "success": true }))) } else { Err(ApiError::NotFound) }
}

async fn clear(Shell(bash): Shell) -> Result<Json<ClearedEvents>, ApiError> {
    Ok(Json(ClearedEvents { cleared_count: bash.clear().await? }))
}

fn as_json(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn not_a_uuid(place: &str, name: &str, text: &str, error: &uuid::Error) -> Problem {
    let msg = uuid_text(error);
    let reason = msg.split_once(", ").map_or("", |(_, reason)| reason).to_owned();
    Problem::new("uuid_parsing", [place, name], msg).input(text).ctx(json!({ "error": reason }))
}

fn command_id(query: &mut Query) -> Option<BashId> {
    let text = query.text("command_id__eq")?.to_owned();
    match text.parse() {
        Ok(id) => Some(id),
        Err(error) => {
            query.problem(not_a_uuid("query", "command_id__eq", &text, &error));
            None
        }
    }
}

fn integer(query: &mut Query, name: &str) -> Option<i64> {
    let text = query.text(name)?.to_owned();
    match text.trim().parse::<i128>() {
        // A number beyond the range compares like the end of the range.
        Ok(value) => Some(i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })),
        Err(_) => {
            let msg = "Input should be a valid integer, unable to parse string as an integer";
            query.problem(Problem::new("int_parsing", ["query", name], msg).input(text));
            None
        }
    }
}

/// A time in microseconds since 1970. Without a zone it is UTC, as the times of bash events are.
fn micros(query: &mut Query, name: &str) -> Option<i64> {
    let text = query.text(name)?.to_owned();
    let found = read_micros(&text);
    if found.is_none() {
        let reason = if text.len() < 10 { "input is too short" } else { "it is no date and time" };
        let msg = format!("Input should be a valid datetime or date, {reason}");
        let problem = Problem::new("datetime_from_date_parsing", ["query", name], msg);
        query.problem(problem.input(text).ctx(json!({ "error": reason })));
    }
    found
}

fn read_micros(text: &str) -> Option<i64> {
    use jiff::{Timestamp, civil, tz::TimeZone};

    // A `+` that the client did not escape arrives as a space; so does the separator of date and time.
    let text = text.trim();
    let escaped = match text.rfind(' ') {
        Some(at) if at > 10 => format!("{}+{}", text.get(..at)?, text.get(at + 1..)?),
        _ => text.to_owned(),
    };
    if let Ok(at) = escaped.parse::<Timestamp>() {
        return Some(at.as_microsecond());
    }
    if let Ok(number) = text.parse::<f64>()
        && number.is_finite()
    {
        // Like the reference: what would be far in the future as seconds is milliseconds.
        let seconds = if number.abs() > 2e10 { number / 1000.0 } else { number };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float cast saturates, which is what a bound of a search needs"
        )]
        return Some((seconds * 1e6) as i64);
    }
    let naive = escaped.parse::<civil::DateTime>().ok()?;
    Some(naive.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond())
}

/// A list of texts, at most [`MAX_BATCH`].
fn texts(body: Option<Value>) -> Result<Vec<String>, ApiError> {
    let items = match body {
        None => return Err(ApiError::invalid(Problem::new("missing", ["body"], "Field required").input(Value::Null))),
        Some(Value::Array(items)) => items,
        Some(other) => {
            return Err(ApiError::invalid(
                Problem::new("list_type", ["body"], "Input should be a valid list").input(other),
            ));
        }
    };
    if items.len() > MAX_BATCH {
        let msg = format!("List should have at most {MAX_BATCH} items after validation, not {}", items.len());
        return Err(ApiError::invalid(Problem::new("too_long", ["body"], msg).ctx(json!({ "max_length": MAX_BATCH }))));
    }
    let (mut texts, mut problems) = (Vec::with_capacity(items.len()), Vec::new());
    for (index, item) in items.into_iter().enumerate() {
        match item {
            Value::String(text) => texts.push(text),
            other => problems.push(
                Problem::new("string_type", [json!("body"), json!(index)], "Input should be a valid string")
                    .input(other),
            ),
        }
    }
    if problems.is_empty() { Ok(texts) } else { Err(ApiError::Invalid(problems)) }
}

/// Reads a request to run a command; every problem is listed, below `root`. Shared with the socket.
pub(crate) fn read_request(body: Option<Value>, root: &str) -> Result<ExecuteBashRequest, Vec<Problem>> {
    let members = match body {
        None => return Err(vec![Problem::new("missing", [root], "Field required").input(Value::Null)]),
        Some(Value::Object(members)) => members,
        Some(other) => {
            let msg = "Input should be a valid dictionary or object to extract fields from";
            return Err(vec![Problem::new("model_attributes_type", [root], msg).input(other)]);
        }
    };
    let mut problems = Vec::new();
    let command = match members.get("command") {
        Some(Value::String(command)) => command.clone(),
        Some(other) => {
            problems.push(not_a_string(root, "command", other));
            String::new()
        }
        None => {
            let whole = Value::Object(Map::clone(&members));
            problems.push(Problem::new("missing", [root, "command"], "Field required").input(whole));
            String::new()
        }
    };
    let cwd = match members.get("cwd") {
        None | Some(Value::Null) => None,
        Some(Value::String(cwd)) => Some(cwd.clone()),
        Some(other) => {
            problems.push(not_a_string(root, "cwd", other));
            None
        }
    };
    let timeout = members.get("timeout").map_or(Ok(DEFAULT_TIMEOUT_SECONDS), |value| seconds(root, value));
    match (timeout, problems.is_empty()) {
        (Ok(timeout), true) => Ok(ExecuteBashRequest { command, cwd, timeout }),
        (Ok(_), false) => Err(problems),
        (Err(problem), _) => {
            problems.push(*problem);
            Err(problems)
        }
    }
}

fn not_a_string(root: &str, name: &str, value: &Value) -> Problem {
    Problem::new("string_type", [root, name], "Input should be a valid string").input(value.clone())
}

/// A whole number, also as text or as a float without a fraction.
fn seconds(root: &str, value: &Value) -> Result<i64, Box<Problem>> {
    let problem = |kind: &str, msg: &str| Box::new(Problem::new(kind, [root, "timeout"], msg).input(value.clone()));
    match value {
        Value::Bool(yes) => Ok(i64::from(*yes)),
        Value::Number(number) => {
            if let Some(whole) = number.as_i64() {
                return Ok(whole);
            }
            let float = number.as_f64().unwrap_or(f64::NAN);
            if float.fract() != 0.0 {
                let msg = "Input should be a valid integer, got a number with a fractional part";
                return Err(problem("int_from_float", msg));
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a float cast saturates: longer than for ever is for ever"
            )]
            Ok(float as i64)
        }
        Value::String(text) => text.trim().parse().map_err(|_| {
            problem("int_parsing", "Input should be a valid integer, unable to parse string as an integer")
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(problem("int_type", "Input should be a valid integer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(body: Value) -> Value {
        serde_json::to_value(read_request(Some(body), "body").unwrap_err()).unwrap()
    }

    #[test]
    fn requests_are_read_like_the_reference_reads_them() {
        for (timeout, expected) in
            [(json!("5"), 5), (json!(5.0), 5), (json!(true), 1), (json!(-1), -1), (json!(1e300), i64::MAX)]
        {
            let request = read_request(Some(json!({"command": "c", "timeout": timeout, "more": 1})), "body").unwrap();
            assert_eq!(request, ExecuteBashRequest { command: "c".to_owned(), cwd: None, timeout: expected });
        }
        let request = read_request(Some(json!({"command": "c", "cwd": "/"})), "body").unwrap();
        assert_eq!(request, ExecuteBashRequest { command: "c".to_owned(), cwd: Some("/".to_owned()), timeout: 300 });
    }

    #[test]
    fn every_problem_of_a_request_is_listed() {
        assert_eq!(
            problems(json!({"command": 1, "timeout": "x", "cwd": 3})),
            json!([
                {"type": "string_type", "loc": ["body", "command"], "msg": "Input should be a valid string", "input": 1},
                {"type": "string_type", "loc": ["body", "cwd"], "msg": "Input should be a valid string", "input": 3},
                {"type": "int_parsing", "loc": ["body", "timeout"], "msg": "Input should be a valid integer, unable to parse string as an integer", "input": "x"},
            ])
        );
        assert_eq!(
            problems(json!({})),
            json!([{"type": "missing", "loc": ["body", "command"], "msg": "Field required", "input": {}}])
        );
        assert_eq!(problems(json!([1]))[0]["type"], "model_attributes_type");
        assert_eq!(problems(json!({"command": "c", "timeout": 5.5}))[0]["type"], "int_from_float");
        assert_eq!(problems(json!({"command": "c", "timeout": null}))[0]["type"], "int_type");
    }

    #[test]
    fn times_without_a_zone_are_utc() {
        for text in [
            "2026-01-01T00:00:01Z",
            "2026-01-01T00:00:01",
            "2026-01-01 00:00:01",
            "2026-01-01T02:00:01+02:00",
            "2026-01-01T02:00:01 02:00",
            "1767225601",
            "1767225601000",
        ] {
            assert_eq!(read_micros(text), Some(1_767_225_601_000_000), "{text}");
        }
        assert_eq!(read_micros("2026-01-01"), Some(1_767_225_600_000_000));
        for text in ["", "yesterday", "2026-13-01", "nan"] {
            assert_eq!(read_micros(text), None, "{text}");
        }
    }
}

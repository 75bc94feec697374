//! The issuer's pages and calls.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
};

use axum::{
    Form, Json,
    extract::{Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    Vendor,
    book::{Entered, challenge},
};

/// Ends the address that a code of a device is bought with.
pub(super) const DEVICE_PAGE: &str = "/issuer/deviceauth/callback";

type Members = HashMap<String, String>;

fn refuse(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({"error": error, "error_description": format!("the issuer says {error}")}))).into_response()
}

fn member<'a>(members: &'a Members, name: &str) -> &'a str {
    members.get(name).map(String::as_str).unwrap_or_default()
}

/// What a person's browser does: signs in at once and goes back.
pub(super) async fn authorize(State(vendor): State<Arc<Vendor>>, Query(asked): Query<Members>) -> Response {
    let is_sound = member(&asked, "response_type") == "code"
        && member(&asked, "code_challenge_method") == "S256"
        && member(&asked, "code_challenge").len() == 43
        && member(&asked, "state").len() >= 32
        && member(&asked, "scope").split(' ').any(|scope| scope == "offline_access")
        && !member(&asked, "client_id").is_empty();
    let redirect = member(&asked, "redirect_uri");
    if !is_sound || !redirect.starts_with("http://localhost:") || !redirect.ends_with("/auth/callback") {
        return refuse(StatusCode::BAD_REQUEST, "invalid_request");
    }
    let code = vendor.book().sell_code(redirect, member(&asked, "code_challenge"));
    let back = format!("{redirect}?code={code}&state={}", member(&asked, "state"));
    (StatusCode::FOUND, [(header::LOCATION, back)]).into_response()
}

pub(super) async fn token(State(vendor): State<Arc<Vendor>>, Form(asked): Form<Members>) -> Response {
    let is_renewal = member(&asked, "grant_type") == "refresh_token";
    if is_renewal {
        vendor.renewals.send_modify(|arrived| *arrived += 1);
        let delay = *vendor.delay.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::time::sleep(delay).await;
    }
    if let Some(failure) = vendor.failure("token") {
        return failure;
    }
    let mut book = vendor.book();
    let is_good = match member(&asked, "grant_type") {
        "authorization_code" => {
            book.take_code(member(&asked, "code"), member(&asked, "redirect_uri"), member(&asked, "code_verifier"))
        }
        "refresh_token" => {
            let is_good = book.refresh.remove(member(&asked, "refresh_token"));
            book.renewed += usize::from(is_good);
            book.refused += usize::from(!is_good);
            is_good
        }
        _ => false,
    };
    if !is_good || member(&asked, "client_id").is_empty() {
        return refuse(StatusCode::BAD_REQUEST, "invalid_grant");
    }
    Json(book.bill()).into_response()
}

pub(super) async fn user_code(State(vendor): State<Arc<Vendor>>, Json(asked): Json<Value>) -> Response {
    if let Some(failure) = vendor.failure("usercode") {
        return failure;
    }
    if asked.get("client_id").and_then(Value::as_str).is_none_or(str::is_empty) {
        return refuse(StatusCode::BAD_REQUEST, "invalid_client");
    }
    let mut book = vendor.book();
    let (device, user) = (book.next("device"), book.next("CODE"));
    book.devices.insert(device.clone(), (user.clone(), Entered::NotYet));
    Json(json!({"device_auth_id": device, "user_code": user, "interval": "1"})).into_response()
}

pub(super) async fn device_token(State(vendor): State<Arc<Vendor>>, Json(asked): Json<Value>) -> Response {
    if let Some(failure) = vendor.failure("device") {
        return failure;
    }
    let text = |name: &str| asked.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut book = vendor.book();
    book.polls += 1;
    let state = book.devices.get(text("device_auth_id")).filter(|(user, _)| user == text("user_code"));
    let Some(state) = state.map(|(_, state)| state.clone()) else {
        return refuse(StatusCode::BAD_REQUEST, "invalid_request");
    };
    match state {
        Entered::NotYet => (
            StatusCode::FORBIDDEN,
            Json(json!({"error": {"code": "deviceauth_authorization_unknown", "message": "not yet"}})),
        )
            .into_response(),
        Entered::No => refuse(StatusCode::FORBIDDEN, "access_denied"),
        Entered::TooLate => refuse(StatusCode::BAD_REQUEST, "expired_token"),
        Entered::Yes => {
            book.devices.remove(text("device_auth_id"));
            let verifier = format!("{:-<43}", book.next("verifier"));
            // The issuer's own page; whoever buys must name it.
            let code = book.sell_code(DEVICE_PAGE, &challenge(&verifier));
            Json(json!({"authorization_code": code, "code_verifier": verifier, "code_challenge": challenge(&verifier)}))
                .into_response()
        }
    }
}

//! The schemas of signing in with a vendor's plan.

use serde_json::{Value, json};

use super::schemas::object;

/// The body of the operation of this name, if it is one of these.
pub(super) fn request(name: &str) -> Option<Value> {
    (name == "poll_openai_subscription_device_login").then(|| object(&["device_code"], json!({"device_code": text()})))
}

/// The answer of the operation of this name, if it is one of these.
pub(super) fn answer(name: &str) -> Option<Value> {
    let nullable = |kind: &str| json!({"type": [kind, "null"]});
    let schema = match name {
        "list_openai_subscription_models" => {
            object(&["models"], json!({"vendor": text(), "models": {"type": "array", "items": text()}}))
        }
        "start_openai_subscription_device_login" => object(
            &["device_code", "user_code", "verification_uri", "expires_at", "interval_seconds"],
            json!({
                "device_code": text(), "user_code": text(), "verification_uri": text(),
                "verification_uri_complete": nullable("string"),
                "expires_at": {"type": "integer"}, "interval_seconds": {"type": "integer"},
            }),
        ),
        "get_openai_subscription_status" | "poll_openai_subscription_device_login" | "logout_openai_subscription" => {
            object(
                &["connected"],
                json!({
                    "vendor": text(), "connected": {"type": "boolean"}, "account_email": nullable("string"),
                    "expires_at": nullable("integer"),
                }),
            )
        }
        _ => return None,
    };
    Some(schema)
}

fn text() -> Value {
    json!({"type": "string"})
}

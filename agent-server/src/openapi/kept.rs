//! The schemas of what a user keeps: profiles, settings, secrets, provider connections, and the lists to choose models from.

use serde_json::{Value, json};

use super::schemas::{object, reference, text};

/// Operations that answer 201.
pub(super) const CREATES: [&str; 2] = ["save_profile", "create_provider_connection"];

/// The body of the operation of this name, if it is one of these.
pub(super) fn request(name: &str) -> Option<Value> {
    let schema = match name {
        "save_profile" => object(
            &["llm"],
            json!({"llm": {"type": "object"}, "include_secrets": {"type": "boolean", "default": true}}),
        ),
        "validate_profile" => object(&["llm"], json!({"llm": {"type": "object"}})),
        "rename_profile" => {
            object(&["new_name"], json!({"new_name": {"type": "string", "minLength": 1, "maxLength": 64}}))
        }
        "update_settings" => object(
            &[],
            json!({
                "agent_settings_diff": {"type": ["object", "null"]}, "conversation_settings_diff": {"type": ["object", "null"]},
                "misc_settings_diff": {"type": ["object", "null"]}, "active_profile": nullable(),
                "active_agent_profile_id": nullable(), "active_meta_profile": nullable(),
            }),
        ),
        "create_secret" => {
            object(&["name", "value"], json!({"name": text(), "value": secret(), "description": nullable()}))
        }
        "create_provider_connection" => object(
            &["display_name", "api_key"],
            json!({
                "display_name": name_of(128), "provider": {"type": "string", "default": "custom"}, "api_key": secret(),
                "base_url": nullable(),
            }),
        ),
        "update_provider_connection" => object(
            &[],
            json!({"display_name": name_of(128), "provider": name_of(128), "api_key": secret(), "base_url": nullable()}),
        ),
        _ => return None,
    };
    Some(schema)
}

/// The answer of the operation of this name, if it is one of these.
pub(super) fn answer(name: &str) -> Option<Value> {
    let flag = || json!({"type": "boolean"});
    let schema = match name {
        "list_profiles" => {
            object(&["profiles"], json!({"profiles": list(reference("ProfileInfo")), "active_profile": nullable()}))
        }
        "get_profile" => {
            object(&["name", "config"], json!({"name": text(), "config": {"type": "object"}, "api_key_set": flag()}))
        }
        "save_profile" | "delete_profile" | "rename_profile" => {
            object(&["name", "message"], json!({"name": text(), "message": text()}))
        }
        "activate_profile" => {
            object(&["name", "message"], json!({"name": text(), "message": text(), "llm_applied": flag()}))
        }
        "validate_profile" => {
            let error = object(&["type", "message"], json!({"type": text(), "message": text()}));
            object(&["valid"], json!({"valid": flag(), "error": {"anyOf": [error, {"type": "null"}]}}))
        }
        "get_settings" | "update_settings" => reference("SettingsResponse"),
        "get_agent_settings_schema" | "get_conversation_settings_schema" => object(
            &["model_name", "sections"],
            json!({"model_name": text(), "sections": list(json!({"type": "object"}))}),
        ),
        "list_secrets" => object(&["secrets"], json!({"secrets": list(reference("SecretItemResponse"))})),
        "create_secret" => reference("SecretItemResponse"),
        "get_secret_value" => text(),
        "delete_secret" => object(&[], json!({"deleted": flag()})),
        "list_providers" => object(&["providers"], json!({"providers": list(text())})),
        "list_models" => object(&["models"], json!({"models": list(text())})),
        "list_verified_models" => {
            object(&["models"], json!({"models": {"type": "object", "additionalProperties": list(text())}}))
        }
        "list_provider_connections" => list(reference("ProviderConnectionResponse")),
        "create_provider_connection" | "update_provider_connection" | "delete_provider_connection" => {
            reference("ProviderConnectionResponse")
        }
        _ => return None,
    };
    Some(schema)
}

/// The named schemas.
pub(super) fn components() -> Value {
    let flag = || json!({"type": "boolean"});
    let whole = || json!({"type": "integer"});
    json!({
        "ProfileInfo": object(&["name"], json!({
            "name": text(), "model": nullable(), "base_url": nullable(), "provider_connection_id": nullable(),
            "provider_connection_broken": flag(), "api_key_set": flag(),
        })),
        "ProviderConnectionResponse": object(&["id", "display_name", "provider", "created_at", "updated_at"], json!({
            "id": text(), "display_name": text(), "provider": text(), "base_url": nullable(),
            "created_at": whole(), "updated_at": whole(), "api_key_set": flag(),
        })),
        "SecretItemResponse": object(&["name"], json!({"name": text(), "description": nullable()})),
        "SettingsResponse": object(&["agent_settings", "conversation_settings", "llm_api_key_is_set"], json!({
            "agent_settings": {"type": "object"}, "conversation_settings": {"type": "object"}, "llm_api_key_is_set": flag(),
            "active_profile": nullable(), "active_agent_profile_id": nullable(), "active_meta_profile": nullable(),
            "misc_settings": {"type": "object"},
        })),
    })
}

fn nullable() -> Value {
    json!({"type": ["string", "null"]})
}

fn secret() -> Value {
    json!({"type": "string", "format": "password", "writeOnly": true})
}

fn name_of(longest: u32) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": longest})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

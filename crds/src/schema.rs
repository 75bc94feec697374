//! Hand-written pieces of the schema: bounded maps, times, defaults. The derive cannot bound the size of a map.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Labels and node selectors.
pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 63, "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$" }
    })
}

/// Annotations.
pub(crate) fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 4096 }
    })
}

/// Members of a model's configuration, values as JSON text.
pub(crate) fn extra(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": { "type": "string", "maxLength": 2048 }
    })
}

/// Resource names to quantities.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {
            "type": "string",
            "maxLength": 32,
            "pattern": "^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
        }
    })
}

/// An RFC 3339 time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// The three states of a condition.
pub(crate) fn condition_status(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["True", "False", "Unknown"] })
}

/// `sandbox.policy` with its default, which the derive would write as a reference.
pub(crate) fn policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["PreferWarm", "WarmOnly", "ColdOnly"], "default": "PreferWarm" })
}

/// `network.mode` with its default.
pub(crate) fn network_mode(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["Restricted", "Unmanaged"], "default": "Restricted" })
}

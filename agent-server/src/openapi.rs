//! The document of what this server serves (OpenAPI 3.1), and the plain page made of it. Both come from one table.

mod kept;
mod operations;
mod plans;
mod schemas;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::routes::details::PROTOCOL_VERSION;
use operations::OPERATIONS;

/// One operation.
pub struct Operation {
    method: &'static str,
    path: &'static str,
    name: &'static str,
    tag: &'static str,
    query: &'static [&'static str],
    body: bool,
}

impl Operation {
    /// The id that clients are generated with: name, path and method in one word.
    #[must_use]
    pub fn id(&self) -> String {
        let path: String =
            self.path.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
        format!("{}{path}_{}", self.name, self.method.to_ascii_lowercase())
    }

    /// The name in words.
    fn summary(&self) -> String {
        let words = self.name.split('_').map(|word| {
            let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
            format!("{}{rest}", first.to_ascii_uppercase())
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    fn is_guarded(&self) -> bool {
        (self.path.starts_with("/api/") && self.path != "/api/init") || self.path.starts_with("/v1/")
    }

    fn document(&self) -> Value {
        let mut parameters: Vec<Value> = self
            .path_parameters()
            .map(|name| json!({"name": name, "in": "path", "required": true, "schema": schemas::parameter(name)}))
            .collect();
        for name in self.query {
            let bare = name.trim_end_matches('*');
            parameters.push(json!({
                "name": bare, "in": "query", "required": bare.len() < name.len(), "schema": schemas::parameter(bare),
            }));
        }
        let mut document = json!({
            "tags": [self.tag],
            "summary": self.summary(),
            "operationId": self.id(),
            "responses": schemas::responses(self.name, self.path, self.is_guarded()),
        });
        if let Some(members) = document.as_object_mut() {
            if !parameters.is_empty() {
                members.insert("parameters".to_owned(), parameters.into());
            }
            if self.body {
                members.insert("requestBody".to_owned(), schemas::request(self.name));
            }
            if self.is_guarded() {
                members.insert("security".to_owned(), json!([{ "APIKeyHeader": [] }]));
            }
        }
        document
    }
}

/// The paths of all operations, with `{parameters}`.
pub fn templates() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|operation| operation.path)
}

/// The document.
#[must_use]
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS {
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(methods) = methods.as_object_mut() {
            methods.insert(operation.method.to_ascii_lowercase(), operation.document());
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "OpenHands Agent Server",
            "description": "Conversations with agents, and the workspace they work in.",
            "version": PROTOCOL_VERSION,
        },
        "paths": paths,
        "components": {
            "schemas": named_schemas(),
            "securitySchemes": {
                "APIKeyHeader": { "type": "apiKey", "in": "header", "name": "X-Session-API-Key" },
                "InitKeyHeader": { "type": "apiKey", "in": "header", "name": "X-Init-API-Key" },
            },
        },
    })
}

fn named_schemas() -> Value {
    let mut all = schemas::components();
    if let (Some(all), Value::Object(kept)) = (all.as_object_mut(), kept::components()) {
        all.extend(kept);
        all.sort_keys();
    }
    all
}

/// The document as text, made once.
#[must_use]
pub fn document_text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| document().to_string());
    &TEXT
}

/// A page that lists the operations.
#[must_use]
pub fn page() -> String {
    let rows: String = OPERATIONS
        .iter()
        .map(|operation| {
            let Operation { method, path, tag, .. } = operation;
            format!(
                "<tr><td>{tag}</td><td>{method}</td><td><code>{path}</code></td><td>{}</td></tr>",
                operation.summary()
            )
        })
        .collect();
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>OpenHands Agent Server</title>\
         <h1>OpenHands Agent Server</h1><p>The machine-readable form is <a href=openapi.json>openapi.json</a>.</p>\
         <table>{rows}</table></html>"
    )
}

//! The document says what the router serves, and what it says agrees with the reference's document.

mod serve;

use serde_json::{Value, json};
use serve::{answer, serve as start};

const ID: &str = "00000000-0000-4000-8000-000000000000";

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            all.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    all
}

fn required(operation: &Value) -> Vec<(String, String)> {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<_> = parameters
        .iter()
        .filter(|parameter| parameter["required"] == json!(true))
        .map(|parameter| (parameter["in"].as_str().unwrap().to_owned(), parameter["name"].as_str().unwrap().to_owned()))
        .collect();
    names.sort();
    names
}

#[test]
fn the_document_is_the_committed_one() {
    insta::assert_json_snapshot!(openhands_agent_server::openapi::document());
}

#[test]
fn operation_ids_are_unique() {
    let mut ids: Vec<_> = operations(&openhands_agent_server::openapi::document())
        .into_iter()
        .map(|(_, _, operation)| operation["operationId"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

/// Compares by meaning with the reference's document where one is given: it is not part of this repository.
#[test]
fn served_operations_agree_with_the_reference() {
    let Ok(path) = std::env::var("OPENHANDS_REFERENCE_OPENAPI") else { return };
    let reference: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for (method, path, ours) in operations(&openhands_agent_server::openapi::document()) {
        let theirs = &reference["paths"][&path][method.to_lowercase()];
        assert_eq!(ours["operationId"], theirs["operationId"], "{method} {path}");
        assert_eq!(required(&ours), required(theirs), "{method} {path}");
        assert_eq!(ours["tags"], theirs["tags"], "{method} {path}");
        assert_eq!(ours["requestBody"].is_null(), theirs["requestBody"].is_null(), "{method} {path}");
    }
}

#[tokio::test]
async fn every_listed_operation_is_served() {
    let server = start(&[]).await;
    for (method, path, _) in operations(&openhands_agent_server::openapi::document()) {
        let concrete = path
            .split('/')
            .map(|segment| if segment.starts_with('{') { ID } else { segment })
            .collect::<Vec<_>>()
            .join("/");
        let got = answer(server.request(&method, &concrete)).await;
        let no_route = got.status == 404 && got.body == json!({"detail": "Not Found"}) && !path.contains('{');
        assert!(!no_route && got.status != 405 && got.status != 501 && got.status != 307, "{method} {path}: {got:?}");
    }
}

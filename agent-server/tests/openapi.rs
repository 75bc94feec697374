//! The document says what the router serves; what it says agrees with the reference, and what it leaves out is refused.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

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

/// The operations of protocol 1.58.2 by their meaning: method, path, id, tags, required parameters, whether there is a body.
fn reference() -> Vec<Value> {
    serde_json::from_str(include_str!("reference_operations.json")).unwrap()
}

#[test]
fn served_operations_agree_with_the_reference() {
    let reference = reference();
    for (method, path, ours) in operations(&openhands_agent_server::openapi::document()) {
        let theirs =
            reference.iter().find(|theirs| theirs["method"] == method.as_str() && theirs["path"] == path.as_str());
        let theirs = theirs.unwrap_or_else(|| panic!("{method} {path} is not in the reference"));
        let ours = json!({
            "method": method, "path": path, "operationId": ours["operationId"], "tags": ours.get("tags").unwrap_or(&json!([])),
            "required": required(&ours), "body": ours.get("requestBody").is_some(),
        });
        assert_eq!(&ours, theirs);
    }
}

#[tokio::test]
async fn what_the_reference_has_and_we_have_not_is_refused_clearly() {
    let server = start(&[]).await;
    let served: Vec<_> = operations(&openhands_agent_server::openapi::document())
        .into_iter()
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();
    for operation in reference() {
        let (method, path) = (operation["method"].as_str().unwrap(), operation["path"].as_str().unwrap());
        if served.contains(&format!("{method} {path}")) {
            continue;
        }
        let got = answer(server.request(method, &concrete(path))).await;
        assert_eq!(got.status, 501, "{method} {path}: {got:?}");
        assert!(got.body["detail"].as_str().unwrap().starts_with("not supported: "), "{got:?}");
    }
}

fn concrete(path: &str) -> String {
    path.split('/').map(|segment| if segment.starts_with('{') { ID } else { segment }).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_listed_operation_is_served() {
    let server = start(&[]).await;
    for (method, path, _) in operations(&openhands_agent_server::openapi::document()) {
        let got = answer(server.request(&method, &concrete(&path))).await;
        let no_route = got.status == 404 && got.body == json!({"detail": "Not Found"}) && !path.contains('{');
        assert!(!no_route && got.status != 405 && got.status != 501 && got.status != 307, "{method} {path}: {got:?}");
    }
}

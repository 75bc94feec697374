//! The report to the operator over real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod serve;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use openhands_protocol::{ExecutionStatus, report::Report};
use serde_json::json;
use serve::{answer, serve as start, start_body};

const ID: &str = "00000000-0000-4000-8000-000000000000";

#[tokio::test]
async fn the_latest_state_is_sent_until_it_is_acknowledged() {
    let heard: Arc<Mutex<Vec<(String, Report)>>> = Arc::default();
    let operator = Router::new().route(
        "/report",
        post({
            let heard = Arc::clone(&heard);
            move |headers: HeaderMap, axum::Json(report): axum::Json<Report>| async move {
                let mut heard = heard.lock().unwrap();
                heard.push((headers["authorization"].to_str().unwrap().to_owned(), report));
                // The first two are lost.
                if heard.len() <= 2 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
            }
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, operator).await });

    let server = start(&[("OH_DEFERRED_INIT", "1")]).await;
    let target =
        json!({"url": format!("http://{address}/report"), "token": "t0ken", "conversation_id": ID, "pod_uid": "pod"});
    assert_eq!(server.post("/api/init", json!({"report": target})).await.status, 200);
    let mut body = start_body(&server);
    body["conversation_id"] = json!(ID);
    assert_eq!(server.post("/api/conversations", body).await.status, 201);
    wait_for(&heard, 3).await;
    let pause = server.request("POST", &format!("/api/conversations/{ID}/pause"));
    assert_eq!(answer(pause).await.status, 200);
    wait_until(|| heard.lock().unwrap().last().unwrap().1.execution_status == ExecutionStatus::Paused).await;

    let heard = heard.lock().unwrap();
    assert!(heard.iter().all(|(token, report)| token == "Bearer t0ken" && report.pod_uid == "pod"));
    assert!(heard.windows(2).all(|pair| pair[0].1.seq < pair[1].1.seq), "{heard:?}");
    assert_eq!(heard[0].1.execution_status, ExecutionStatus::Idle);
}

async fn wait_for(heard: &Mutex<Vec<(String, Report)>>, count: usize) {
    wait_until(|| heard.lock().unwrap().len() >= count).await;
}

async fn wait_until(condition: impl Fn() -> bool) {
    let reached = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reached).await.unwrap();
}

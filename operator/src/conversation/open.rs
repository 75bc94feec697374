//! Step 4: prove, then init, on one connection; probe with the session key where a pod is open already.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use openhands_client::{ClientError, Connection, InitAnswer, Limits};
use openhands_protocol::{
    init::{InitRequest, InitState, proof_holds},
    report::ReportTarget,
};

use super::session::SessionKeys;
use crate::{
    context::Context,
    keyring::{InitKey, random_hex},
    machine::Answer,
    names,
    view::{ConversationView, PodView},
};

/// A pod answers from the same cluster or not at all.
pub(crate) const LIMITS: Limits =
    Limits { connect: Duration::from_secs(1), exchange: Duration::from_secs(10), body: 1024 * 1024 };

/// The address of a pod's server.
pub(crate) fn address(pod: &PodView) -> Option<SocketAddr> {
    pod.ip.map(|ip| SocketAddr::new(ip, names::SERVER_PORT))
}

fn init_key(cx: &Context, pod: &PodView) -> Option<InitKey> {
    cx.keyring.init_key(pod.key_id.as_deref()?, &pod.key.namespace, &pod.key.name, pod.nonce.as_deref()?)
}

/// Asks for the proof; the connection is kept for what follows.
pub(crate) async fn prove(cx: &Context, pod: &PodView) -> (Answer, Option<Connection>) {
    let (Some(address), Some(key)) = (address(pod), init_key(cx, pod)) else {
        // Without its key it can never be ours.
        return (if pod.ip.is_some() { Answer::WrongProof } else { Answer::Unclear }, None);
    };
    let nonce = random_hex::<24>();
    let mut connection = match Connection::open(address, LIMITS).await {
        Ok(connection) => connection,
        Err(error) => {
            tracing::debug!(pod = %pod.key, %error, "the server does not answer yet");
            return (Answer::Unclear, None);
        }
    };
    let status = match connection.get_init(Some(&nonce)).await {
        Ok(status) => status,
        Err(error) => {
            tracing::debug!(pod = %pod.key, %error, "no proof");
            let answer = match error {
                // Something answers there that is not our server.
                ClientError::Refused { .. } | ClientError::Unusable { .. } => Answer::WrongProof,
                _ => Answer::Unclear,
            };
            return (answer, None);
        }
    };
    if !proof_holds(&key.digest, &pod.uid, &nonce, &status) {
        tracing::warn!(pod = %pod.key, "whoever answers at the pod's address did not prove to be the pod");
        return (Answer::WrongProof, None);
    }
    let answer = match status.state {
        InitState::Dormant => Answer::Dormant,
        InitState::Initializing => Answer::Unclear,
        InitState::Ready => Answer::AlreadyOpen,
    };
    (answer, Some(connection))
}

/// Sends the keys to a server that has just proven itself on this connection.
pub(crate) async fn init(
    cx: &Context,
    view: &ConversationView,
    pod: &PodView,
    keys: &SessionKeys,
    env: &BTreeMap<String, String>,
    connection: &mut Connection,
) -> Answer {
    let Some(key) = init_key(cx, pod) else { return Answer::WrongProof };
    let request = InitRequest {
        session_api_keys: Some(vec![keys.api_key.clone()]),
        secret_key: Some(keys.secret_key.clone()),
        env: (!env.is_empty()).then(|| env.clone()),
        report: report_target(cx, view, pod),
        ..InitRequest::default()
    };
    match connection.post_init(&key.key, &request).await {
        Ok(InitAnswer::Done(status)) if status.state == InitState::Ready => Answer::Ours,
        Ok(InitAnswer::Done(status)) => {
            tracing::warn!(pod = %pod.key, error = status.error, "the server was not initialised");
            Answer::Unclear
        }
        Ok(InitAnswer::Closed(_)) => Answer::AlreadyOpen,
        Err(error) => {
            tracing::warn!(pod = %pod.key, %error, "init failed");
            Answer::Unclear
        }
    }
}

fn report_target(cx: &Context, view: &ConversationView, pod: &PodView) -> Option<ReportTarget> {
    Some(ReportTarget {
        url: format!("{}{}", cx.options.report_base()?, names::REPORT_PATH),
        token: cx.keyring.report_token(&view.uid, &pod.uid),
        conversation_id: view.conversation_id.parse().ok()?,
        pod_uid: pod.uid.to_string(),
    })
}

/// Whether an open server takes our session key.
pub(crate) async fn probe(
    pod: &PodView,
    keys: &SessionKeys,
    connection: Option<Connection>,
) -> (Answer, Option<Connection>) {
    let mut connection = match reuse(pod, connection).await {
        Ok(connection) => connection,
        Err(answer) => return (answer, None),
    };
    match connection.accepts(&keys.api_key).await {
        Ok(true) => (Answer::Ours, Some(connection)),
        Ok(false) => (Answer::Foreign, None),
        Err(error) => {
            tracing::debug!(pod = %pod.key, %error, "no answer to the session key");
            (Answer::Unclear, None)
        }
    }
}

/// The connection when it can still be used, else a new one.
pub(crate) async fn reuse(pod: &PodView, connection: Option<Connection>) -> Result<Connection, Answer> {
    if let Some(connection) = connection.filter(Connection::is_open) {
        return Ok(connection);
    }
    let address = address(pod).ok_or(Answer::Unclear)?;
    Connection::open(address, LIMITS).await.map_err(|_| Answer::Unclear)
}

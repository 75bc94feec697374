//! Kubernetes Events: few, bounded, never in the way. They are written in the background; what does not fit is dropped, since
//! conditions say the same.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::api::ObjectMeta;
use tokio::{sync::mpsc, time::Instant};

use crate::{api::Kube, keyring::random_hex, names, view::Key};

/// Events that wait to be written.
const WAITING: usize = 64;
/// Ordinary Events a second, and at once after a pause.
const RATE: f64 = 2.0;
const BURST: f64 = 10.0;

/// Where Events are handed in.
#[derive(Clone)]
pub struct Events {
    sender: mpsc::Sender<Event>,
}

/// Whom an Event is about.
pub struct About<'a> {
    /// `Conversation` or `WarmPool`.
    pub kind: &'a str,
    /// Where it is.
    pub key: &'a Key,
    /// Its uid.
    pub uid: &'a str,
}

impl Events {
    /// Starts writing Events.
    #[must_use]
    pub fn start(kube: Kube, reporter: String) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(write(kube, reporter, receiver));
        Self { sender }
    }

    /// Something went as it should.
    pub fn normal(&self, about: &About<'_>, reason: &str, message: &str) {
        self.hand_in(about, "Normal", reason, message);
    }

    /// Something went wrong that a user or an administrator can mend.
    pub fn warning(&self, about: &About<'_>, reason: &str, message: &str) {
        self.hand_in(about, "Warning", reason, message);
    }

    fn hand_in(&self, about: &About<'_>, kind: &str, reason: &str, message: &str) {
        let now = Time(Timestamp::now());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", about.key.name, random_hex::<8>())),
                namespace: Some(about.key.namespace.to_string()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(format!("{}/{}", openhands_crds::GROUP, openhands_crds::VERSION)),
                kind: Some(about.kind.to_owned()),
                namespace: Some(about.key.namespace.to_string()),
                name: Some(about.key.name.to_string()),
                uid: Some(about.uid.to_owned()),
                ..ObjectReference::default()
            },
            type_: Some(kind.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.chars().take(1000).collect()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        };
        if self.sender.try_send(event).is_err() {
            tracing::debug!(object = %about.key, reason, "an Event was dropped");
        }
    }
}

async fn write(kube: Kube, reporter: String, mut events: mpsc::Receiver<Event>) {
    let (mut tokens, mut since) = (BURST, Instant::now());
    while let Some(mut event) = events.recv().await {
        tokens = BURST.min(since.elapsed().as_secs_f64().mul_add(RATE, tokens));
        since = Instant::now();
        let warning = event.type_.as_deref() == Some("Warning");
        if tokens < 1.0 {
            // Ordinary Events are the first that can be missed; a warning waits its turn.
            if !warning {
                continue;
            }
            tokio::time::sleep(Duration::from_secs_f64((1.0 - tokens) / RATE)).await;
            tokens = 1.0;
            since = Instant::now();
        }
        tokens -= 1.0;
        event.source = Some(EventSource { component: Some(names::MANAGER.to_owned()), ..EventSource::default() });
        event.reporting_component = Some(names::MANAGER.to_owned());
        event.reporting_instance = Some(reporter.clone());
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        if let Err(error) = kube.create::<_, serde::de::IgnoredAny>(&namespace, &event).await {
            tracing::debug!(%error, reason = event.reason, "an Event was not written");
        }
    }
}

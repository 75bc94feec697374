//! One call to the API server, bounded in time, with failures sorted by what they allow us to conclude.

use std::{sync::Arc, time::Duration};

use kube::{
    Client, Resource,
    api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::Semaphore, time::timeout};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The object is not there (404).
    #[error("not found")]
    NotFound,
    /// The object changed since it was read, or has another uid (409).
    #[error("conflict: {0}")]
    Conflict(String),
    /// An object of that name is there (409).
    #[error("already exists")]
    AlreadyExists,
    /// The server will not do it (400, 403, 422): without a change of something else it never will.
    #[error("refused: {0}")]
    Refused(String),
    /// The server is too busy (429); nothing happened.
    #[error("too many requests")]
    Busy,
    /// No answer, or a failure of the server: it may or may not have happened.
    #[error("no certain answer: {0}")]
    Unknown(String),
}

/// A client whose calls are bounded in number and time.
#[derive(Clone)]
pub struct Kube {
    client: Client,
    permits: Arc<Semaphore>,
    limit: Duration,
}

impl Kube {
    /// At most `concurrent` calls at a time (each needs a connection of its own), each at most `limit` long.
    #[must_use]
    pub fn new(client: Client, concurrent: usize, limit: Duration) -> Self {
        Self { client, permits: Arc::new(Semaphore::new(concurrent)), limit }
    }

    /// The client itself, for watches.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Reads an object from the source, not from a cache.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn get<K>(&self, namespace: &str, name: &str) -> Result<K, CallError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.send(request::<K>(namespace).get(name, &GetParams::default())).await
    }

    /// Makes an object and answers with what was made.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn create<K, A>(&self, namespace: &str, object: &K) -> Result<A, CallError>
    where
        K: Resource<DynamicType = ()> + Serialize,
        A: DeserializeOwned,
    {
        let body = serde_json::to_vec(object).map_err(|error| CallError::Refused(error.to_string()))?;
        self.send(request::<K>(namespace).create(&PostParams::default(), body)).await
    }

    /// Applies a JSON merge patch. Name uid and resourceVersion in it to guard it.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn merge<K>(&self, namespace: &str, name: &str, patch: &serde_json::Value) -> Result<K, CallError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.send(request::<K>(namespace).patch(name, &PatchParams::default(), &Patch::Merge(patch))).await
    }

    /// Applies a JSON merge patch to the status.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn merge_status<K>(&self, namespace: &str, name: &str, patch: &serde_json::Value) -> Result<K, CallError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let patch = Patch::Merge(patch);
        self.send(request::<K>(namespace).patch_subresource("status", name, &PatchParams::default(), &patch)).await
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn replace<K>(&self, namespace: &str, name: &str, object: &K) -> Result<K, CallError>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let body = serde_json::to_vec(object).map_err(|error| CallError::Refused(error.to_string()))?;
        self.send(request::<K>(namespace).replace(name, &PostParams::default(), body)).await
    }

    /// Server-side apply under the operator's name, taking fields over.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn apply<K>(&self, namespace: &str, name: &str, object: &K) -> Result<K, CallError>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + std::fmt::Debug,
    {
        let parameters = PatchParams::apply(crate::names::MANAGER).force();
        self.send(request::<K>(namespace).patch(name, &parameters, &Patch::Apply(object))).await
    }

    /// Deletes the object of this uid; with a resource version only in exactly this state. One that is gone, or replaced by
    /// another of the same name, is success.
    ///
    /// # Errors
    /// See [`CallError`]; [`CallError::Conflict`] when the resource version is not the current one.
    pub async fn delete<K>(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: Option<&str>,
    ) -> Result<(), CallError>
    where
        K: Resource<DynamicType = ()>,
    {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: resource_version.map(ToOwned::to_owned),
            }),
            ..DeleteParams::default()
        };
        let answer: Result<serde::de::IgnoredAny, CallError> =
            self.send(request::<K>(namespace).delete(name, &parameters)).await;
        match answer {
            Ok(_) | Err(CallError::NotFound) => Ok(()),
            Err(CallError::Conflict(_)) if resource_version.is_none() => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn send<A: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<A, CallError> {
        let request = request.map_err(|error| CallError::Refused(error.to_string()))?;
        let call = async {
            let _permit = self.permits.acquire().await.map_err(|error| CallError::Unknown(error.to_string()))?;
            // Not Client::request: it would log the body, which may be a Secret, when it cannot be read.
            let text = self.client.request_text(request).await.map_err(sorted)?;
            serde_json::from_str(&text).map_err(|error| CallError::Unknown(format!("unreadable answer: {error}")))
        };
        timeout(self.limit, call).await.unwrap_or_else(|_| Err(CallError::Unknown("no answer in time".to_owned())))
    }
}

fn request<K: Resource<DynamicType = ()>>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), Some(namespace).filter(|namespace| !namespace.is_empty())))
}

fn sorted(error: kube::Error) -> CallError {
    match error {
        kube::Error::Api(status) => match (status.code, status.reason.as_str()) {
            (404, _) => CallError::NotFound,
            (409, "AlreadyExists") => CallError::AlreadyExists,
            (409, _) => CallError::Conflict(status.message.clone()),
            (429, _) => CallError::Busy,
            (400..=499, _) => CallError::Refused(status.message.clone()),
            (_, _) => CallError::Unknown(status.message.clone()),
        },
        other => CallError::Unknown(other.to_string()),
    }
}

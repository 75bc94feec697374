//! Images at addresses, fetched and sent along, for providers that take bytes only (F2-IMG-05r).
//!
//! What cannot be fetched stays an address: the provider, or the model, then says so.

use std::{collections::VecDeque, sync::PoisonError, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use openhands_protocol::Content;
use reqwest::{Client, header::CONTENT_TYPE};

use crate::LlmRequest;

/// The largest image, bytes.
const IMAGE_LIMIT: usize = 8 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(20);
/// So many images of a conversation are remembered, so that they are not fetched again with every call.
const REMEMBERED: usize = 16;
const KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Fetches images and remembers the latest.
#[derive(Debug, Default)]
pub(crate) struct Images {
    known: std::sync::Mutex<VecDeque<(String, String)>>,
}

impl Images {
    /// The request with its images inside; `None` when there is nothing to change.
    pub(crate) async fn inlined(&self, request: &LlmRequest, http: &Client) -> Option<LlmRequest> {
        let is_remote = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        let parts = request.messages.iter().flat_map(|message| &message.content);
        let urls = parts.flat_map(|part| match part {
            Content::Image { image_urls, .. } => image_urls.as_slice(),
            Content::Text { .. } => &[],
        });
        let mut found = Vec::new();
        for url in urls.filter(|url| is_remote(url)) {
            if found.iter().all(|(known, _)| known != url)
                && let Some(data) = self.data(url, http).await
            {
                found.push((url.clone(), data));
            }
        }
        if found.is_empty() {
            return None;
        }
        let mut request = request.clone();
        for part in request.messages.iter_mut().flat_map(|message| &mut message.content) {
            if let Content::Image { image_urls, .. } = part {
                for url in image_urls {
                    if let Some((_, data)) = found.iter().find(|(known, _)| known == url) {
                        url.clone_from(data);
                    }
                }
            }
        }
        Some(request)
    }

    async fn data(&self, url: &str, http: &Client) -> Option<String> {
        let known = |known: &VecDeque<(String, String)>| {
            known.iter().find(|(known, _)| known == url).map(|(_, data)| data.clone())
        };
        if let Some(data) = known(&self.known.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Some(data);
        }
        let fetched = tokio::time::timeout(PATIENCE, fetch(url, http)).await.ok().flatten();
        let Some(data) = fetched else {
            tracing::warn!("an image could not be fetched and is sent as its address");
            return None;
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back((url.to_owned(), data.clone()));
        if known.len() > REMEMBERED {
            known.pop_front();
        }
        Some(data)
    }
}

/// Only what says that it is an image: the answer of any other server goes to no model.
async fn fetch(url: &str, http: &Client) -> Option<String> {
    let mut answer = http.get(url).send().await.ok()?.error_for_status().ok()?;
    let kind = answer.headers().get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim().to_ascii_lowercase();
    let kind = KINDS.iter().find(|known| **known == kind)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.ok()? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > IMAGE_LIMIT {
            return None;
        }
    }
    Some(format!("data:{kind};base64,{}", STANDARD.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use openhands_protocol::{Message, Role};
    use openhands_testkit::{ScriptedModel, Turn};

    use super::*;

    #[tokio::test]
    async fn images_are_fetched_once_and_others_stay_addresses() {
        let server = ScriptedModel::start([
            Turn::bytes("image/png; charset=binary", vec![0, 1, 2]),
            Turn::bytes("text/html", b"<html>".to_vec()),
            Turn::bytes("image/png", vec![0; IMAGE_LIMIT + 1]),
        ])
        .await;
        let http = crate::http_client().unwrap();
        let urls: Vec<String> = ["a", "b", "c"].map(|name| format!("{}/{name}", server.base_url())).into();
        let part = Content::Image { cache_prompt: false, image_urls: urls.clone() };
        let request = LlmRequest { messages: vec![Message::new(Role::User, vec![part])], tools: vec![] };
        let images = Images::default();
        let inlined = images.inlined(&request, &http).await.unwrap();
        let expected = vec!["data:image/png;base64,AAEC".to_owned(), urls[1].clone(), urls[2].clone()];
        assert_eq!(inlined.messages[0].content, [Content::Image { cache_prompt: false, image_urls: expected.clone() }]);
        let again = images.inlined(&request, &http).await.unwrap();
        assert_eq!(again.messages[0].content[0], Content::Image { cache_prompt: false, image_urls: expected });
        let paths: Vec<_> = server.requests().into_iter().map(|seen| seen.path).collect();
        assert_eq!(paths, ["/v1/a", "/v1/b", "/v1/c", "/v1/b", "/v1/c"]);
        let none = LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("x")])], tools: vec![] };
        assert!(images.inlined(&none, &http).await.is_none());
    }
}

//! Images as a provider takes them: those at addresses fetched and sent along, for providers that take bytes only (F2-IMG-05r), and
//! those that are too large for it made smaller.
//!
//! What cannot be fetched stays an address: the provider, or the model, then says so.

mod resize;

use std::{collections::VecDeque, sync::PoisonError, time::Duration};

use tokio::sync::Semaphore;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use openhands_protocol::Content;
use reqwest::{Client, header::CONTENT_TYPE};

use crate::LlmRequest;

/// The largest image, bytes.
const IMAGE_LIMIT: usize = 8 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(20);
/// So many images of a conversation are remembered, so that they are not fetched again with every call.
const REMEMBERED: usize = 16;
/// So many images are known to be small enough, or kept as smaller ones: a request may hold a hundred.
const RESIZED: usize = 128;
const KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// One image of the process is made smaller at a time: each may take a lot of memory.
static RESIZING: Semaphore = Semaphore::const_new(1);

/// Fetches images, makes them smaller, and remembers the latest.
#[derive(Debug, Default)]
pub(crate) struct Images {
    known: std::sync::Mutex<VecDeque<(String, String)>>,
    /// `None` for those that stay as they are.
    resized: std::sync::Mutex<VecDeque<(resize::Fingerprint, Option<String>)>>,
}

/// The addresses of all images of a request.
fn urls(request: &LlmRequest) -> impl Iterator<Item = &String> {
    let parts = request.messages.iter().flat_map(|message| &message.content);
    parts.flat_map(|part| match part {
        Content::Image { image_urls, .. } => image_urls.as_slice(),
        Content::Text { .. } => &[],
    })
}

/// The request with these images instead of those.
fn with(request: &LlmRequest, found: &[(String, String)]) -> LlmRequest {
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
    request
}

impl Images {
    /// The request with its images inside; `None` when there is nothing to change.
    pub(crate) async fn inlined(&self, request: &LlmRequest, http: &Client) -> Option<LlmRequest> {
        let is_remote = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        let mut found = Vec::new();
        for url in urls(request).filter(|url| is_remote(url)) {
            if found.iter().all(|(known, _)| known != url)
                && let Some(data) = self.data(url, http).await
            {
                found.push((url.clone(), data));
            }
        }
        (!found.is_empty()).then(|| with(request, &found))
    }

    /// The request with its inline images as small as Anthropic's models take them; `None` when there is nothing to change.
    pub(crate) async fn resized(&self, request: &LlmRequest) -> Option<LlmRequest> {
        let longest = resize::longest(urls(request).count());
        let mut found: Vec<(String, String)> = Vec::new();
        for url in urls(request).filter(|url| url.starts_with("data:image/")) {
            if found.iter().all(|(known, _)| known != url)
                && let Some(small) = self.smaller(url, longest).await
            {
                found.push((url.clone(), small));
            }
        }
        (!found.is_empty()).then(|| with(request, &found))
    }

    async fn smaller(&self, url: &str, longest: u32) -> Option<String> {
        let print = resize::fingerprint(url, longest);
        let known = |known: &VecDeque<(resize::Fingerprint, Option<String>)>| {
            known.iter().find(|(known, _)| *known == print).map(|(_, small)| small.clone())
        };
        if let Some(small) = known(&self.resized.lock().unwrap_or_else(PoisonError::into_inner)) {
            return small;
        }
        let small = match resize::too_large(url, longest) {
            None => None,
            Some(bytes) => {
                let _turn = RESIZING.acquire().await.ok()?;
                let made = tokio::task::spawn_blocking(move || resize::smaller(&bytes, longest)).await.ok().flatten();
                if made.is_none() {
                    tracing::warn!(
                        "an image is too large for the model and could not be made smaller; it is sent as it is"
                    );
                }
                made
            }
        };
        let mut known = self.resized.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back((print, small.clone()));
        if known.len() > RESIZED {
            known.pop_front();
        }
        small
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
    use image::ImageFormat;
    use openhands_protocol::{Message, Role};
    use openhands_testkit::{ScriptedModel, Turn, llm_config};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::client_for;

    fn shown(urls: &[String]) -> LlmRequest {
        let part = Content::Image { cache_prompt: false, image_urls: urls.to_vec() };
        LlmRequest { messages: vec![Message::new(Role::User, vec![part])], tools: vec![] }
    }

    #[tokio::test]
    async fn many_images_are_made_smaller_for_claude_only() {
        let large = resize::tests::picture(2100, 30, ImageFormat::Png, false);
        let mut images = vec![resize::tests::picture(10, 10, ImageFormat::Png, false); 20];
        let few = shown(std::slice::from_ref(&large));
        images.push(large.clone());
        let many = shown(&images);
        for (model, request, is_smaller) in [
            ("anthropic/claude-sonnet-4-5", &few, false),
            ("anthropic/claude-sonnet-4-5", &many, true),
            ("litellm_proxy/claude-sonnet-4-5", &many, true),
            ("openai/gpt-4o", &many, false),
        ] {
            let server = ScriptedModel::start([Turn::text("a"), Turn::text("b")]).await;
            let config = openhands_protocol::LlmConfig { model: model.to_owned(), ..llm_config(&server) };
            let client = client_for(&config, &Default::default()).unwrap();
            for _ in 0..2 {
                client.complete(request, None, &CancellationToken::new()).await.unwrap();
            }
            let data = large.split_once(',').unwrap().1;
            for seen in server.requests() {
                assert_eq!(!seen.body.to_string().contains(data), is_smaller, "{model}");
            }
        }
        let resized = Images::default().resized(&many).await.unwrap();
        let Content::Image { image_urls, .. } = &resized.messages[0].content[0] else { panic!("an image") };
        assert_eq!(resize::tests::size(&image_urls[20]), (2000, 29));
        assert_eq!(image_urls[..20], images[..20]);
    }

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

//! What clients say, as text and image parts of either interface.

use openhands_protocol::Content;
use serde::Deserialize;

use crate::error::ApiError;

/// A message's content: text, or parts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of parts")]
pub(super) enum Said {
    Text(String),
    Parts(Vec<Part>),
}

/// A part; members of kinds we do not know are ignored until their kind is refused.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    image_url: Option<Address>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Address {
    Plain(String),
    Object { url: String },
}

impl Said {
    /// As parts of a message.
    ///
    /// # Errors
    /// 400 for kinds of parts other than texts and images.
    pub(super) fn content(&self) -> Result<Vec<Content>, ApiError> {
        match self {
            Self::Text(text) if text.is_empty() => Ok(Vec::new()),
            Self::Text(text) => Ok(vec![Content::text(text)]),
            Self::Parts(parts) => {
                let mut content = Vec::with_capacity(parts.len());
                for part in parts {
                    content.extend(part.content()?);
                }
                Ok(content)
            }
        }
    }

    /// Its texts, one a line.
    ///
    /// # Errors
    /// As [`Said::content`].
    pub(super) fn text(&self) -> Result<String, ApiError> {
        let content = self.content()?;
        let texts: Vec<&str> = content.iter().filter_map(Content::as_text).collect();
        Ok(texts.join("\n"))
    }
}

impl Part {
    fn content(&self) -> Result<Option<Content>, ApiError> {
        match self.kind.as_str() {
            "text" | "input_text" | "output_text" => {
                Ok(self.text.as_ref().filter(|text| !text.is_empty()).map(Content::text))
            }
            "image_url" | "input_image" => {
                let url = match &self.image_url {
                    Some(Address::Plain(url) | Address::Object { url }) if !url.is_empty() => url.clone(),
                    _ => return Err(ApiError::BadRequest(format!("a part of type {:?} has no image_url", self.kind))),
                };
                Ok(Some(Content::Image { cache_prompt: false, image_urls: vec![url] }))
            }
            other => Err(ApiError::BadRequest(format!(
                "content parts of type {other:?} are not supported, only texts and images are"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(json: Value) -> Said {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn texts_and_images_of_both_interfaces_are_read() {
        let image = |url: &str| Content::Image { cache_prompt: false, image_urls: vec![url.to_owned()] };
        let parts = said(json!([
            {"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, {"type": "text", "text": ""},
            {"type": "image_url", "image_url": {"url": "u", "detail": "low"}}, {"type": "input_image", "image_url": "v"},
        ]));
        assert_eq!(parts.content().unwrap(), [Content::text("a"), Content::text("b"), image("u"), image("v")]);
        assert_eq!(parts.text().unwrap(), "a\nb");
        assert_eq!(said(json!("")).content().unwrap(), []);
        let error = serde_json::from_value::<Said>(json!(1)).unwrap_err();
        assert_eq!(error.to_string(), "expected a text or a list of parts");
        for wrong in [json!([{"type": "input_audio"}]), json!([{"type": "image_url"}])] {
            assert!(matches!(said(wrong).content(), Err(ApiError::BadRequest(_))));
        }
    }
}

//! A conversation as every provider takes it: each call with its result, no result without its call, ids that the provider accepts.
//!
//! Histories come from disk: cut off, condensed, begun with another provider. What does not fit together is left out or stood in
//! for here, once, so that no adapter has to think of it. Borrows all texts.

use std::{borrow::Cow, collections::HashSet, hash::Hasher as _};

use openhands_protocol::{Content, Message, Role, ToolCall};

/// Said where a result is missing.
const NO_RESULT: &str = "No result of this call is known: the run was cut off.";

/// What ids of calls may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallIds {
    /// Up to so many characters of any kind.
    Any(usize),
    /// Letters, digits, `_` and `-`, up to 64.
    Word,
    /// Nine letters and digits.
    Nine,
}

/// A whole conversation.
#[derive(Debug, Default)]
pub(crate) struct History<'a> {
    /// The parts of all system messages.
    pub(crate) system: Vec<&'a Content>,
    pub(crate) turns: Vec<Turn<'a>>,
}

/// What one side says.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    /// The user, or the framework in the user's role.
    User(&'a Message),
    /// The model, with its calls.
    Assistant {
        /// What was said; its own list of calls is not used.
        message: &'a Message,
        /// Its calls with their results.
        calls: Vec<Call<'a>>,
    },
}

/// A call and what came of it.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// As the provider takes it, the same in call and result.
    pub(crate) id: Cow<'a, str>,
    pub(crate) call: &'a ToolCall,
    /// The tool's name, as every provider takes it.
    pub(crate) name: Cow<'a, str>,
    /// `None` when no result is known.
    pub(crate) result: Option<&'a Message>,
}

impl<'a> Call<'a> {
    /// The result's parts.
    pub(crate) fn content(&self) -> &'a [Content] {
        self.result.map(|message| message.content.as_slice()).unwrap_or_default()
    }

    /// The result's text, shortened to `limit` characters; never empty.
    pub(crate) fn text(&self, limit: usize) -> String {
        let text = match self.result.map(|message| message.content.as_slice()) {
            Some([Content::Text { text, .. }]) => Cow::Borrowed(text.as_str()),
            Some(content) => Cow::Owned(text(content)),
            None => Cow::Borrowed(NO_RESULT),
        };
        shortened(&text, limit)
    }

    /// The argument string, or `{}` for one that is no JSON object: a history with such is refused for ever after.
    pub(crate) fn arguments(&self) -> &'a str {
        let is_object = self.call.arguments.trim_start().starts_with('{')
            && serde_json::from_str::<serde::de::IgnoredAny>(&self.call.arguments).is_ok();
        if is_object { self.call.arguments.as_str() } else { "{}" }
    }

    /// The arguments as an object.
    pub(crate) fn input(&self) -> serde_json::Value {
        serde_json::from_str(self.arguments()).unwrap_or_else(|_| serde_json::json!({}))
    }
}

impl<'a> History<'a> {
    pub(crate) fn of(messages: &'a [Message], ids: CallIds) -> Self {
        let mut history = Self::default();
        let mut taken = HashSet::new();
        let mut used = vec![false; messages.len()];
        for (place, message) in messages.iter().enumerate() {
            match message.role {
                Role::System => history.system.extend(&message.content),
                Role::User => history.turns.push(Turn::User(message)),
                // Results are placed with their calls.
                Role::Tool => {}
                Role::Assistant => {
                    let calls = message.tool_calls.iter().flatten().filter(|call| !call.name.is_empty());
                    let calls = calls
                        .map(|call| {
                            let result = find_result(messages, &mut used, place, &call.id);
                            let id = ids.acceptable(&call.id, &mut taken, (place, history.turns.len()));
                            Call { id, call, name: acceptable_name(&call.name), result }
                        })
                        .collect();
                    history.turns.push(Turn::Assistant { message, calls });
                }
            }
        }
        history
    }

    /// The text of the system messages.
    pub(crate) fn system_text(&self) -> String {
        text(self.system.iter().copied())
    }
}

/// The first unused result behind `place`, up to the next message that calls by the same id.
fn find_result<'a>(messages: &'a [Message], used: &mut [bool], place: usize, id: &str) -> Option<&'a Message> {
    for (at, message) in messages.iter().enumerate().skip(place + 1) {
        let calls_again =
            message.role == Role::Assistant && message.tool_calls.iter().flatten().any(|call| call.id == id);
        if calls_again {
            return None;
        }
        let is_result = message.role == Role::Tool && message.tool_call_id.as_deref() == Some(id);
        if let Some(used) = used.get_mut(at).filter(|used| is_result && !**used) {
            *used = true;
            return Some(message);
        }
    }
    None
}

impl CallIds {
    fn accepts(self, id: &str) -> bool {
        let is_word = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        !id.is_empty()
            && match self {
                Self::Any(limit) => id.len() <= limit,
                Self::Word => id.len() <= 64 && is_word(id),
                Self::Nine => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            }
    }

    /// The id itself, or one made from it: always the same for the same history, so that prefixes stay cached.
    fn acceptable<'a>(self, id: &'a str, taken: &mut HashSet<String>, place: (usize, usize)) -> Cow<'a, str> {
        if self.accepts(id) && taken.insert(id.to_owned()) {
            return Cow::Borrowed(id);
        }
        let mut salt = 0;
        loop {
            let mut hash = Fnv::default();
            hash.write(id.as_bytes());
            hash.write_usize(if id.is_empty() { place.0 } else { 0 });
            hash.write_usize(salt);
            let digits = base36(hash.finish());
            let made = match self {
                Self::Nine => digits.chars().take(9).collect(),
                Self::Any(_) | Self::Word => format!("call_{digits}"),
            };
            if taken.insert(made.clone()) {
                return Cow::Owned(made);
            }
            salt += 1;
        }
    }
}

/// Models make names up, with characters that make the history invalid for ever after.
fn acceptable_name(name: &str) -> Cow<'_, str> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.len() <= 64 && name.bytes().all(is_good) {
        return Cow::Borrowed(name);
    }
    let good = |character: char| if u8::try_from(character).is_ok_and(is_good) { character } else { '_' };
    Cow::Owned(name.chars().take(64).map(good).collect())
}

/// FNV-1a: the standard library's hash may change between its versions.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl std::hash::Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

fn base36(mut number: u64) -> String {
    let mut digits = String::with_capacity(13);
    for _ in 0..13 {
        let digit = u32::try_from(number % 36).unwrap_or(0);
        digits.extend(char::from_digit(digit, 36));
        number /= 36;
    }
    digits
}

/// Text parts in one string.
pub(crate) fn text<'a>(content: impl IntoIterator<Item = &'a Content>) -> String {
    content.into_iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
}

/// The addresses of all images.
pub(crate) fn images(content: &[Content]) -> impl Iterator<Item = &str> {
    content.iter().flat_map(|part| match part {
        Content::Image { image_urls, .. } => image_urls.iter().map(String::as_str).collect(),
        Content::Text { .. } => Vec::new(),
    })
}

/// An image that carries its bytes in its address: (media type, base64).
pub(crate) fn inline_image(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let kind = head.strip_suffix(";base64")?;
    Some((kind.split(';').next().filter(|kind| !kind.is_empty()).unwrap_or("image/png"), data))
}

/// A long text loses its middle: the beginning tells what it is and the end how it went (F1-LLM-13).
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit || text.chars().count() <= limit {
        return text.to_owned();
    }
    let count = text.chars().count();
    let (head, tail) = (limit - limit / 2, limit / 2);
    let at = |character: usize| text.char_indices().nth(character).map_or(text.len(), |(at, _)| at);
    let (first, last) = (text.get(..at(head)).unwrap_or_default(), text.get(at(count - tail)..).unwrap_or_default());
    format!("{first}\n[{} characters left out]\n{last}", count - head - tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            responses_item_id: None,
            name: "terminal".to_owned(),
            arguments: "{}".to_owned(),
            origin: Default::default(),
        }
    }

    fn calls(ids: &[&str]) -> Message {
        Message { tool_calls: Some(ids.iter().map(|id| call(id)).collect()), ..Message::new(Role::Assistant, vec![]) }
    }

    fn result(id: &str, text: &str) -> Message {
        Message { tool_call_id: Some(id.to_owned()), ..Message::new(Role::Tool, vec![Content::text(text)]) }
    }

    /// "id=result" of each call.
    fn paired(messages: &[Message], ids: CallIds) -> Vec<String> {
        let history = History::of(messages, ids);
        let turns = history.turns.iter().filter_map(|turn| match turn {
            Turn::Assistant { calls, .. } => Some(calls),
            Turn::User(_) => None,
        });
        turns.flatten().map(|call| format!("{}={}", call.id, call.text(20))).collect()
    }

    #[test]
    fn calls_and_results_find_each_other() {
        let any = CallIds::Any(64);
        assert_eq!(paired(&[calls(&["a", "b"]), result("b", "2"), result("a", "1")], any), ["a=1", "b=2"]);
        let missing = format!("a={}", shortened(NO_RESULT, 20));
        assert_eq!(paired(&[result("a", "0"), calls(&["a"])], any), [missing]);
        let again = paired(&[calls(&["a"]), result("a", "1"), calls(&["a"]), result("a", "2")], any);
        assert_eq!(again[0], "a=1");
        assert!(again[1].starts_with("call_") && again[1].ends_with("=2"), "{again:?}");
        let twice = paired(&[calls(&["a", "a"]), result("a", "1"), result("a", "2")], any);
        assert!(twice[0] == "a=1" && twice[1].ends_with("=2"), "{twice:?}");
    }

    #[test]
    fn ids_become_acceptable_and_stay_the_same() {
        let long = "x".repeat(100);
        let messages = [calls(&["toolu_01", "fc.1:2", &long, ""])];
        for ids in [CallIds::Any(64), CallIds::Word, CallIds::Nine] {
            let made = paired(&messages, ids);
            assert_eq!(made, paired(&messages, ids));
            let unique: HashSet<_> = made.iter().map(|pair| pair.split('=').next().unwrap()).collect();
            assert!(unique.len() == 4 && unique.iter().all(|id| ids.accepts(id)), "{made:?}");
        }
    }

    #[test]
    fn names_become_acceptable() {
        for (name, expected) in [("a_b-C1", "a_b-C1"), ("fs.read file", "fs_read_file"), ("größe", "gr__e")] {
            assert_eq!(acceptable_name(name), expected);
        }
        assert_eq!(acceptable_name(&"x".repeat(100)).len(), 64);
    }

    #[test]
    fn arguments_are_objects() {
        for (arguments, expected) in [("{\"a\": 1}", "{\"a\": 1}"), ("{broken", "{}"), ("[1]", "{}"), ("", "{}")] {
            let call = ToolCall { arguments: arguments.to_owned(), ..call("a") };
            assert_eq!(Call { id: "a".into(), name: "t".into(), call: &call, result: None }.arguments(), expected);
        }
    }

    #[test]
    fn inline_images_are_told_from_addresses() {
        assert_eq!(inline_image("data:image/jpeg;base64,AA=="), Some(("image/jpeg", "AA==")));
        assert_eq!(inline_image("data:;base64,AA=="), Some(("image/png", "AA==")));
        assert_eq!(inline_image("data:image/svg+xml,<svg/>"), None);
        assert_eq!(inline_image("https://h/x.png"), None);
    }

    #[test]
    fn long_texts_lose_their_middle() {
        assert_eq!(shortened("äbcdef", 6), "äbcdef");
        assert_eq!(shortened("äbcdefgü", 4), "äb\n[4 characters left out]\ngü");
        assert_eq!(shortened("abc", 0), "\n[3 characters left out]\n");
    }
}

//! Replacing secret values in texts, also in texts that come in pieces (F1-SCR-04).

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

/// What stands where a secret was.
pub const HIDDEN: &str = "<secret-hidden>";

/// Finds all known values in one pass; of values that overlap the leftmost and longest one counts.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    finder: Option<Arc<AhoCorasick>>,
    longest: usize,
    /// The same values sorted, to ask whether one begins with a text.
    sorted: Arc<[Box<str>]>,
}

impl Mask {
    pub(crate) fn new<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let values: Vec<&str> = values.filter(|value| !value.is_empty()).collect();
        let longest = values.iter().map(|value| value.len()).max().unwrap_or(0);
        if longest == 0 {
            return Self::default();
        }
        let mut sorted: Vec<Box<str>> = values.iter().map(|value| (*value).into()).collect();
        sorted.sort_unstable();
        match AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&values) {
            Ok(finder) => Self { finder: Some(Arc::new(finder)), longest, sorted: sorted.into() },
            Err(error) => {
                // Only with more text than an automaton can index; the registry's limits keep far below that.
                tracing::error!(%error, "secrets cannot be masked");
                Self::default()
            }
        }
    }

    pub(crate) fn apply(&self, text: &str) -> String {
        let Some(finder) = &self.finder else { return text.to_owned() };
        let mut masked = String::with_capacity(text.len());
        finder.replace_all_with(text, &mut masked, |_, _, masked| {
            masked.push_str(HIDDEN);
            true
        });
        masked
    }

    /// Masks every string of a JSON value but the tags in `kind` and `type`, and inline images, whose text is no prose.
    pub(crate) fn apply_json(&self, json: &mut Value) {
        let Some(finder) = &self.finder else { return };
        match json {
            Value::String(text) if text.starts_with("data:") && text.contains(";base64,") => {}
            Value::String(text) => {
                if finder.is_match(text.as_str()) {
                    *text = self.apply(text);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply_json(item)),
            Value::Object(members) => {
                members
                    .iter_mut()
                    .filter(|(name, _)| *name != "kind" && *name != "type")
                    .for_each(|(_, value)| self.apply_json(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub(crate) fn stream(&self) -> StreamMask {
        StreamMask { mask: self.clone(), held: String::new(), skipped: false }
    }

    /// How much of a text is certain, whatever follows: the rest is the beginning of a value.
    fn certain(&self, text: &str) -> usize {
        let earliest = (text.len() + 1).saturating_sub(self.longest);
        let begins_a_value = |at: &usize| {
            text.get(*at..).is_some_and(|rest| {
                let next = self.sorted.partition_point(|value| **value <= *rest);
                self.sorted.get(next).is_some_and(|value| value.starts_with(rest))
            })
        };
        (earliest..text.len()).find(begins_a_value).unwrap_or(text.len())
    }
}

/// How much text that nobody wants to see is gathered before it is looked through.
const SKIPPED_LIMIT: usize = 4096;

/// Masks a text that comes in pieces: the end of each piece is held back while it could be the beginning of a secret.
pub struct StreamMask {
    mask: Mask,
    held: String,
    /// What is held may contain text that nobody wants to see.
    skipped: bool,
}

impl StreamMask {
    /// Takes a piece and gives what may be shown now.
    pub fn feed(&mut self, piece: &str) -> String {
        if self.mask.finder.is_none() {
            return piece.to_owned();
        }
        if std::mem::take(&mut self.skipped) {
            self.release(self.mask.certain(&self.held));
        }
        self.held.push_str(piece);
        self.release(self.mask.certain(&self.held))
    }

    /// Takes a piece that nobody wants to see; only what may be the beginning of a secret is kept.
    pub fn skip(&mut self, piece: &str) {
        if self.mask.finder.is_none() {
            return;
        }
        self.held.push_str(piece);
        self.skipped = true;
        if self.held.len() > SKIPPED_LIMIT.max(2 * self.mask.longest) {
            self.release(self.mask.certain(&self.held));
        }
    }

    /// Forgets what is held back: a new text begins.
    pub fn clear(&mut self) {
        self.held.clear();
        self.skipped = false;
    }

    /// Gives the rest; nothing more comes.
    pub fn finish(&mut self) -> String {
        self.release(self.held.len())
    }

    fn release(&mut self, cut: usize) -> String {
        let Some(finder) = &self.mask.finder else { return String::new() };
        let (mut shown, mut from, mut end) = (String::new(), 0, cut);
        for found in finder.find_iter(&self.held).take_while(|found| found.start() < cut) {
            shown.push_str(self.held.get(from..found.start()).unwrap_or_default());
            shown.push_str(HIDDEN);
            from = found.end();
            end = end.max(from);
        }
        shown.push_str(self.held.get(from..end).unwrap_or_default());
        self.held.drain(..end);
        shown
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_longest_of_overlapping_values_is_hidden_whole() {
        let mask = Mask::new(["abc", "abcdef", "", "é"].into_iter());
        assert_eq!(mask.apply("xabcdefx abc é"), "x<secret-hidden>x <secret-hidden> <secret-hidden>");
        assert_eq!(Mask::new([""].into_iter()).apply("text"), "text");
    }

    #[test]
    fn json_is_masked_but_for_tags_and_images() {
        let mask = Mask::new(["ab"].into_iter());
        let mut json = json!({"kind": "ab", "text": ["xab", 1, {"url": "data:image/png;base64,ab"}], "ab": "ab"});
        mask.apply_json(&mut json);
        assert_eq!(
            json,
            json!({"kind": "ab", "text": ["x<secret-hidden>", 1, {"url": "data:image/png;base64,ab"}], "ab": "<secret-hidden>"})
        );
    }

    #[test]
    fn a_stream_is_masked_as_the_whole_text_wherever_it_is_cut() {
        let mask = Mask::new(["geheim-ß-wort", "geheim", "wort"].into_iter());
        let text = "a geheim b geheim-ß-wort c geheim-ß-wor d ß wort";
        let whole = mask.apply(text);
        let borders: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        for first in &borders {
            for second in borders.iter().filter(|second| *second >= first) {
                let mut stream = mask.stream();
                let shown: String = [&text[..*first], &text[*first..*second], &text[*second..]]
                    .into_iter()
                    .map(|piece| stream.feed(piece))
                    .collect();
                assert_eq!(shown + &stream.finish(), whole, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn only_the_beginning_of_a_secret_is_held_back() {
        let mut stream = Mask::new(["secret-value-of-many-characters", "xab", "abz"].into_iter()).stream();
        let table = [
            ("plain", "plain"),
            (" text s", " text "),
            ("o", "so"),
            (" secret-value-of-many-character", " "),
            ("s!", "<secret-hidden>!"),
            ("xab", "<secret-hidden>"),
            ("z secret-", "z "),
        ];
        for (piece, shown) in table {
            assert_eq!(stream.feed(piece), shown, "{piece}");
        }
        assert_eq!(stream.finish(), "secret-");
    }

    #[test]
    fn skipped_text_is_not_shown_and_hides_the_rest_of_its_secret() {
        let mut stream = Mask::new(["geheim"].into_iter()).stream();
        stream.skip("before ");
        stream.skip("gehe");
        assert_eq!(stream.feed("im after"), "<secret-hidden> after");
        stream.skip(&"x".repeat(3 * SKIPPED_LIMIT));
        assert!(stream.held.len() < SKIPPED_LIMIT);
        stream.skip("ge");
        stream.clear();
        assert_eq!(stream.feed("heim") + &stream.finish(), "heim");
    }
}

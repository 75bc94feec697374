//! Query strings: typed reads that collect every problem, so that a 422 lists them all. Repeated keys are kept.

use axum::{extract::FromRequestParts, http::request::Parts};
use openhands_protocol::{ConversationId, time::event_stamp_from_query};
use serde_json::{Value, json};

use crate::{error::ApiError, validation::Problem};

/// The parameters of one request.
#[derive(Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
    problems: Vec<Problem>,
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl Query {
    /// Reads a query string.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let pairs = url::form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        Self { pairs, problems: Vec::new() }
    }

    /// The last value of a key, as the reference's framework takes it.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a key.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// A value that must be there.
    pub fn required(&mut self, name: &str) -> String {
        let Some(value) = self.text(name) else {
            self.problem(Problem::new("missing", ["query", name], "Field required").input(Value::Null));
            return String::new();
        };
        value.to_owned()
    }

    /// A whole number between `low` and `high`, both included.
    pub fn number(&mut self, name: &str, default: u64, low: u64, high: u64) -> u64 {
        self.optional_number(name, low, high).unwrap_or(default)
    }

    /// A page's size, 1 to 100, 100 when absent.
    pub fn limit(&mut self) -> usize {
        usize::try_from(self.number("limit", 100, 1, 100)).unwrap_or(100)
    }

    /// A whole number between `low` and `high`, both included; `None` when absent or refused.
    pub fn optional_number(&mut self, name: &str, low: u64, high: u64) -> Option<u64> {
        let text = self.text(name)?.to_owned();
        let Ok(value) = text.parse::<i128>() else {
            let msg = "Input should be a valid integer, unable to parse string as an integer";
            self.problem(Problem::new("int_parsing", ["query", name], msg).input(text));
            return None;
        };
        if value < i128::from(low) {
            let (kind, msg, ctx) = if low == 1 {
                ("greater_than", "Input should be greater than 0".to_owned(), json!({"gt": 0}))
            } else {
                let msg = format!("Input should be greater than or equal to {low}");
                ("greater_than_equal", msg, json!({"ge": low}))
            };
            self.problem(Problem::new(kind, ["query", name], msg).input(text).ctx(ctx));
            return None;
        }
        if value > i128::from(high) {
            let msg = format!("Input should be less than or equal to {high}");
            self.problem(Problem::new("less_than_equal", ["query", name], msg).input(text).ctx(json!({"le": high})));
            return None;
        }
        u64::try_from(value).ok()
    }

    /// A yes or no; false when absent.
    pub fn flag(&mut self, name: &str) -> bool {
        let Some(text) = self.text(name).map(str::to_owned) else { return false };
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "t" | "yes" | "y" | "on" => true,
            "0" | "false" | "f" | "no" | "n" | "off" => false,
            _ => {
                let msg = "Input should be a valid boolean, unable to interpret input";
                self.problem(Problem::new("bool_parsing", ["query", name], msg).input(text));
                false
            }
        }
    }

    /// One of the names of an enumeration.
    pub fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        self.one_of("enum", name, choices)
    }

    /// One of a few fixed words; the reference tells these apart from enumerations.
    pub fn literal<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        self.one_of("literal_error", name, choices)
    }

    fn one_of<T: Copy>(&mut self, kind: &str, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(name)?.to_owned();
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("'{word}'")).collect();
        let expected = match words.split_last() {
            Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
            _ => words.concat(),
        };
        let msg = format!("Input should be {expected}");
        self.problem(Problem::new(kind, ["query", name], msg).input(text).ctx(json!({ "expected": expected })));
        None
    }

    /// A time, as an event time stamp.
    pub fn time(&mut self, name: &str) -> Option<String> {
        let text = self.text(name)?.to_owned();
        let stamp = event_stamp_from_query(&text);
        if stamp.is_none() {
            let msg = "Input should be a valid datetime or date";
            self.problem(Problem::new("datetime_from_date_parsing", ["query", name], msg).input(text));
        }
        stamp
    }

    /// A list of at most `most` conversation ids; at least one must be there.
    pub fn conversation_ids(&mut self, name: &str, most: usize) -> Vec<ConversationId> {
        let texts: Vec<String> = self.all(name).into_iter().map(str::to_owned).collect();
        if texts.is_empty() {
            self.problem(Problem::new("missing", ["query", name], "Field required").input(Value::Null));
        }
        if texts.len() > most {
            let msg = format!("List should have at most {most} items after validation, not {}", texts.len());
            self.problem(Problem::new("too_long", ["query", name], msg));
            return Vec::new();
        }
        let mut ids = Vec::with_capacity(texts.len());
        for (index, text) in texts.into_iter().enumerate() {
            match text.parse() {
                Ok(id) => ids.push(id),
                Err(error) => self.problem(
                    Problem::new("uuid_parsing", [json!("query"), json!(name), json!(index)], uuid_text(&error))
                        .input(text),
                ),
            }
        }
        ids
    }

    /// Notes a problem that the caller found.
    pub fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// To be called after the reads: the collected problems as a 422.
    ///
    /// # Errors
    /// When there was any problem.
    pub fn finish(&mut self) -> Result<(), ApiError> {
        let problems = std::mem::take(&mut self.problems);
        if problems.is_empty() { Ok(()) } else { Err(ApiError::Invalid(problems)) }
    }
}

/// The text of a 422 for an id that is no UUID.
#[must_use]
pub fn uuid_text(error: &uuid::Error) -> String {
    format!("Input should be a valid UUID, {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(mut query: Query) -> Vec<String> {
        match query.finish() {
            Err(ApiError::Invalid(problems)) => problems.into_iter().map(|problem| problem.kind).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn limits_are_checked_and_every_problem_is_listed() {
        let mut query = Query::parse("limit=101&sort=UP&flag=maybe&after=never");
        query.limit();
        query.choice("sort", &[("DOWN", 1)]);
        query.flag("flag");
        query.time("after");
        query.required("path");
        assert_eq!(kinds(query), ["less_than_equal", "enum", "bool_parsing", "datetime_from_date_parsing", "missing"]);
        for (text, kind) in [("limit=0", "greater_than"), ("limit=x", "int_parsing"), ("limit=-3", "greater_than")] {
            let mut query = Query::parse(text);
            query.limit();
            assert_eq!(kinds(query), [kind], "{text}");
        }
        let mut query = Query::parse("limit=7&ids=00000000000000000000000000000001&ids=x");
        assert_eq!(query.limit(), 7);
        assert_eq!(query.conversation_ids("ids", 99).len(), 1);
        assert_eq!(kinds(query), ["uuid_parsing"]);
    }
}

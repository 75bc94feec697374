//! Where two values differ.

use std::fmt;

use serde_json::Value;

/// Stands for a member that is not there.
pub const ABSENT: &str = "(absent)";
/// Longest value that is shown.
const SHOWN: usize = 300;

/// One place at which two requests differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The members and indexes that lead to it, with `/` before each.
    pub at: String,
    /// What is there in ours; the word [`ABSENT`] when nothing is.
    pub ours: Value,
    /// What is there in theirs.
    pub theirs: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |value: &Value| value.to_string().chars().take(SHOWN).collect::<String>();
        write!(f, "{}\n      ours:   {}\n      theirs: {}", self.at, short(&self.ours), short(&self.theirs))
    }
}

/// Every place at which `ours` and `theirs` differ, as deep as possible.
#[must_use]
pub fn between(ours: &Value, theirs: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), Some(ours), Some(theirs), &mut found);
    found
}

fn compare(at: String, ours: Option<&Value>, theirs: Option<&Value>, found: &mut Vec<Difference>) {
    match (ours, theirs) {
        (Some(Value::Object(mine)), Some(Value::Object(other))) => {
            let names = mine.keys().chain(other.keys().filter(|name| !mine.contains_key(*name)));
            for name in names {
                compare(format!("{at}/{name}"), mine.get(name), other.get(name), found);
            }
        }
        (Some(Value::Array(mine)), Some(Value::Array(other))) => {
            for index in 0..mine.len().max(other.len()) {
                compare(format!("{at}/{index}"), mine.get(index), other.get(index), found);
            }
        }
        _ if same(ours, theirs) => {}
        _ => {
            let shown = |value: Option<&Value>| value.cloned().unwrap_or_else(|| ABSENT.into());
            found.push(Difference { at, ours: shown(ours), theirs: shown(theirs) });
        }
    }
}

/// Numbers by their size: 1 is 1.0.
fn same(ours: Option<&Value>, theirs: Option<&Value>) -> bool {
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    ours == theirs || (number(ours).is_some() && number(ours) == number(theirs))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_found_where_they_are() {
        let ours = json!({"a": [{"b": 1}, 2], "n": 1, "only": true});
        let theirs = json!({"a": [{"b": 2}], "n": 1.0, "other": null});
        let found: Vec<_> = between(&ours, &theirs).into_iter().map(|d| (d.at, d.ours, d.theirs)).collect();
        let absent = || json!(ABSENT);
        assert_eq!(
            found,
            [
                ("/a/0/b".to_owned(), json!(1), json!(2)),
                ("/a/1".to_owned(), json!(2), absent()),
                ("/only".to_owned(), json!(true), absent()),
                ("/other".to_owned(), absent(), json!(null)),
            ]
        );
    }
}

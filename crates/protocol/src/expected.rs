//! What a member takes, in words for people: serde names the types of this program instead. Knows the shapes of its messages only.

/// What was expected, out of serde's message about a wrong value. Never the value itself, which may be a secret.
///
/// `None` when the message is about something else, such as a missing member.
#[must_use]
pub fn expected(message: &str) -> Option<&str> {
    // A value that is repeated before it may hold the same words.
    let (_, expected) = message.rsplit_once(", expected ")?;
    // Texts that were read as JSON end with a place.
    Some(in_words(expected.split(" at line ").next().unwrap_or(expected)))
}

fn in_words(expected: &str) -> &str {
    match expected.split_whitespace().next().unwrap_or_default() {
        "f64" | "f32" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "struct" => "an object",
        "a" if expected == "a map" => "an object",
        "a" if expected == "a sequence" => "a list",
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_told_in_words_without_the_value() {
        let table = [
            ("invalid type: string \"hot\", expected f64", Some("a number")),
            ("invalid value: integer `-1`, expected u32", Some("a whole number of 0 or more")),
            ("invalid type: string \"a, expected b\", expected i64 at line 1 column 4", Some("a whole number")),
            ("invalid type: string \"x\", expected a sequence", Some("a list")),
            ("invalid type: null, expected struct LlmConfig", Some("an object")),
            ("invalid type: integer `7`, expected a boolean", Some("a boolean")),
            ("unknown variant `x`, expected one of `a`, `b`", Some("one of `a`, `b`")),
            ("missing field `model`", None),
        ];
        for (message, words) in table {
            assert_eq!(expected(message), words, "{message}");
        }
    }
}

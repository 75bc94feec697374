//! What may be a name. Profile names become file names, secret names become variables of commands.

const LONGEST: usize = 64;

/// Whether a text can name a profile: `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$` (F2-PROF-12r).
#[must_use]
pub fn is_profile_name(name: &str) -> bool {
    is_file_name(name, LONGEST)
}

pub(crate) fn is_file_name(name: &str, longest: usize) -> bool {
    name.len() <= longest
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Whether a text can name a secret: `^[a-zA-Z][a-zA-Z0-9_]{0,63}$`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    name.len() <= LONGEST
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The profile that a name addresses: `fast.json` is `fast`.
#[must_use]
pub fn canonical_profile_name(name: &str) -> &str {
    name.strip_suffix(".json").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let longest = "a".repeat(64);
        for name in ["a", "fast", "gpt-5.6_x", "0", &longest] {
            assert!(is_profile_name(name), "{name}");
        }
        let longer = "a".repeat(65);
        for name in ["", ".hidden", "-x", "a/b", "..", "a b", "é", "a\n", &longer] {
            assert!(!is_profile_name(name), "{name:?}");
        }
        assert!(is_secret_name("GITHUB_TOKEN") && is_secret_name("a"));
        for name in ["", "_A", "1A", "A-B", "A B", "A!", &longer] {
            assert!(!is_secret_name(name), "{name:?}");
        }
        assert_eq!((canonical_profile_name("a.json"), canonical_profile_name("a")), ("a", "a"));
    }
}

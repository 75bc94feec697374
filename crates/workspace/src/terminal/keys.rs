//! Names of keys, and what a terminal sends for them.

const NAMED: &[(&str, &[u8])] = &[
    ("ENTER", b"\r"),
    ("TAB", b"\t"),
    ("BS", b"\x7f"),
    ("ESC", b"\x1b"),
    ("UP", b"\x1b[A"),
    ("DOWN", b"\x1b[B"),
    ("RIGHT", b"\x1b[C"),
    ("LEFT", b"\x1b[D"),
    ("HOME", b"\x1b[H"),
    ("END", b"\x1b[F"),
    ("PGUP", b"\x1b[5~"),
    ("PGDN", b"\x1b[6~"),
];

/// The bytes of a named key (`UP`) or of Ctrl with a letter or one of `@ [ \ ] ^ _` (`C-c`). `None`: `name` is plain text.
#[must_use]
pub fn key(name: &str) -> Option<Vec<u8>> {
    if let Some((_, bytes)) = NAMED.iter().find(|(key, _)| *key == name) {
        return Some(bytes.to_vec());
    }
    let with = name.strip_prefix("C-").or_else(|| name.strip_prefix("c-"))?;
    match with.as_bytes() {
        [character] if character.is_ascii_alphabetic() => Some(vec![character.to_ascii_uppercase() & 0x1f]),
        [character @ (b'@' | b'[' | b'\\' | b']' | b'^' | b'_')] => Some(vec![character & 0x1f]),
        _ => None,
    }
}

/// The names of all keys but the Ctrl combinations.
pub fn key_names() -> impl Iterator<Item = &'static str> {
    NAMED.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_text() {
        assert_eq!(key("C-c"), Some(vec![3]));
        assert_eq!(key("C-["), Some(vec![0x1b]));
        assert_eq!(key("UP"), Some(b"\x1b[A".to_vec()));
        assert_eq!(key("C-cc"), None);
        assert_eq!(key("up the hill"), None);
    }
}

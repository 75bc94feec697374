//! Tokens of a text without a tokenizer: its pieces are known exactly, and how many tokens a piece has depends mostly on its kind and
//! length. The figures are means of the cl100k vocabulary, which LiteLLM counts nearly every model with, over 12 MB of source code,
//! documentation and JSON; for scripts other than Latin over sentences of the tests.

use super::pieces::{CL100K, pieces};

/// Tokens of a text; 0 for none.
pub(super) fn tokens(text: &str) -> u64 {
    let hundredths: u64 = pieces(text, CL100K).map(hundredths).sum();
    // No token is shorter than a byte.
    hundredths.div_ceil(100).min(text.len() as u64)
}

/// Hundredths of tokens of one piece.
fn hundredths(piece: &str) -> u64 {
    let Some(head) = piece.chars().next() else { return 0 };
    let word = if head.is_alphabetic() { piece } else { piece.get(head.len_utf8()..).unwrap_or_default() };
    if word.starts_with(char::is_alphabetic) {
        let before = if word.len() == piece.len() {
            Before::Nothing
        } else if head == ' ' {
            Before::Space
        } else {
            Before::Sign
        };
        return if word.is_ascii() { latin(word.as_bytes(), before) } else { other_script(word, before) };
    }
    let length = piece.len() as u64;
    if piece.trim().is_empty() {
        return 100 + length / 64 * 50;
    }
    if head.is_numeric() {
        // Digits of other scripts have no groups.
        return if piece.is_ascii() { 100 } else { 45 * length };
    }
    signs(piece)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Space,
    Sign,
}

/// A word of ASCII letters.
fn latin(word: &[u8], before: Before) -> u64 {
    let length = word.len() as u64;
    let large = word.iter().filter(|letter| letter.is_ascii_uppercase()).count();
    let is_title = large == 1 && word.first().is_some_and(u8::is_ascii_uppercase);
    if large == 0 || is_title {
        let plain = match (before, length) {
            (Before::Sign, 2) if is_title => 190,
            (Before::Sign, 3..=6) if is_title => 130,
            (Before::Sign, 7..) if is_title => 180 + 10 * length.saturating_sub(8),
            (_, 0..=2) => 101,
            (Before::Space, 3..=6) => 103,
            (Before::Space, 7..=11) => 112,
            (Before::Space, 12..=14) => 140,
            (Before::Nothing, 3..=5) => 105,
            (Before::Nothing, 6) => 113,
            (Before::Nothing, 7..=11) => 138,
            (Before::Nothing, 12..=14) => 185,
            (Before::Sign, 3..=4) => 111,
            (Before::Sign, 5..=6) => 120,
            (Before::Sign, 7..=8) => 142,
            (Before::Sign, 9..=11) => 170,
            (Before::Sign, 12..=14) => 220,
            // Longer ones are several words, or none.
            (_, _) => 20 * length,
        };
        return plain;
    }
    if large == word.len() {
        return 60 + if length > 16 { 35 } else { 20 } * length;
    }
    // A hump every few letters is a name in code; one at every other is noise, base64 above all.
    let changes = word
        .windows(2)
        .filter(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() != b.is_ascii_lowercase()))
        .count() as u64;
    if changes * 2 + 1 >= length || (changes > 1 && large as u64 * 5 > length * 3) {
        return 40 + 55 * length;
    }
    let sign = if before == Before::Sign { 40 } else { 0 };
    120 + 13 * length + sign
}

/// A word with letters beyond ASCII: every letter has its share.
fn other_script(word: &str, before: Before) -> u64 {
    let letters: u64 = word.chars().map(share).sum();
    let sign = if before == Before::Sign { 30 } else { 0 };
    (letters + sign).max(100)
}

const fn share(letter: char) -> u64 {
    match letter {
        'a'..='z' | 'A'..='Z' => 34,
        // Latin with marks.
        '\u{80}'..='\u{24f}' => 75,
        // Greek.
        '\u{370}'..='\u{3ff}' => 103,
        // Cyrillic.
        '\u{400}'..='\u{52f}' => 38,
        // Hebrew, Arabic.
        '\u{590}'..='\u{7ff}' => 85,
        // Kana.
        '\u{3040}'..='\u{30ff}' => 102,
        // Han.
        '\u{4e00}'..='\u{9fff}' => 107,
        // Hangul.
        '\u{ac00}'..='\u{d7af}' => 112,
        // Scripts of India and of South-East Asia.
        '\u{900}'..='\u{109f}' => 128,
        _ => 160,
    }
}

fn signs(piece: &str) -> u64 {
    let signs = piece.trim_matches([' ', '\r', '\n']);
    let length = signs.len() as u64;
    if !signs.is_ascii() {
        return signs
            .chars()
            .map(|sign| {
                if sign.is_ascii() {
                    60
                } else if (sign as u32) < 0x3100 {
                    130
                } else {
                    220
                }
            })
            .sum::<u64>()
            .max(100);
    }
    // Rulers are one token, or a few.
    let is_ruler = signs.as_bytes().windows(2).all(|pair| matches!(pair, [a, b] if a == b));
    match length {
        0..=3 => 101,
        _ if is_ruler => 100 + length / 32 * 60,
        4 => 116,
        5 => 150,
        _ => 35 * length - 20,
    }
}

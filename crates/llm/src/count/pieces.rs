//! Cuts a text the way tokenizers of the byte-level kind do before they look for tokens: words with the sign before them, groups of
//! digits, runs of signs, runs of blanks. By hand, because the patterns of the tokenizers need a regular-expression engine with
//! look-ahead.

/// What differs between families of tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// Digits in one piece, at most.
    pub(super) digits: usize,
    /// Whether any sign goes with the word behind it; else only a space does, and with digits too.
    pub(super) any_sign: bool,
    /// Whether words are cut where small letters end.
    pub(super) humps: bool,
}

/// GPT-4 and what came after its pattern.
pub(super) const CL100K: Style = Style { digits: 3, any_sign: true, humps: false };
/// GPT-4o and later.
pub(super) const O200K: Style = Style { humps: true, ..CL100K };
/// GPT-2, and tokenizers that name no pattern.
pub(super) const GPT2: Style = Style { digits: usize::MAX, any_sign: false, humps: false };

/// The pieces of a text, in order; together they are the text.
pub(super) fn pieces(text: &str, style: Style) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = first(rest, style).max(1);
        let (piece, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = behind;
        Some(piece)
    })
}

fn is_letter(letter: char) -> bool {
    letter.is_alphabetic() && !letter.is_numeric()
}

fn is_sign(sign: char) -> bool {
    !sign.is_whitespace() && !is_letter(sign) && !sign.is_numeric()
}

const fn is_line_end(blank: char) -> bool {
    matches!(blank, '\r' | '\n')
}

/// Bytes of the text's beginning for which this holds.
fn run(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|next: char| !of(next)).unwrap_or(text.len())
}

/// Bytes of the first piece.
fn first(text: &str, style: Style) -> usize {
    let mut letters = text.chars();
    let Some(head) = letters.next() else { return 0 };
    if !style.humps && head == '\'' {
        let length = contraction(text, style.any_sign);
        if length > 0 {
            return length;
        }
    }
    let behind = text.get(head.len_utf8()..).unwrap_or_default();
    let next = letters.next();
    if is_letter(head) {
        return word(text, style);
    }
    let goes_with_words = if style.any_sign { !is_line_end(head) && !head.is_numeric() } else { head == ' ' };
    if goes_with_words && next.is_some_and(is_letter) {
        return head.len_utf8() + word(behind, style);
    }
    if head.is_numeric() {
        return digits(text, style);
    }
    if !style.any_sign && head == ' ' && next.is_some_and(char::is_numeric) {
        return 1 + digits(behind, style);
    }
    let (space, signs) = if head == ' ' { (1, behind) } else { (0, text) };
    let length = run(signs, is_sign);
    if length > 0 {
        let ends = if style.any_sign {
            run(signs.get(length..).unwrap_or_default(), |sign| is_line_end(sign) || (style.humps && sign == '/'))
        } else {
            0
        };
        return space + length + ends;
    }
    blanks(text, style)
}

fn word(text: &str, style: Style) -> usize {
    if !style.humps {
        return run(text, is_letter);
    }
    let large = run(text, |letter| is_letter(letter) && !letter.is_lowercase());
    let behind = text.get(large..).unwrap_or_default();
    let small = run(behind, |letter| is_letter(letter) && !(letter.is_uppercase()));
    let end = large + small;
    end + contraction(text.get(end..).unwrap_or_default(), true)
}

/// `'s` and its like.
fn contraction(text: &str, any_case: bool) -> usize {
    let Some(ending) = text.strip_prefix('\'') else { return 0 };
    ["s", "d", "m", "t", "ll", "ve", "re"]
        .into_iter()
        .find(|known| {
            ending
                .get(..known.len())
                .is_some_and(|begin| if any_case { begin.eq_ignore_ascii_case(known) } else { begin == *known })
        })
        .map_or(0, |known| 1 + known.len())
}

fn digits(text: &str, style: Style) -> usize {
    text.char_indices()
        .enumerate()
        .find(|(count, (_, digit))| *count >= style.digits || !digit.is_numeric())
        .map_or(text.len(), |(_, (at, _))| at)
}

/// Blanks up to their last line end; else all but the last, which goes with what follows.
fn blanks(text: &str, style: Style) -> usize {
    let all = run(text, char::is_whitespace);
    let run = text.get(..all).unwrap_or_default();
    let is_end = all == text.len();
    if is_end && !style.humps {
        return all;
    }
    if style.any_sign
        && let Some(end) = run.rfind(is_line_end)
    {
        return end + 1;
    }
    if is_end {
        return all;
    }
    match run.char_indices().next_back() {
        Some((last, _)) if last > 0 => last,
        _ => all,
    }
}

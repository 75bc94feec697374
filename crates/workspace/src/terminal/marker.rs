//! Finds the marks a prepared shell prints and leaves everything else as output.
//!
//! A mark is one operating system command sequence: `ESC ] 7770 ; token US status US pid US directory US path US token BEL`.
//! Only a mark with the expected token counts; anything else that looks like one stays in the output. A mark may be damaged: an
//! interrupt can end its writing, the echo of a key can land in it. Then the shell is to be given a new token for a new mark,
//! and so it is, to be sure, when something looks like a mark with a wrong token.

/// Begins a mark.
pub(super) const MARK_START: &str = "\x1b]7770;";
/// Begins the mark of a bare prompt (bash) or of the beginning of output (other shells).
pub(super) const PROMPT_START: &str = "\x1b]7771;";
/// Behind the token of a prompt's mark, when it asks for another token.
pub(super) const AGAIN: char = '?';
/// Ends a mark.
pub(super) const MARK_END: char = '\x07';
/// Between the fields of a mark.
pub(super) const FIELD: char = '\x1f';

/// A longer mark cannot be one: the longest path and PATH are far below.
const LONGEST_MARK: usize = 64 * 1024;

/// What a shell said about a command that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) exit_code: i32,
    /// The last background process, if there was one.
    pub(super) background: Option<i32>,
    pub(super) directory: String,
    pub(super) path: String,
}

/// A piece of what the shell wrote.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Output(Vec<u8>),
    Mark(Mark),
    /// The mark that starts with [`PROMPT_START`].
    Prompt,
    /// The shell needs another token: it says so, or the mark for the last one is damaged.
    Again,
}

/// Splits a stream. Holds back only what may become a mark.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    held: Vec<u8>,
    /// The tokens that the next mark may carry.
    tokens: Vec<String>,
    prompt_token: String,
}

enum Candidate {
    Found(Piece, usize),
    Incomplete,
    /// Looks like a mark, but for the token.
    Suspect,
    No,
}

impl Scanner {
    pub(super) fn new(prompt_token: String) -> Self {
        Self { held: Vec::new(), tokens: Vec::new(), prompt_token }
    }

    /// Sets the token that the next mark has to carry.
    pub(super) fn expect(&mut self, token: String) {
        self.tokens.clear();
        self.tokens.push(token);
    }

    /// Adds a token that the next mark may carry as well.
    pub(super) fn expect_also(&mut self, token: String) {
        self.tokens.push(token);
    }

    /// Takes bytes and gives the pieces that are certain.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let mut pieces = Vec::new();
        let mut output = Vec::new();
        let mut rest = held.as_slice();
        while let Some(escape) = rest.iter().position(|byte| *byte == 0x1b) {
            let (before, from_escape) = rest.split_at(escape);
            output.extend_from_slice(before);
            rest = from_escape;
            match self.candidate(rest) {
                Candidate::Incomplete => break,
                suspect_or_not @ (Candidate::Suspect | Candidate::No) => {
                    if matches!(suspect_or_not, Candidate::Suspect) {
                        push_output(&mut pieces, &mut output);
                        pieces.push(Piece::Again);
                    }
                    let (escape, after) = rest.split_at(1);
                    output.extend_from_slice(escape);
                    rest = after;
                }
                Candidate::Found(piece, length) => {
                    if matches!(piece, Piece::Mark(_)) {
                        // A token counts once.
                        self.tokens.clear();
                    }
                    push_output(&mut pieces, &mut output);
                    pieces.push(piece);
                    rest = rest.get(length..).unwrap_or_default();
                }
            }
        }
        if rest.first() == Some(&0x1b) {
            self.held = rest.to_vec();
        } else {
            output.extend_from_slice(rest);
        }
        push_output(&mut pieces, &mut output);
        pieces
    }

    /// What is held back, when nothing more will come.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn candidate(&self, bytes: &[u8]) -> Candidate {
        let prompt = [(String::from(MARK_END), Piece::Prompt), (format!("{AGAIN}{MARK_END}"), Piece::Again)];
        let prompt = prompt.into_iter().map(|(end, piece)| {
            let mark = format!("{PROMPT_START}{}{end}", self.prompt_token);
            match starts(bytes, mark.as_bytes()) {
                Start::Whole => Candidate::Found(piece, mark.len()),
                Start::Partly => Candidate::Incomplete,
                Start::No => Candidate::No,
            }
        });
        let ends = self.tokens.iter().map(|token| end_mark(bytes, token));
        let mut incomplete = false;
        for candidate in prompt.chain(ends) {
            match candidate {
                Candidate::No | Candidate::Suspect => {}
                Candidate::Incomplete => incomplete = true,
                found @ Candidate::Found(..) => return found,
            }
        }
        if incomplete {
            Candidate::Incomplete
        } else if !self.tokens.is_empty() && bytes.starts_with(MARK_START.as_bytes()) {
            Candidate::Suspect
        } else {
            Candidate::No
        }
    }
}

/// Looks for the mark of a command's end with this token.
fn end_mark(bytes: &[u8], token: &str) -> Candidate {
    let head = format!("{MARK_START}{token}{FIELD}");
    match starts(bytes, head.as_bytes()) {
        Start::No => return Candidate::No,
        Start::Partly => return Candidate::Incomplete,
        Start::Whole => {}
    }
    let tail = format!("{FIELD}{token}{MARK_END}");
    let body = bytes.get(head.len()..).unwrap_or_default();
    if let Some(end) = find(body, tail.as_bytes()) {
        let piece = parse(body.get(..end).unwrap_or_default()).map_or(Piece::Again, Piece::Mark);
        return Candidate::Found(piece, head.len() + end + tail.len());
    }
    match body.iter().position(|byte| matches!(byte, 0x1b | 0x07)) {
        // Something else begins, or the mark ends, before it is whole.
        Some(at) => Candidate::Found(Piece::Again, head.len() + at),
        None if body.len() > LONGEST_MARK => Candidate::Found(Piece::Again, head.len()),
        None => Candidate::Incomplete,
    }
}

fn parse(body: &[u8]) -> Option<Mark> {
    // The terminal may have turned a line feed inside a directory name into CR LF.
    let body = String::from_utf8_lossy(body).replace("\r\n", "\n");
    let mut fields = body.splitn(4, FIELD);
    Some(Mark {
        exit_code: fields.next()?.parse().ok()?,
        background: fields.next()?.parse().ok(),
        directory: fields.next()?.to_owned(),
        path: fields.next()?.to_owned(),
    })
}

enum Start {
    Whole,
    Partly,
    No,
}

fn starts(bytes: &[u8], with: &[u8]) -> Start {
    if bytes.starts_with(with) {
        Start::Whole
    } else if with.starts_with(bytes) {
        Start::Partly
    } else {
        Start::No
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

fn push_output(pieces: &mut Vec<Piece>, output: &mut Vec<u8>) {
    if !output.is_empty() {
        pieces.push(Piece::Output(std::mem::take(output)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanner() -> Scanner {
        let mut scanner = Scanner::new("prompt".to_owned());
        scanner.expect("first".to_owned());
        scanner.expect_also("tok".to_owned());
        scanner
    }

    const STREAM: &[u8] = b"a\x1b[1mb\x1b]7770;other\x1f0\x1f\x1f/\x1f/bin\x1fother\x07c\x1b]7770;tok\x1f7\x1f12\x1f/t\x1f/bin:/x\x1ftok\x07d\x1b]7771;prompt\x07e\x1b]7771;prompt?\x07";

    fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
        pieces.into_iter().fold(Vec::new(), |mut joined, piece| {
            match (joined.last_mut(), piece) {
                (Some(Piece::Output(before)), Piece::Output(more)) => before.extend(more),
                (_, piece) => joined.push(piece),
            }
            joined
        })
    }

    fn expected() -> Vec<Piece> {
        vec![
            Piece::Output(b"a\x1b[1mb".to_vec()),
            Piece::Again,
            Piece::Output(b"\x1b]7770;other\x1f0\x1f\x1f/\x1f/bin\x1fother\x07c".to_vec()),
            Piece::Mark(Mark {
                exit_code: 7,
                background: Some(12),
                directory: "/t".to_owned(),
                path: "/bin:/x".to_owned(),
            }),
            Piece::Output(b"d".to_vec()),
            Piece::Prompt,
            Piece::Output(b"e".to_vec()),
            Piece::Again,
        ]
    }

    #[test]
    fn damaged_marks_are_asked_for_again() {
        let whole = b"\x1b]7770;tok\x1f7\x1f\x1f/\x1f/bin\x1ftok\x07";
        for at in 12..whole.len() {
            // Cut off by an interrupt, and hit by an echo.
            for between in [&b"\r\n\x1b]7771;prompt?\x07"[..], b"^C"] {
                let damaged = [&whole[..at], between, if between == b"^C" { &whole[at..] } else { b"" }].concat();
                let pieces = scanner().feed(&damaged);
                let usable = pieces.iter().any(|piece| matches!(piece, Piece::Again | Piece::Mark(_)));
                assert!(usable, "{at}: {pieces:?}");
            }
        }
    }

    #[test]
    fn only_the_expected_token_marks_the_end() {
        assert_eq!(joined(scanner().feed(STREAM)), expected());
    }

    #[test]
    fn any_split_gives_the_same() {
        for at in 0..STREAM.len() {
            let mut scanner = scanner();
            let mut pieces = scanner.feed(&STREAM[..at]);
            pieces.extend(scanner.feed(&STREAM[at..]));
            assert_eq!(joined(pieces), expected(), "split at {at}");
        }
    }
}

//! Cuts what a command prints into pieces of text, within a bound on what is kept. It does not know processes or events.

/// Most bytes of standard output, and of standard error, in one piece.
pub(super) const PIECE_BYTES: usize = 1024 * 1024;

/// The two streams of a command, as far as they wait to be cut off.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Bytes that may still be kept.
    room: u64,
    kept: u64,
    dropped: u64,
    time_limit: Option<i64>,
}

/// Which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// A piece of text of one or both streams.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) stdout: Option<String>,
    pub(super) stderr: Option<String>,
}

impl Output {
    /// Nothing yet, at most `limit` bytes to come.
    pub(super) fn new(limit: u64) -> Self {
        Self { stdout: Vec::new(), stderr: Vec::new(), room: limit, kept: 0, dropped: 0, time_limit: None }
    }

    /// Takes what was read. Beyond the limit it is counted and forgotten.
    pub(super) fn take(&mut self, stream: Stream, read: &[u8]) {
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(read.len());
        let (keep, drop) = read.split_at(fits);
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(keep),
            Stream::Stderr => self.stderr.extend_from_slice(keep),
        }
        self.room -= keep.len() as u64;
        self.kept += keep.len() as u64;
        self.dropped += drop.len() as u64;
    }

    /// A full piece, when a stream has one.
    pub(super) fn full_piece(&mut self) -> Option<Piece> {
        if self.stdout.len() > PIECE_BYTES {
            return Some(Piece { stdout: Some(cut(&mut self.stdout, PIECE_BYTES)), stderr: None });
        }
        if self.stderr.len() > PIECE_BYTES {
            return Some(Piece { stdout: None, stderr: Some(cut(&mut self.stderr, PIECE_BYTES)) });
        }
        None
    }

    /// Notes that the command was ended at its limit, in seconds.
    pub(super) fn timed_out(&mut self, limit: i64) {
        self.time_limit = Some(limit);
    }

    /// What is left, with notes at the end of standard error when something was forgotten or the time was up. Clients look for
    /// "timed out" to tell that case from other failures.
    pub(super) fn rest(&mut self) -> Piece {
        let stdout = text(&std::mem::take(&mut self.stdout));
        let mut stderr = text(&std::mem::take(&mut self.stderr));
        if self.dropped > 0 {
            let note = format!(
                "[output cut: the first {} bytes were kept, {} more were dropped; write long output to a file]\n",
                self.kept, self.dropped
            );
            add_line(&mut stderr, &note);
        }
        if let Some(limit) = self.time_limit {
            add_line(&mut stderr, &format!("[timed out after {} seconds, the command was ended]\n", limit.max(0)));
        }
        Piece { stdout, stderr }
    }
}

pub(super) fn add_line(to: &mut Option<String>, line: &str) {
    let text = to.get_or_insert_default();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}

fn text(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Takes about `most` bytes off the front, never through the middle of a character.
fn cut(buffer: &mut Vec<u8>, most: usize) -> String {
    let mut at = most.min(buffer.len());
    // A character has at most three continuation bytes after its first; more of them are no character anyway.
    for _ in 0..3 {
        if buffer.get(at).is_some_and(|byte| byte & 0xC0 == 0x80) {
            at -= 1;
        }
    }
    let rest = buffer.split_off(at);
    let piece = std::mem::replace(buffer, rest);
    String::from_utf8(piece).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_whole_and_split_no_character() {
        let whole = "aé€😀".repeat(PIECE_BYTES / 4);
        let mut output = Output::new(u64::MAX);
        let mut joined = String::new();
        for read in whole.as_bytes().chunks(8191) {
            output.take(Stream::Stdout, read);
            while let Some(piece) = output.full_piece() {
                let text = piece.stdout.unwrap();
                assert!(text.len() <= PIECE_BYTES && text.len() > PIECE_BYTES - 4);
                joined.push_str(&text);
            }
        }
        joined.push_str(&output.rest().stdout.unwrap());
        assert!(joined == whole);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut output = Output::new(100);
        output.take(Stream::Stderr, b"a\xff\xc3");
        assert_eq!(output.rest(), Piece { stdout: None, stderr: Some("a\u{fffd}\u{fffd}".to_owned()) });
    }

    #[test]
    fn beyond_the_limit_it_says_so() {
        let mut output = Output::new(4);
        output.take(Stream::Stdout, b"abc");
        output.take(Stream::Stderr, b"de");
        output.take(Stream::Stdout, b"f");
        let note = "[output cut: the first 4 bytes were kept, 2 more were dropped; write long output to a file]\n";
        assert_eq!(output.rest(), Piece { stdout: Some("abc".to_owned()), stderr: Some(format!("d\n{note}")) });
    }
}

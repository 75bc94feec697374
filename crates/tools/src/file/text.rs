//! A text file with everything that is needed to write it back as it was: encoding, byte order mark, line ends.

use std::{fs::File, io::Read as _, path::Path};

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::{LARGEST_FILE, Refusal};

/// A file's text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TextFile {
    /// The text as it is in the file, line ends included, without a byte order mark.
    pub(crate) text: String,
    /// The bytes it came from.
    pub(crate) bytes: Vec<u8>,
    encoding: &'static Encoding,
    mark: bool,
}

impl TextFile {
    /// Reads a regular file of up to 10 MiB.
    pub(crate) fn read(path: &Path) -> Result<Self, Refusal> {
        let bytes = read_bytes(path)?;
        let kind = infer::get(&bytes).map(|kind| kind.mime_type());
        Self::decode(bytes).ok_or_else(|| Refusal(binary(path, kind)))
    }

    /// `None`: no text in any encoding we know.
    fn decode(bytes: Vec<u8>) -> Option<Self> {
        let (encoding, mark_length) = match Encoding::for_bom(&bytes) {
            Some(found) => found,
            None if std::str::from_utf8(&bytes).is_ok() => (UTF_8, 0),
            None => (guess(&bytes), 0),
        };
        let body = bytes.get(mark_length..).unwrap_or_default();
        let text = encoding.decode_without_bom_handling_and_without_replacement(body)?.into_owned();
        let strange = |character: char| {
            character.is_control()
                && !matches!(character, '\t' | '\n' | '\r' | '\x0b' | '\x0c' | '\x08' | '\x1b' | '\u{80}'..='\u{9f}')
        };
        // A few odd characters occur in real texts; NUL and many of them do not.
        let odd = text.chars().filter(|character| strange(*character)).count();
        if text.contains('\0') || odd * 100 > text.chars().count() {
            return None;
        }
        Some(Self { text, bytes, encoding, mark: mark_length > 0 })
    }

    /// Another text in the way of this file. The second value names the old encoding if it cannot hold the text and UTF-8
    /// is used instead.
    pub(crate) fn encode(&self, text: &str) -> (Vec<u8>, Option<&'static str>) {
        if self.encoding == UTF_16LE || self.encoding == UTF_16BE {
            let little = self.encoding == UTF_16LE;
            let units = self.mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
            return (
                units.flat_map(|unit: u16| if little { unit.to_le_bytes() } else { unit.to_be_bytes() }).collect(),
                None,
            );
        }
        if self.encoding != UTF_8 {
            let (bytes, _, unmappable) = self.encoding.encode(text);
            if !unmappable {
                return (bytes.into_owned(), None);
            }
            return (text.as_bytes().to_vec(), Some(self.encoding.name()));
        }
        let mark: &[u8] = if self.mark { b"\xef\xbb\xbf" } else { b"" };
        (mark.iter().chain(text.as_bytes()).copied().collect(), None)
    }

    /// Whether most lines end with CR LF.
    pub(crate) fn has_crlf(&self) -> bool {
        let crlf = self.text.matches("\r\n").count();
        crlf > 0 && crlf * 2 > self.text.matches('\n').count()
    }

    /// The lines, without their ends. A last line without an end counts.
    pub(crate) fn lines(&self) -> Vec<&str> {
        lines(&self.text)
    }
}

/// The lines of a text, without their ends; only line feeds end lines.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    lines
}

/// Reads a regular file of up to 10 MiB.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, Refusal> {
    let failed = |error: std::io::Error| Refusal(format!("{} cannot be read: {error}", path.display()));
    // Asked before opening: opening a pipe may wait for ever.
    let metadata = path.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Refusal(format!("{} is no regular file", path.display())));
    }
    if metadata.len() > LARGEST_FILE {
        return Err(Refusal(too_large(path, metadata.len())));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    // Files of /proc say they are empty, and files grow.
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(Refusal(too_large(path, bytes.len() as u64)));
    }
    Ok(bytes)
}

fn too_large(path: &Path, size: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let size = size as f64 / f64::from(1 << 20);
    format!(
        "{} has {size:.1} MiB, more than the {} MiB this tool handles; use the terminal (sed, head, grep)",
        path.display(),
        LARGEST_FILE >> 20
    )
}

fn binary(path: &Path, kind: Option<&str>) -> String {
    let kind = kind.map(|kind| format!(" ({kind})")).unwrap_or_default();
    format!("{} is a binary file{kind} and no text; use the terminal to look into it", path.display())
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Deny)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(bytes: &[u8], text: &str) {
        let file = TextFile::decode(bytes.to_vec()).unwrap();
        assert_eq!(file.text, text);
        assert_eq!(file.encode(text), (bytes.to_vec(), None));
    }

    #[test]
    fn encodings_survive() {
        round_trip("grün\r\n".as_bytes(), "grün\r\n");
        round_trip(b"\xef\xbb\xbfmark", "mark");
        round_trip(b"\xff\xfeh\0i\0", "hi");
        round_trip(b"\xfe\xff\0h\0i", "hi");
        round_trip(b"Gr\xfc\xdfe aus M\xfcnchen, sch\xf6ne Tage\n", "Grüße aus München, schöne Tage\n");
        let (cyrillic, _, _) = encoding_rs::WINDOWS_1251.encode("Привет, как дела? Это обычный русский текст.");
        round_trip(&cyrillic, "Привет, как дела? Это обычный русский текст.");
        let (japanese, _, _) = encoding_rs::SHIFT_JIS.encode("これは日本語のテキストです。ありがとうございます。");
        round_trip(&japanese, "これは日本語のテキストです。ありがとうございます。");
    }

    #[test]
    fn what_does_not_fit_becomes_utf8() {
        let file = TextFile::decode(b"Gr\xfc\xdfe aus M\xfcnchen".to_vec()).unwrap();
        assert_eq!(file.encode("→"), ("→".as_bytes().to_vec(), Some("windows-1252")));
    }

    #[test]
    fn binaries_are_no_text() {
        assert_eq!(TextFile::decode(b"\x7fELF\x02\x01\0\0\0".to_vec()), None);
        assert_eq!(TextFile::decode((0..=255).collect()), None);
    }
}

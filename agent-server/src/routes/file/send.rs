//! Sends an open file as an answer: streamed, with its length, and in part when a range is asked for. It does not know which
//! file.

use std::io::SeekFrom;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use openhands_workspace::file::Download;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

use crate::error::ApiError;

const CHUNK_BYTES: usize = 128 * 1024;

/// The file as an attachment. `asked` are the headers of the request.
///
/// # Errors
/// 400 for a range that makes no sense, 500 when the file cannot be read.
pub(super) async fn send(
    download: Download,
    media_type: &'static str,
    asked: &HeaderMap,
) -> Result<Response, ApiError> {
    let (tag, modified) = (download.tag(), http_date(&download));
    let part = match wanted(asked, &tag, &modified) {
        None => Part::Whole,
        Some(range) => read_range(range, download.size)?,
    };
    let (from, length) = match part {
        Part::Whole => (0, download.size),
        Part::Bytes { from, to } => (from, to - from + 1),
        Part::Nothing => {
            let range = format!("bytes */{}", download.size);
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, [(header::CONTENT_RANGE, range)]).into_response());
        }
    };
    let disposition = disposition(&download.name);
    let size = download.size;
    let mut file = tokio::fs::File::from_std(download.file);
    if from > 0 {
        file.seek(SeekFrom::Start(from)).await.map_err(ApiError::internal)?;
    }
    // A file that grows meanwhile must not send more than was announced.
    let body = Body::from_stream(ReaderStream::with_capacity(file.take(length), CHUNK_BYTES));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_LENGTH, length.into());
    for (name, value) in
        [(header::CONTENT_DISPOSITION, disposition), (header::LAST_MODIFIED, modified), (header::ETAG, tag)]
    {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    if let Part::Bytes { from, to } = part {
        if let Ok(value) = HeaderValue::from_str(&format!("bytes {from}-{to}/{size}")) {
            headers.insert(header::CONTENT_RANGE, value);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    /// Both included.
    Bytes {
        from: u64,
        to: u64,
    },
    /// The range lies behind the end.
    Nothing,
}

/// The range that is asked for, unless the file is not the one the client knows.
fn wanted<'a>(asked: &'a HeaderMap, tag: &str, modified: &str) -> Option<&'a str> {
    let range = asked.get(header::RANGE)?.to_str().ok()?;
    match asked.get(header::IF_RANGE) {
        Some(known) if known != tag && known != modified => None,
        _ => Some(range),
    }
}

/// Several ranges are answered with the whole file, which the standard allows.
fn read_range(text: &str, size: u64) -> Result<Part, ApiError> {
    let refuse = || ApiError::BadRequest("Range must be bytes=<first>-[<last>] or bytes=-<length>".to_owned());
    let (unit, ranges) = text.split_once('=').ok_or_else(refuse)?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Err(refuse());
    }
    if ranges.contains(',') {
        return Ok(Part::Whole);
    }
    let (first, last) = ranges.trim().split_once('-').ok_or_else(refuse)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| refuse());
    let end = size.saturating_sub(1);
    let (from, to) = match (first.trim(), last.trim()) {
        ("", "") => return Err(refuse()),
        ("", length) => match number(length)? {
            0 => return Ok(Part::Nothing),
            length => (size.saturating_sub(length), end),
        },
        (first, "") => (number(first)?, end),
        (first, last) => (number(first)?, number(last)?.min(end)),
    };
    Ok(if from >= size || from > to { Part::Nothing } else { Part::Bytes { from, to } })
}

fn http_date(download: &Download) -> String {
    let at = Timestamp::try_from(download.modified).unwrap_or_default();
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn disposition(name: &str) -> String {
    let escaped = percent_encoded(name);
    if escaped == name {
        format!("attachment; filename=\"{name}\"")
    } else {
        format!("attachment; filename*=utf-8''{escaped}")
    }
}

/// The text with every byte escaped that is no letter, digit or one of `-._~`.
pub(super) fn percent_encoded(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        for (text, expected) in [
            ("bytes=0-2", Part::Bytes { from: 0, to: 2 }),
            ("bytes=2-", Part::Bytes { from: 2, to: 9 }),
            ("bytes=-2", Part::Bytes { from: 8, to: 9 }),
            ("bytes=-200", Part::Bytes { from: 0, to: 9 }),
            ("bytes=5-100", Part::Bytes { from: 5, to: 9 }),
            ("bytes=5-1", Part::Nothing),
            ("bytes=10-", Part::Nothing),
            ("bytes=-0", Part::Nothing),
            ("bytes=0-0,2-3", Part::Whole),
        ] {
            assert_eq!(read_range(text, 10).unwrap(), expected, "{text}");
        }
        for text in ["foo=1", "bytes", "bytes=", "bytes=a", "bytes=-", "bytes=1-x", "bytes=18446744073709551616-"] {
            assert!(matches!(read_range(text, 10), Err(ApiError::BadRequest(_))), "{text}");
        }
        assert_eq!(read_range("bytes=0-", 0).unwrap(), Part::Nothing);
    }

    #[test]
    fn names_that_are_no_plain_text_are_escaped() {
        assert_eq!(disposition("up.bin"), "attachment; filename=\"up.bin\"");
        assert_eq!(disposition("a \"b\"\r\né"), "attachment; filename*=utf-8''a%20%22b%22%0D%0A%C3%A9");
    }
}

//! One bounded GET over plain HTTP to a port-forward on this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// More than this of an answer is not read.
const LIMIT: u64 = 16 << 20;

/// Status and body of `GET path`.
///
/// # Errors
/// No connection, no answer within ten seconds, or an answer that is no HTTP.
pub(crate) fn get(port: u16, path: &str, session_key: &str) -> Result<(u16, String)> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let limit = Duration::from_secs(10);
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nX-Session-API-Key: {session_key}\r\nConnection: close\r\n\r\n"
    )?;
    let mut bytes = Vec::new();
    stream.take(LIMIT).read_to_end(&mut bytes)?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<(u16, String)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").context("the answer has no end of its head")?;
    let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).to_lowercase();
    let body = bytes.get(end + 4..).unwrap_or_default();
    let status =
        head.split_whitespace().nth(1).and_then(|word| word.parse().ok()).context("the answer has no status")?;
    let chunked = head.lines().any(|line| line.starts_with("transfer-encoding:") && line.contains("chunked"));
    let body = if chunked { unchunk(body)? } else { body.to_vec() };
    Ok((status, String::from_utf8(body).context("the answer is not UTF-8")?))
}

fn unchunk(mut rest: &[u8]) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n").context("a chunk has no size")?;
        let size = String::from_utf8_lossy(rest.get(..line).unwrap_or_default()).into_owned();
        let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)
            .context("a chunk has no size")?;
        if size == 0 {
            return Ok(whole);
        }
        let Some(chunk) = rest.get(line + 2..line + 2 + size) else { bail!("the answer was cut") };
        whole.extend_from_slice(chunk);
        rest = rest.get(line + 2 + size + 2..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_chunked_answers() {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(parse(plain).unwrap(), (200, "{}".to_owned()));
        let chunked =
            b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n3;x=y\r\npe!\r\n0\r\n\r\n";
        assert_eq!(parse(chunked).unwrap(), (404, "wikipe!".to_owned()));
        assert!(parse(b"nonsense").is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort").is_err());
    }
}

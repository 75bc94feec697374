//! The least HTTP client that the checks need: one request on one connection, an answer of bounded size.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const BOUND: Duration = Duration::from_secs(10);
const LARGEST: u64 = 16 * 1024 * 1024;

/// Status and body of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The body as text.
    pub body: String,
}

/// Sends one request to an `http://` address.
///
/// # Errors
/// When the address is no such one, nobody listens, or the answer is not there within ten seconds.
pub async fn request(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer> {
    request_within(BOUND, method, url, headers, body).await
}

/// The same with another bound.
///
/// # Errors
/// As [`request`].
pub async fn request_within(
    bound: Duration,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Answer> {
    let rest = url.strip_prefix("http://").with_context(|| format!("not an http address: {url}"))?;
    let (host, path) = rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, path.to_owned()));
    let mut head = format!("{method} /{path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let work = async {
        let mut stream = TcpStream::connect(host).await?;
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(LARGEST).read_to_end(&mut answer).await?;
        anyhow::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = timeout(bound, work).await.with_context(|| format!("no answer of {url} within {bound:?}"))??;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no HTTP answer of {url}: {answer:?}"))?;
    let status =
        head.split(' ').nth(1).and_then(|code| code.parse().ok()).with_context(|| format!("status line: {head:?}"))?;
    Ok(Answer { status, body: body.to_owned() })
}

/// GET.
///
/// # Errors
/// As [`request`].
pub async fn get(url: &str) -> Result<Answer> {
    request("GET", url, &[], "").await
}

//! AWS's binary event stream: a prelude with lengths, headers, a payload, checksums. Knows nothing of what the events mean.

use serde_json::{Map, Value};

/// Longer messages are no part of a model's answer.
const MESSAGE_LIMIT: usize = 24 * 1024 * 1024;
/// Prelude (two lengths, a checksum) and the closing checksum.
const FRAME: usize = 16;

/// Collects bytes until messages are whole.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: Vec<u8>,
}

impl Decoder {
    /// The events that became whole: `{"<event type>": payload}`; exceptions come as `{"error": {"type", "message"}}`. Beside them
    /// what is wrong with the frame behind them: nothing can be read after it.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> (Vec<Value>, Option<&'static str>) {
        self.buffer.extend_from_slice(bytes);
        let (mut events, mut at, mut wrong) = (Vec::new(), 0, None);
        while let Some(rest) = self.buffer.get(at..).filter(|rest| rest.len() >= FRAME) {
            match frame(rest) {
                Ok(Some((total, event))) => {
                    events.extend(event);
                    at += total;
                }
                Ok(None) => break,
                Err(why) => {
                    wrong = Some(why);
                    break;
                }
            }
        }
        self.buffer.drain(..at);
        (events, wrong)
    }
}

/// The length of the first frame, and its event; `None` while it is not whole.
fn frame(bytes: &[u8]) -> Result<Option<(usize, Option<Value>)>, &'static str> {
    let total = number(bytes, 0).ok_or("a frame without a length")?;
    let headers = number(bytes, 4).ok_or("a frame without a length")?;
    if !(FRAME..=MESSAGE_LIMIT).contains(&total) || headers > total - FRAME {
        return Err("a frame with impossible lengths");
    }
    if number(bytes, 8) != bytes.get(..8).map(|prelude| checksum(prelude) as usize) {
        return Err("a frame whose prelude has a wrong checksum");
    }
    let Some(message) = bytes.get(..total) else { return Ok(None) };
    let body = message.get(..total - 4).unwrap_or_default();
    if number(message, total - 4) != Some(checksum(body) as usize) {
        return Err("a frame with a wrong checksum");
    }
    let head = message.get(12..12 + headers).unwrap_or_default();
    let payload = message.get(12 + headers..total - 4).unwrap_or_default();
    Ok(Some((total, event(head, payload))))
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(four)).ok()
}

fn event(headers: &[u8], payload: &[u8]) -> Option<Value> {
    let (mut kind, mut name, mut message) = (String::new(), String::new(), String::new());
    for (header, value) in strings(headers) {
        match header.as_str() {
            ":message-type" => kind = value,
            ":event-type" | ":exception-type" | ":error-code" => name = value,
            ":error-message" => message = value,
            _ => {}
        }
    }
    let payload: Value = serde_json::from_slice(payload).unwrap_or_default();
    if kind == "event" {
        return Some(Map::from_iter([(name, payload)]).into());
    }
    let told = payload.get("message").and_then(Value::as_str).unwrap_or(&message);
    (kind == "exception" || kind == "error").then(|| serde_json::json!({"error": {"type": name, "message": told}}))
}

/// The headers with string values; the others have no meaning here.
fn strings(mut bytes: &[u8]) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    while let Some((&length, rest)) = bytes.split_first() {
        let Some((name, rest)) = rest.split_at_checked(length.into()) else { break };
        let Some((&kind, rest)) = rest.split_first() else { break };
        let sized = |bytes: &[u8]| {
            let two: Option<[u8; 2]> = bytes.get(..2).and_then(|two| two.try_into().ok());
            two.map(|two| usize::from(u16::from_be_bytes(two)))
        };
        // Sizes of the kinds: two booleans, byte, short, integer, long, bytes, string, timestamp, UUID.
        let (skip, size) = match kind {
            0 | 1 => (0, Some(0)),
            2 => (0, Some(1)),
            3 => (0, Some(2)),
            4 => (0, Some(4)),
            5 | 8 => (0, Some(8)),
            6 | 7 => (2, sized(rest)),
            9 => (0, Some(16)),
            _ => break,
        };
        let Some((value, rest)) = size.and_then(|size| rest.get(skip..).and_then(|rest| rest.split_at_checked(size)))
        else {
            break;
        };
        if kind == 7 {
            headers.push((String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned()));
        }
        bytes = rest;
    }
    headers
}

/// CRC-32 (IEEE) of each byte.
static CHECKSUMS: [u32; 256] = {
    let (mut table, mut byte) = ([0; 256], 0u32);
    while byte < 256 {
        let (mut crc, mut bit) = (byte, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
            bit += 1;
        }
        #[expect(clippy::indexing_slicing, reason = "below 256, and computed by the compiler")]
        {
            table[byte as usize] = crc;
        }
        byte += 1;
    }
    table
};

fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let [low, ..] = (crc ^ u32::from(*byte)).to_le_bytes();
        (crc >> 8) ^ CHECKSUMS.get(usize::from(low)).copied().unwrap_or_default()
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
        openhands_testkit::aws_message(headers, payload)
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn events_come_out_wherever_the_bytes_are_split() {
        let mut bytes =
            message(&[(":message-type", "event"), (":event-type", "messageStart")], r#"{"role":"assistant"}"#);
        bytes.extend(message(
            &[(":exception-type", "throttlingException"), (":message-type", "exception")],
            r#"{"message":"slow"}"#,
        ));
        let expected = [
            serde_json::json!({"messageStart": {"role": "assistant"}}),
            serde_json::json!({"error": {"type": "throttlingException", "message": "slow"}}),
        ];
        for size in 1..bytes.len() {
            let mut decoder = Decoder::default();
            let read: Vec<_> = bytes.chunks(size).map(|chunk| decoder.push(chunk)).collect();
            assert!(read.iter().all(|(_, wrong)| wrong.is_none()));
            let events: Vec<_> = read.into_iter().flat_map(|(events, _)| events).collect();
            assert_eq!(events, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn broken_frames_are_refused() {
        let good = message(&[(":message-type", "event"), (":event-type", "x")], "{}");
        for at in [0, 5, 9, 14, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(Decoder::default().push(&bad).1.is_some(), "byte {at}");
            let (events, wrong) = Decoder::default().push(&[good.clone(), bad].concat());
            assert_eq!((events, wrong.is_some()), (vec![serde_json::json!({"x": {}})], true), "the good one counts");
        }
        assert!(Decoder::default().push(&[0; 64]).1.is_some());
    }
}

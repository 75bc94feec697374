//! AWS's binary event stream: a prelude with lengths, headers, a payload, checksums. Knows nothing of what the events mean.

use serde_json::Value;

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
    /// The events that became whole: `{"<event type>": payload}`; exceptions come as `{"error": {"type", "message"}}`.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, &'static str> {
        self.buffer.extend_from_slice(bytes);
        let (mut events, mut at) = (Vec::new(), 0);
        while let Some(rest) = self.buffer.get(at..).filter(|rest| rest.len() >= FRAME) {
            let total = number(rest, 0).ok_or("a frame without a length")?;
            let headers = number(rest, 4).ok_or("a frame without a length")?;
            if !(FRAME..=MESSAGE_LIMIT).contains(&total) || headers > total - FRAME {
                return Err("a frame with impossible lengths");
            }
            if number(rest, 8) != rest.get(..8).map(|prelude| checksum(prelude) as usize) {
                return Err("a frame whose prelude has a wrong checksum");
            }
            let Some(message) = rest.get(..total) else { break };
            let body = message.get(..total - 4).unwrap_or_default();
            if number(message, total - 4) != Some(checksum(body) as usize) {
                return Err("a frame with a wrong checksum");
            }
            let head = message.get(12..12 + headers).unwrap_or_default();
            let payload = message.get(12 + headers..total - 4).unwrap_or_default();
            events.extend(event(head, payload));
            at += total;
        }
        self.buffer.drain(..at);
        Ok(events)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(four)).ok()
}

fn event(headers: &[u8], payload: &[u8]) -> Option<String> {
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
        return Some(serde_json::json!({ name: payload }).to_string());
    }
    let told = payload.get("message").and_then(Value::as_str).unwrap_or(&message);
    (kind == "exception" || kind == "error")
        .then(|| serde_json::json!({"error": {"type": name, "message": told}}).to_string())
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

/// CRC-32 (IEEE). Bit by bit: answers are small.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 })
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
            r#"{"messageStart":{"role":"assistant"}}"#,
            r#"{"error":{"type":"throttlingException","message":"slow"}}"#,
        ];
        for size in 1..bytes.len() {
            let mut decoder = Decoder::default();
            let events: Vec<_> = bytes.chunks(size).flat_map(|chunk| decoder.push(chunk).unwrap()).collect();
            assert_eq!(events, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn broken_frames_are_refused() {
        let good = message(&[(":message-type", "event"), (":event-type", "x")], "{}");
        for at in [0, 5, 9, 14, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(Decoder::default().push(&bad).is_err(), "byte {at}");
        }
        assert!(Decoder::default().push(&[0; 64]).is_err());
    }
}

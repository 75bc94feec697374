//! Messages of AWS's binary event stream.

/// One message: headers with string values, and a payload.
#[must_use]
pub fn aws_message(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        head.extend(name.as_bytes());
        head.push(7);
        head.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        head.extend(value.as_bytes());
    }
    let word = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let mut message = Vec::new();
    message.extend(word(16 + head.len() + payload.len()));
    message.extend(word(head.len()));
    message.extend(checksum(&message).to_be_bytes());
    message.extend(head);
    message.extend(payload.as_bytes());
    message.extend(checksum(&message).to_be_bytes());
    message
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

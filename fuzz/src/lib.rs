//! What the targets do with their bytes. The first byte of a stream says in what pieces the rest comes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure is the finding")]

use std::sync::OnceLock;

use openhands_llm::inside::{self, Inside, MODELS};

fn insides() -> &'static [Inside] {
    static INSIDES: OnceLock<Vec<Inside>> = OnceLock::new();
    INSIDES.get_or_init(|| MODELS.iter().map(|model| Inside::of(model).unwrap()).collect())
}

/// A stream for the interface with this number.
pub fn stream(number: usize, data: &[u8]) {
    let Some((size, bytes)) = data.split_first() else { return };
    insides()[number].check_stream(bytes, usize::from(*size) + 1).unwrap();
}

/// Frames of AWS.
pub fn aws_frames(data: &[u8]) {
    let Some((size, bytes)) = data.split_first() else { return };
    inside::check_aws_frames(bytes, usize::from(*size) + 1).unwrap();
}

/// A whole answer, for every interface.
pub fn document(data: &[u8]) {
    for inside in insides() {
        let _ = inside.whole(data);
    }
}

/// Calls as text.
pub fn written_calls(data: &[u8]) {
    inside::check_written_calls(&String::from_utf8_lossy(data)).unwrap();
}

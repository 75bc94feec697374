//! AWS's binary frames, in pieces of any size: nothing panics, and the pieces make no difference.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| openhands_fuzz::aws_frames(data));

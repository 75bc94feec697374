//! Calls that a model wrote as text: nothing panics, and arguments are JSON objects.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| openhands_fuzz::written_calls(data));

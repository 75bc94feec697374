//! Whole answers, for every interface: nothing panics.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| openhands_fuzz::document(data));

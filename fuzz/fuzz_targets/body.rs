//! Drives `lookback_fuzz::body` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookback_fuzz::body(data));

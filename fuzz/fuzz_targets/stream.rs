//! Drives `lookback_fuzz::stream` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookback_fuzz::stream(data));

//! Drives `lookback_fuzz::view` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookback_fuzz::view(data));

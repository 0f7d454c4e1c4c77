//! Drives `lookback_fuzz::decode` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookback_fuzz::decode(data));

//! Drives `lookback_fuzz::complaint` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookback_fuzz::complaint(data));

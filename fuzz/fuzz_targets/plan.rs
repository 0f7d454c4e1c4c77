//! Drives `lookback_fuzz::plan` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookback_fuzz::plan(data));

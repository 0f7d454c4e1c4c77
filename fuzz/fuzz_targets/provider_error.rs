//! Drives `lookback_fuzz::provider_error` with libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookback_fuzz::provider_error(data));

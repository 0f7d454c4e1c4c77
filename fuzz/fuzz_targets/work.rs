//! Drives `lookback_fuzz::work` with libFuzzer, in a build with `RUSTFLAGS="-C instrument-coverage --cfg steps"`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lookback_fuzz::work::work(data));

//! The tests of this crate, as one program, because linking a program for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../../../engine/tests/it/common/mod.rs"]
mod common;
#[cfg(feature = "http")]
#[path = "../../../lookback/tests/servers/deaf.rs"]
mod deaf;
mod summarize;
mod summarize_http;
mod summary_check;

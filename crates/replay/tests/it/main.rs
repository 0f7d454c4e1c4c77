//! The tests of this crate, as one program, because linking a program for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../../../engine/tests/it/common/mod.rs"]
mod common;
mod lost;
mod receipts;
mod replay_valid;
mod timelines;
mod week;

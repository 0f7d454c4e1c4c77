//! The tests of this crate, as one program, because linking a program for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../../../engine/tests/it/common/mod.rs"]
mod common;
mod erase;
mod held;
mod limits;
mod lost_answers;
mod resume;
mod session;
mod session_laws;
mod sharing;
mod summaries;
#[path = "../../../replay/tests/it/timelines.rs"]
mod timelines;
mod version_1;

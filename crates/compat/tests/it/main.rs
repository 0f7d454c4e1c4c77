//! The tests of this crate, as one program, because linking a program for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agentlib;
mod crux;
mod five_windows;
#[path = "../../../session/tests/it/held.rs"]
mod held;
mod langchain4j;
mod strands;
mod two_tier;
#[path = "../../../agent/tests/it/vectors/mod.rs"]
mod vectors;

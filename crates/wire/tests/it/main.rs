//! The tests of this crate, as one program, because linking one program per file takes longer than running the tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod broken_requests;
#[path = "../../../../bench/src/mutants.rs"]
mod mutants;
mod names;

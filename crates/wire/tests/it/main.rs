//! The tests of this crate, as one program: linking one for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod broken_requests;
#[path = "../../../../bench/src/mutants.rs"]
mod mutants;

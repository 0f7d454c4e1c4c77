//! The tests of this crate, as one program: linking one for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod extract;
mod kb_import;
mod memory;
mod memory_deeds;
mod transfer;

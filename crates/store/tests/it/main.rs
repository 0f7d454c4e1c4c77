//! The tests of this crate, as one program: linking one for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../../../engine/tests/it/common/mod.rs"]
mod common;
mod file_store;
#[path = "../common/filled.rs"]
mod filled;
mod special_files;
mod store;
mod writers;

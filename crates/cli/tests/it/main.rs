//! The tests of this crate, as one program: linking one for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod check;
mod common;
mod documented;
mod facts;
mod help;
mod hostile;
mod json;
mod mcp;
#[cfg(feature = "postgres")]
mod postgres;
mod replay;
mod rules;
mod sessions;
mod store;
mod tune;
mod window;

//! The tests of this crate, as one program: linking one for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../../../lookback/tests/servers/deaf.rs"]
mod deaf;
mod gateway;
mod http;
mod mcp;
mod tools;

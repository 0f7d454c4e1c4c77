//! The tests of this crate, as one program: linking one for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod check;
mod common;
mod contributing;
mod documented;
mod facts;
mod handoff;
mod help;
mod hooks;
mod hostile;
mod inspect;
mod json;
mod logs;
mod mcp;
mod replay;
mod rules;
mod serve;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod servers;
mod sessions;
mod setup;
mod store;
mod tune;
mod week;
mod window;

// The tests of the library start these servers too.
#[cfg(all(feature = "postgres", feature = "redis"))]
#[path = "../../../lookback/tests/servers/backend.rs"]
#[allow(dead_code)]
mod backend;
#[cfg(all(feature = "postgres", feature = "redis"))]
#[path = "../../../lookback/tests/servers/process.rs"]
#[allow(dead_code)]
mod process;

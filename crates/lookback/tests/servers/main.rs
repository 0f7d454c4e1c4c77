//! The network stores, against real servers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod backend;
mod deaf;
mod faults;
#[path = "../../../store/tests/common/filled.rs"]
mod filled;
mod names;
mod postgres;
mod process;
mod processes;
mod proxy;
mod redis;

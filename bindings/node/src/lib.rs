//! Lookback for Node: the native part of the package `lookback`.
//!
//! Takes and returns JSON text, and numbers for the sources of a window's messages. The types, promises and errors are
//! in TypeScript, in `ts/`. Each call of a session exists twice: synchronous for sessions in memory, and on Node's
//! thread pool for sessions in a store.

// napi's macros do not export items to a test binary, so they look unused there.
#![cfg_attr(test, allow(dead_code))]

mod callbacks;
mod errors;
mod functions;
mod input;
mod memory;
mod session;
mod warnings;
mod window;
mod work;

//! Lookback for Node: the native part of the package `lookback`.
//!
//! JSON text comes in and goes out, beside numbers that say where the messages of a window come from. Its types, its
//! promises and its errors are in TypeScript, in `ts/`. Each call of a session exists twice: at once, for sessions in
//! memory, and on a thread of Node's pool, for those in a store.

// What the macros of napi export is not exported to a program of tests, of which there is none.
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

//! The engine of Lookback in WebAssembly: checks, plans, windows and counts, without stores and without I/O.
//!
//! JavaScript writes a call as JSON text into memory and reads the answer from there (`border.rs`). `package/` has the
//! functions that people use.

mod border;
mod calls;

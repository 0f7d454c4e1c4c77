//! Doors onto sessions, for programs that are not in Rust. There is one so far: [`mcp`].

pub mod mcp;

//! Servers that give programs in any language access to sessions. So far there is one: [`mcp`].

pub mod mcp;

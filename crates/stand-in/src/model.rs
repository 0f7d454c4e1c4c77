//! A model's answer, independent of the dialect.

use serde_json::Value;

/// The model's answer to one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    /// Its text.
    pub(crate) text: String,
    /// Its tool calls.
    pub(crate) calls: Vec<Call>,
    /// The signature of its thinking, which only the provider can read.
    pub(crate) signature: Option<String>,
    /// Whether it thinks, even without a signature.
    pub(crate) thinks: bool,
    /// Whether the provider compacts the history instead of answering.
    pub(crate) compacts: bool,
}

/// A tool call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The identifier.
    pub(crate) id: String,
    /// The name of the tool.
    pub(crate) name: String,
    /// The namespace of the tool, if it has one.
    pub(crate) namespace: Option<String>,
    /// The arguments.
    pub(crate) arguments: Value,
}

/// The tokens of a request and of its answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// All tokens of the request.
    pub input: u64,
    /// The input tokens that were read from the cache.
    pub cached: u64,
    /// The input tokens that were written to the cache.
    pub written: u64,
    /// The tokens of the answer.
    pub output: u64,
}

//! What a model says, in no dialect yet.

use serde_json::Value;

/// What the model says to one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    /// Its text.
    pub(crate) text: String,
    /// The tools that it calls, all at once.
    pub(crate) calls: Vec<Call>,
    /// What it says of its thinking, as nobody but the provider can read it.
    pub(crate) signature: Option<String>,
    /// It thinks, although nothing of that may be signed.
    pub(crate) thinks: bool,
    /// The provider compacts the history, and the model says nothing.
    pub(crate) compacts: bool,
}

/// A tool call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The identifier.
    pub(crate) id: String,
    /// The name of the tool.
    pub(crate) name: String,
    /// The tools that it is one of, if they have a name.
    pub(crate) namespace: Option<String>,
    /// The arguments.
    pub(crate) arguments: Value,
}

/// The tokens of a request and of its answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// All tokens of the request.
    pub input: u64,
    /// Those of them that the cache had.
    pub cached: u64,
    /// Those of them that were written to the cache.
    pub written: u64,
    /// The tokens of the answer.
    pub output: u64,
}

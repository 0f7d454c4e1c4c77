//! The events of agents, in the terms of Lookback.

use std::path::PathBuf;

use serde_json::{Map, Value};

/// An event in a conversation of an agent.
pub(crate) struct Event {
    /// The agent's name for the conversation.
    pub(crate) session: String,
    /// The folder in which the agent works.
    pub(crate) folder: PathBuf,
    /// Other places that the event is about: where the agent works now, and the file of a tool.
    pub(crate) places: Vec<PathBuf>,
    /// The agent's own log of the conversation.
    pub(crate) log: Option<PathBuf>,
    /// The event.
    pub(crate) what: What,
}

/// The kinds of events.
pub(crate) enum What {
    /// A tool has returned a result, and the model has not seen it yet.
    Result(ToolResult),
    /// A conversation begins or goes on.
    Begins {
        /// Whether the model has forgotten what it was told: the conversation is new, or its context was compacted or
        /// cleared.
        forgot: bool,
    },
    /// The model calls the tool `recall` with these arguments, in an agent without MCP servers.
    Recalls(Map<String, Value>),
    /// The agent has compacted its history, so the model has forgotten what it was told.
    Forgot,
    /// The person has asked something.
    Asks,
    /// The agent waits for the person, is about to compact its history, or ends.
    Pauses,
}

/// The result of a tool.
pub(crate) struct ToolResult {
    /// The tool.
    pub(crate) tool: String,
    /// The identifier of the call.
    pub(crate) call: String,
    /// The arguments, as JSON.
    pub(crate) arguments: String,
    /// The text of the result that the model will see: the longest, if it has several.
    pub(crate) text: String,
    /// The place of the text in the event, as a JSON pointer.
    pub(crate) pointer: String,
    /// Whether the agent numbers the lines of the text for the model, so that none may be cut between others.
    pub(crate) is_numbered: bool,
}

//! The tools with which a model writes and reads its memory, and the execution of their calls.
//!
//! A model speaks for itself, or for a tool that it names, but never for a person. The replies are short, name every
//! fact that they affect, and state what to change if a call cannot be carried out.

mod answer;
mod arguments;
mod definition;
mod near;

use lookback_content::Redacted;
use std::error::Error as _;

use lookback_wire::dialect::Dialect;
use serde::Serialize;
use serde_json::Value;

use self::answer::{Trouble, answer};
use self::definition::Definition;
use super::{Memory, MemoryError};

/// The text for the model if the store fails. The log contains the cause, for the operator.
pub const UNAVAILABLE: &str = "memory is not available now";

/// The name of the tool with which a model reads messages that have left its window.
pub const RECALL: &str = crate::recall::TOOL;

/// A tool that a model can call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tool {
    /// The name.
    pub name: &'static str,
    /// The description for the model.
    pub description: &'static str,
    /// The JSON Schema of the arguments.
    pub parameters: Value,
}

impl Tool {
    /// Returns whether calls of this tool change nothing.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        Definition::find(self.name).is_some_and(|tool| tool.action.only_reads())
    }

    /// Returns the tool as an element of a request's list of tools.
    ///
    /// ```
    /// use lookback_wire::dialect::Dialect;
    /// use lookback_facts::tools;
    ///
    /// let tool = &tools::tools()[0];
    /// assert_eq!(tool.for_dialect(Dialect::OpenAiChat)["function"]["name"], "memory_finding");
    /// ```
    #[must_use]
    pub fn for_dialect(&self, dialect: Dialect) -> Value {
        dialect.tool(self.name, self.description, &self.parameters)
    }
}

/// The answer to a call.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Reply {
    /// The text of the tool result.
    #[debug("{:?}", Redacted(text))]
    pub text: String,
    /// Whether the call was not carried out.
    pub error: bool,
}

impl Reply {
    /// Creates the reply to a call that was carried out.
    pub fn done(text: impl Into<String>) -> Self {
        Reply { text: text.into(), error: false }
    }

    /// Creates the reply to a call that was not carried out. The text states the reason.
    pub fn failed(text: impl Into<String>) -> Self {
        Reply { text: text.into(), error: true }
    }
}

/// Returns the tools, in the order in which a model should see them.
pub fn tools() -> Vec<Tool> {
    let tool = |tool: &Definition| Tool { name: tool.name, description: tool.description, parameters: tool.schema() };
    Definition::ALL.iter().map(tool).collect()
}

/// Returns whether there is a tool with this name.
pub fn is_tool(name: &str) -> bool {
    Definition::find(name).is_some()
}

/// Carries out one call. `arguments` is the JSON text that the model wrote, at most 64 KiB.
///
/// The only error is the one in the reply. If the store fails, the log contains the cause.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_store::MemoryStore;
/// use lookback_facts::{Memory, tools};
///
/// let memory = Memory::open(MemoryStore::new(), "chat-1").await?;
/// let said = r#"{"content": "It listens on port 5050.", "confidence": 0.9}"#;
/// assert_eq!(tools::call(&memory, "memory_finding", said).await.text, "f0 is remembered.");
///
/// let reply = tools::call(&memory, "memory_finding", r#"{"content": "It is slow."}"#).await;
/// assert!(reply.error && reply.text.starts_with("`confidence` is missing"));
/// # Ok::<(), lookback_facts::MemoryError>(())
/// # }).unwrap();
/// ```
pub async fn call(memory: &Memory, name: &str, arguments: &str) -> Reply {
    match answer(memory, name, arguments).await {
        Ok(text) => Reply::done(text),
        Err(Trouble::Message(text)) => Reply::failed(text),
        Err(Trouble::Memory(MemoryError::Store(error))) => {
            let cause = error.source().map(tracing::field::display);
            tracing::warn!(session = %memory.session(), %error, cause, "a model could not reach its memory");
            Reply::failed(format!("{UNAVAILABLE}; nothing was changed. Continue without it, and try again later"))
        }
        Err(Trouble::Memory(error)) => Reply::failed(error.to_string()),
    }
}

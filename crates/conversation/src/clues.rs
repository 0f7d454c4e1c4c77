//! The clues to the line of a request: its messages, its tools, and the client's own statements.

use super::path::Path;
use super::tools::Tools;

/// The clues to the line of a request.
#[derive(Default)]
pub(super) struct Clues {
    pub(super) path: Path,
    /// The beginning of the last message's text.
    pub(super) last: String,
    /// The newest answer of the model, as [`words`](super::path::words).
    pub(super) answer: String,
    /// Whether that answer was recorded when the model gave it.
    pub(super) has_recorded_answer: bool,
    /// The beginning of the text of the message before that answer.
    pub(super) question: String,
    pub(super) tools: Tools,
    /// Whether the model may call tools.
    pub(super) may_call: bool,
    /// Whether the last message is from a person.
    pub(super) is_from_person: bool,
    /// Whether it asks for a summary of the conversation.
    pub(super) asks_for_summary: bool,
    /// Whether the client marks the request as a retry.
    pub(super) is_retry: bool,
    /// Whether the scope is one conversation that the client identifies, not all conversations that begin alike.
    pub(super) is_named: bool,
}

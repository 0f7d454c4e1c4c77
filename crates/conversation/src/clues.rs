//! The clues to the line of a request: its messages, its tools, and the client's own statements.

use super::path::Path;
use super::tools::Tools;

/// The clues to the line of a request.
#[derive(Default)]
pub(super) struct Clues {
    pub(super) path: Path,
    /// The beginning of the last message's text.
    pub(super) last: String,
    pub(super) tools: Tools,
    /// Whether the client marks the request as a retry.
    pub(super) is_retry: bool,
    /// Whether the scope is one conversation that the client identifies, not all conversations that begin alike.
    pub(super) is_named: bool,
}

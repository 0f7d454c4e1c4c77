//! The clues to the line of a request: what was said, the tools, and what the client says about itself.

use super::path::Path;
use super::tools::Tools;

/// The clues to the line of a request.
#[derive(Default)]
pub(super) struct Clues {
    pub(super) path: Path,
    /// The beginning of the last message's text.
    pub(super) last: String,
    pub(super) tools: Tools,
    /// The client says that it asks again.
    pub(super) is_retry: bool,
    /// The scope is one conversation of the client, and not all conversations that begin alike.
    pub(super) is_named: bool,
}

//! Facts that outlive the window and the session, tools with which a model writes them, and a search over all messages.

pub use lookback_facts::tools;
pub use lookback_facts::{
    Fact, FactId, FactKind, Facts, Judgment, Memory, MemoryError, Recall, Recalled, Scope, SheetOptions, Source,
    Speaker, Statement, export, history, import, recall, sheet::sheet,
};

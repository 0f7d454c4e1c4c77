//! Facts that outlive the window and the session, and a search of everything that was said.

pub use lookback_facts::tools;
pub use lookback_facts::{
    BadFactId, Confidence, Export, Fact, FactEvent, FactId, FactKind, Facts, Imported, Judgment, Memory, MemoryError,
    Recall, Recalled, RecalledPassage, Refused, Scope, Sheet, SheetOptions, Source, Speaker, Stated, Statement, Trust,
    export, history, import, recall, sheet,
};

//! Lookback decides what a language model sees of a long conversation.
//!
//! Open a [`Session`] on a [`Store`], push each message as it comes, and send the [`Window`] that it gives before each call.
//! What a window may hold is a [`Policy`]; what was done, and why, is in the log. The pure engine is [`lookback_core`], whose
//! names are here too.

pub mod cache;
pub mod calls;
pub mod compat;
pub mod explain;
pub mod identifiers;
pub mod memory;
pub mod middleware;
pub mod presets;
pub mod prices;
pub mod recording;
mod redacted;
pub mod replay;
pub mod session;
pub mod store;
pub mod summarize;

pub use lookback_core::{
    Content, ConversionError, DecodeError, Dialect, Engine, Entry, Finding, Group, HardLimitExceeded, Limits, Message,
    Mode, Pace, Plan, Policy, Preamble, Problem, ProviderError, Redacted, Request, RequestError, Response, Role,
    Settings, Stage, Start, Summarize, SummaryClaim, SummaryRejected, SummaryRequest, SystemRule, TooLong, ToolCall,
    ToolResult, Transcript, Truncation, Unit, View, WindowOutcome, measure, plan,
};
pub use lookback_core::{cut, dialect, engine, group, message, policy, tokens, transcript, view};
pub use prices::{Price, Prices};
pub use recording::Recording;
pub use session::{Error, Session, Window};
#[cfg(feature = "sqlite")]
pub use store::SqliteStore;
pub use store::{Durability, FileStore, IntoStore, LogName, MemoryStore, Store, StoreError};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// Compiles the examples of the pages.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/summaries.md")]
#[doc = include_str!("../../../docs/overflow.md")]
#[doc = include_str!("../../../docs/memory.md")]
#[doc = include_str!("../../../docs/window.md")]
#[doc = include_str!("../../../docs/middleware.md")]
pub struct Pages;

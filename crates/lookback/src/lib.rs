//! Lookback decides what a language model sees of a long conversation.
//!
//! Open a [`Session`] on a [`Store`] and push each message into it. Before each model call, ask it for the [`Window`]
//! and send that. A [`Policy`] limits the window, and the session's log records every message and every compaction,
//! with its reasons. The engine behind a session does no I/O. It is the crate [`lookback_engine`], and its main types are
//! re-exported here.
//!
//! ```
//! use lookback::{Dialect, Message, Session, Settings, SqliteStore};
//!
//! async fn ask() -> Result<String, lookback::Error> {
//!     let store = SqliteStore::open("memory.db")?;
//!     let settings = Settings::for_model(Dialect::OpenAiChat, "gpt-4o");
//!     let mut session = Session::open(store, "chat-1", settings).await?;
//!
//!     session.push(Message::user("What is in notes.txt?")).await?;
//!     let window = session.window().await?; // repaired and compacted if needed, and recorded
//!     Ok(window.to_json()?)                 // the `messages` of the request
//! }
//! ```
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `sqlite` | yes | A store in one SQLite file, with full-text search. Builds SQLite from source. |
//! | `o200k` | yes | Exact token counts for GPT-4o and later, and an estimate for most other models. |
//! | `cl100k` | yes | Exact token counts for GPT-4 and GPT-3.5. |
//! | `http` | no | Summaries by a model over OpenAI's or Anthropic's API. |
//! | `facts` | no | Facts by a JSON schema of yours, which is validated. |
//! | `otel` | no | OpenTelemetry metrics of model calls and windows, without an exporter. |
//! | `tokio` | no | Background work runs in your tokio runtime, if there is one. Clients such as `reqwest` need it. |
//!
//! Without the vocabulary that a model needs, its tokens are estimated from the characters.

mod location;

pub use lookback_agent as middleware;
pub use lookback_compat as compat;
pub use lookback_facts as memory;
pub use lookback_presets as presets;
pub use lookback_replay::{Price, Prices, Receipt, Recording};
pub use lookback_replay::{cache, explain, prices, receipt, recording, replay, timeline};
pub use lookback_session as session;
pub use lookback_session::{Error, Session, Window};
pub use lookback_summarize as summarize;
pub use lookback_summarize::calls;

pub use lookback_content::Redacted;
pub use lookback_content::{identifiers, text};
pub use lookback_engine::policy::Caps;
pub use lookback_engine::{
    Cold, Engine, Entry, ExplainedGroup, Explanation, Group, HardLimitExceeded, Index, Keep, Limits, Mode, Pace,
    Payback, Plan, Policy, Repeats, Settings, Stage, Summarize, SummaryClaim, SummaryRejected, SummaryRequest,
    SystemRule, Tokens, Transcript, View, WindowOutcome, plan,
};
pub use lookback_engine::{engine, group, policy, totals, transcript, view};
#[cfg(feature = "postgres")]
pub use lookback_postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use lookback_redis::RedisStore;
#[cfg(feature = "sqlite")]
pub use lookback_sqlite::SqliteStore;
pub use lookback_store::search;
pub use lookback_store::{Durability, FileStore, IntoStore, LogName, MemoryStore, Store, StoreError};
pub use lookback_tokens as tokens;
pub use lookback_tokens::cut;
pub use lookback_tokens::{Truncation, Unit, measure};
pub use lookback_wire::{
    Content, ConversionError, DecodeError, Dialect, Finding, Message, Preamble, Problem, ProviderError, RawRequest,
    Request, RequestError, Response, ResponseStream, Role, Start, TooLong, ToolCall, ToolResult,
};
pub use lookback_wire::{dialect, edit, message, models, size};

/// Where logs are kept: the trait [`Store`] and the stores that come with Lookback.
pub mod store {
    pub use lookback_store::*;

    pub use crate::location::{Location, open};
    #[cfg(feature = "postgres")]
    pub use lookback_postgres::PostgresStore;
    #[cfg(feature = "redis")]
    pub use lookback_redis::{RedisStore, Risk};
    #[cfg(feature = "sqlite")]
    pub use lookback_sqlite::SqliteStore;
}

/// Compiles the examples of the READMEs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// Compiles the examples of the pages.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/start/install.md")]
#[doc = include_str!("../../../docs/reference/policies.md")]
#[doc = include_str!("../../../docs/concepts/summaries.md")]
#[doc = include_str!("../../../docs/concepts/overflow.md")]
#[doc = include_str!("../../../docs/concepts/memory.md")]
#[doc = include_str!("../../../docs/concepts/window.md")]
#[doc = include_str!("../../../docs/concepts/middleware.md")]
#[doc = include_str!("../../../docs/concepts/receipts.md")]
pub struct Pages;

//! Lookback decides what a language model sees of a long conversation.
//!
//! Open a [`Session`] on a [`Store`] and push each message into it. Before each model call, ask it for the [`Window`]
//! and send that. A [`Policy`] limits the window, and the session's log records every message and every compaction,
//! with its reasons.
//!
//! This crate is a facade for applications. It re-exports smaller crates, such as [`lookback_engine`], which makes the
//! decisions and does no I/O. If you write an adapter or a store, use these crates directly. `lookback-compat` has the
//! window algorithms of four other systems, under their original names.
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
//! | `postgres` | no | A store in PostgreSQL. |
//! | `redis` | no | A store in Redis or Valkey. |
//! | `encryption` | no | A store that encrypts the contents of another. |
//! | `http` | no | Summaries by a model over OpenAI's or Anthropic's API. |
//! | `facts` | no | Facts by your JSON schema, which is validated. |
//! | `otel` | no | OpenTelemetry metrics of model calls and windows, without an exporter. |
//! | `tokio` | no | Background work runs in your tokio runtime, if there is one. Clients such as `reqwest` need it. |
//!
//! Without the vocabulary that a model needs, its tokens are estimated from the characters.

pub mod memory;
pub mod message;
pub mod middleware;
pub mod policy;
pub mod replay;
pub mod store;
pub mod summarize;
pub mod window;

pub use lookback_engine::Settings;
pub use lookback_engine::policy::{Limits, Policy};
pub use lookback_session::{Error, Session, Window};
#[cfg(feature = "sqlite")]
pub use lookback_sqlite::SqliteStore;
pub use lookback_store::{FileStore, MemoryStore, Store};
pub use lookback_wire::dialect::{Dialect, ProviderError, Request, Response, ResponseStream};
pub use lookback_wire::message::{Message, ToolCall};

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

//! The pure engine of Lookback: it decides what a language model sees of a long conversation.
//!
//! Messages go in; windows and log entries come out. The engine uses no async, I/O, clock, environment, randomness or
//! logging.
//!
//! ```text
//!         decode              fold             size             decide
//!  wire ─────────► Transcript ─────► View ─────────► [Group] ─────────► Plan
//!  (a provider's      ▲               │                ▲  ▲ Policy        │
//!   own JSON)         │               └── encode ──► request              │
//!                     └──────────────── Entry::Compaction ◄── record ◄────┘
//! ```
//!
//! Read the modules in this order. Each one imports only modules that come before it: `cache_marker`, `hidden`,
//! [`identifiers`], `json`, `start`, [`text`], `truncation`, `wire`, [`size`], [`policy`], [`group`], [`mod@plan`], [`message`], [`edit`], [`tokens`],
//! [`cut`], `caps`, [`dialect`], `measure`, `entry`, `lines`, [`view`], [`transcript`], `candidates`, [`engine`], `redacted`.

mod base64;
mod cache_marker;
mod candidates;
mod caps;
pub mod cut;
pub mod dialect;
pub mod edit;
pub mod engine;
mod entry;
mod erased;
pub mod group;
mod hidden;
pub mod identifiers;
mod json;
mod lines;
mod measure;
pub mod message;
pub mod models;
mod pdf;
pub mod plan;
pub mod policy;
mod provider;
mod redacted;
pub mod size;
mod start;
pub mod text;
pub mod tokens;
pub mod transcript;
mod truncation;
pub mod view;
mod wire;

pub use cut::{Caps, Truncation, Unit};
pub use dialect::{
    ConversionError, DecodeError, Dialect, Finding, Preamble, Problem, ProviderError, RawRequest, Request,
    RequestError, Response, ResponseStream, TooLong,
};
pub use engine::{
    Engine, ExplainedGroup, Explanation, HardLimitExceeded, Settings, SummaryClaim, SummaryRejected, SummaryRequest,
    WindowOutcome,
};
pub use group::Group;
pub use measure::measure;
pub use message::{Content, Message, Role, ToolCall, ToolResult};
pub use plan::{Plan, plan};
pub use policy::{
    Cold, Index, Keep, Limits, Mode, Pace, Payback, Policy, Repeats, Stage, Start, Summarize, SystemRule, Tokens,
};
pub use redacted::Redacted;
pub use transcript::{Entry, Transcript};
pub use view::View;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

//! The engine: the log, the view, the policy and the plan that decide which messages a model sees. It does no I/O.
//!
//! ```text
//!         decode              fold             size             decide
//!  wire ─────────► Transcript ─────► View ─────────► [Group] ─────────► Plan
//!  (a provider's      ▲               │                ▲  ▲ Policy        │
//!   own JSON)         │               └── encode ──► request              │
//!                     └──────────────── Entry::Compaction ◄── record ◄────┘
//! ```
//!
//! Read the modules in this order. Each one imports only earlier ones: [`totals`], [`policy`], [`group`], [`mod@plan`],
//! `caps`, `entry`, `lines`, [`view`], [`transcript`], `candidates`, `engine`.

mod candidates;
mod caps;
mod engine;
mod entry;
mod erased;
pub mod group;
mod lines;
pub mod plan;
pub mod policy;
mod telling;
pub mod totals;
pub mod transcript;
pub mod view;

pub use engine::{
    Engine, ExplainedGroup, Explanation, HardLimitExceeded, LogState, Redraw, Settings, SummaryClaim, SummaryRejected,
    SummaryRequest, WindowOutcome, is_stand_in,
};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

//! The most used parts of a policy, ready-made policies by name, and token counters.
//!
//! Every value of a policy can also be set as text (see [`named`] and [`parse`]).

pub use lookback_engine::policy::{Keep, Pace, Stage, Summarize, SystemRule, Tokens};
pub use lookback_presets::{PolicyError, named, named_with, parse, presets, to_toml};
pub use lookback_tokens::cut::Truncation;
pub use lookback_tokens::{Estimate, TokenCounter};

//! The parts of a policy that are set most, ready-made policies by name, and how tokens are counted.
//!
//! Every value of a policy can be set as text, too (see [`named`] and [`parse`]).

pub use lookback_engine::policy::{Keep, Pace, Stage, Summarize, SystemRule, Tokens};
pub use lookback_presets::{PolicyError, named, named_with, parse, presets, to_toml};
pub use lookback_tokens::cut::Truncation;
pub use lookback_tokens::{Estimate, TokenCounter};

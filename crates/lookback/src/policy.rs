//! The parts of a policy, ready-made policies by name, and how tokens are counted.

pub use lookback_engine::policy::{
    Caps, Cold, Index, Keep, Mode, Pace, Payback, PolicyFault, Repeats, Stage, Start, Summarize, SystemRule, Tokens,
};
pub use lookback_presets::{PolicyError, Preset, named, named_with, parse, presets, to_toml};
pub use lookback_tokens::cut::{Truncation, Unit};
pub use lookback_tokens::{Calibration, Estimate, TokenCounter};
pub use lookback_wire::size::Measure;

//! Summarizers: the interface to the model that writes summaries, and its implementations.

pub use lookback_session::SummaryOptions;
#[cfg(feature = "http")]
pub use lookback_summarize::{Anthropic, HttpLimits, OpenAi};
pub use lookback_summarize::{
    Completion, Extractive, Function, Summarizer, SummarizerError, Summary, SummarySource, SummaryTask,
};

//! Summarizers: the interface to the model that writes summaries, and its implementations.

#[cfg(feature = "http")]
pub use lookback_summarize::{Anthropic, HttpLimits, OpenAi};
pub use lookback_summarize::{
    Completion, Extractive, Function, Passage, PassageRole, Summarizer, SummarizerError, Summary, SummarySource,
    SummaryTask,
};

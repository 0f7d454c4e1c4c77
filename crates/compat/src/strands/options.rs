//! The options of the two managers, named as in Strands.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ProactiveCompression;
use crate::OptionError;
use lookback_summarize::Summarizer;

/// The options of a [`SlidingWindowConversationManager`](super::SlidingWindowConversationManager).
///
/// ```
/// use lookback_compat::strands::{PerTurn, SlidingWindowOptions};
///
/// let options = SlidingWindowOptions::default().window_size(20).per_turn(true);
/// assert_eq!(options.per_turn, PerTurn::Every(true));
/// let options = SlidingWindowOptions { pin_first: 1, ..options.per_turn(3) };
/// assert_eq!(options.per_turn, PerTurn::Calls(3));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlidingWindowOptions {
    /// The most messages of the list, at least 0. If it is 0, every reduction clears all messages that are not pinned.
    pub window_size: i64,
    /// Whether long tool results are shortened before messages are dropped, if the model has refused the list.
    pub should_truncate_results: bool,
    /// The model calls before which the list is tidied, in addition to the end of the turn.
    pub per_turn: PerTurn,
    /// Whether the list is reduced before the model refuses it. `None` means no.
    pub proactive_compression: Option<ProactiveCompression>,
    /// The number of first messages that are never dropped. They are kept in addition to the window, with the tool
    /// exchange that the last of them begins.
    pub pin_first: usize,
}

impl Default for SlidingWindowOptions {
    /// Returns options that keep 40 messages, and shorten results if the model refuses the list. The list is not tidied
    /// before model calls, and no message is pinned.
    fn default() -> Self {
        SlidingWindowOptions {
            window_size: 40,
            should_truncate_results: true,
            per_turn: PerTurn::default(),
            proactive_compression: None,
            pin_first: 0,
        }
    }
}

impl SlidingWindowOptions {
    /// Sets the most messages of the list, at least 0.
    #[must_use]
    pub fn window_size(self, window_size: i64) -> Self {
        SlidingWindowOptions { window_size, ..self }
    }

    /// Sets whether long tool results are shortened before messages are dropped, if the model has refused the list.
    #[must_use]
    pub fn should_truncate_results(self, should_truncate_results: bool) -> Self {
        SlidingWindowOptions { should_truncate_results, ..self }
    }

    /// Sets the model calls before which the list is tidied: a `bool`, or a number of calls.
    #[must_use]
    pub fn per_turn(self, per_turn: impl Into<PerTurn>) -> Self {
        SlidingWindowOptions { per_turn: per_turn.into(), ..self }
    }

    /// Sets whether the list is reduced before the model refuses it: a `bool`, or [`ProactiveCompression::at`] a share.
    #[must_use]
    pub fn proactive_compression(self, proactive: impl Into<ProactiveCompression>) -> Self {
        SlidingWindowOptions { proactive_compression: Some(proactive.into()), ..self }
    }

    /// Sets the number of first messages that are never dropped.
    #[must_use]
    pub fn pin_first(self, pin_first: usize) -> Self {
        SlidingWindowOptions { pin_first, ..self }
    }
}

/// The model calls before which a list is tidied, in addition to the end of the turn. In JSON `false`, `true` or a
/// number.
///
/// ```
/// use lookback_compat::strands::PerTurn;
///
/// assert_eq!(PerTurn::from(false), PerTurn::default());
/// assert_eq!(PerTurn::from(5), PerTurn::Calls(5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PerTurn {
    /// Before every call, or before none.
    Every(bool),
    /// Before every call whose number is a multiple of this, at least 1.
    Calls(i64),
}

impl Default for PerTurn {
    fn default() -> Self {
        PerTurn::Every(false)
    }
}

impl From<bool> for PerTurn {
    fn from(every: bool) -> Self {
        PerTurn::Every(every)
    }
}

/// Numbers above `i64::MAX` become `i64::MAX`.
impl From<u64> for PerTurn {
    fn from(calls: u64) -> Self {
        PerTurn::Calls(i64::try_from(calls).unwrap_or(i64::MAX))
    }
}

impl PerTurn {
    pub(super) fn checked(self) -> Result<Self, OptionError> {
        match self {
            PerTurn::Calls(calls) if calls < 1 => Err(OptionError {
                option: "per_turn",
                expected: "a positive integer, True, or False",
                value: calls.to_string(),
            }),
            PerTurn::Every(_) | PerTurn::Calls(_) => Ok(self),
        }
    }

    pub(super) fn is_due(self, call: u64) -> bool {
        match self {
            PerTurn::Every(every) => every,
            PerTurn::Calls(calls) => u64::try_from(calls).is_ok_and(|calls| calls > 0 && call.is_multiple_of(calls)),
        }
    }
}

/// The options of a [`SummarizingConversationManager`](super::SummarizingConversationManager).
#[derive(Debug, Clone)]
pub struct SummarizingOptions {
    /// The share of the messages that one reduction summarizes. Values below 0.1 become 0.1, and values above 0.8
    /// become 0.8.
    pub summary_ratio: f64,
    /// The number of newest messages that are not summarized. The newest message never is.
    pub preserve_recent_messages: usize,
    /// The summarizer, which replaces Strands' `summarization_agent`. If it is `None`, the summary consists of
    /// sentences of the conversation.
    pub summarizer: Option<Arc<dyn Summarizer>>,
    /// A system prompt that replaces the summarizer's own. A summary without a model prefers sentences with words of
    /// this prompt.
    pub summarization_system_prompt: Option<String>,
    /// The most tokens of a summary, at least 1. A longer summary is cut. If it is `None`, the summarizer is asked for
    /// fewer than 1,000 tokens, and its summary is used unchanged, even if it is longer.
    pub summary_budget: Option<u64>,
    /// Whether the list is reduced before the model refuses it. `None` means no.
    pub proactive_compression: Option<ProactiveCompression>,
}

impl Default for SummarizingOptions {
    /// Returns options that summarize 30 % of the messages, but none of the newest ten.
    fn default() -> Self {
        SummarizingOptions {
            summary_ratio: 0.3,
            preserve_recent_messages: 10,
            summarizer: None,
            summarization_system_prompt: None,
            summary_budget: None,
            proactive_compression: None,
        }
    }
}

impl SummarizingOptions {
    /// Sets the share of the messages that one reduction summarizes, from 0.1 to 0.8.
    #[must_use]
    pub fn summary_ratio(self, summary_ratio: f64) -> Self {
        SummarizingOptions { summary_ratio, ..self }
    }

    /// Sets the number of newest messages that are not summarized.
    #[must_use]
    pub fn preserve_recent_messages(self, preserve_recent_messages: usize) -> Self {
        SummarizingOptions { preserve_recent_messages, ..self }
    }

    /// Sets the summarizer.
    #[must_use]
    pub fn summarizer(self, summarizer: impl Summarizer + 'static) -> Self {
        SummarizingOptions { summarizer: Some(Arc::new(summarizer)), ..self }
    }

    /// Sets the system prompt of the summarizer.
    #[must_use]
    pub fn summarization_system_prompt(self, prompt: impl Into<String>) -> Self {
        SummarizingOptions { summarization_system_prompt: Some(prompt.into()), ..self }
    }

    /// Sets the most tokens of a summary, at least 1.
    #[must_use]
    pub fn summary_budget(self, summary_budget: u64) -> Self {
        SummarizingOptions { summary_budget: Some(summary_budget), ..self }
    }

    /// Sets whether the list is reduced before the model refuses it: a `bool`, or [`ProactiveCompression::at`] a share.
    #[must_use]
    pub fn proactive_compression(self, proactive: impl Into<ProactiveCompression>) -> Self {
        SummarizingOptions { proactive_compression: Some(proactive.into()), ..self }
    }
}

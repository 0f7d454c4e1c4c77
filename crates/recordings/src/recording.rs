//! A recorded conversation.

use std::collections::{BTreeMap, HashSet};

use lookback_engine::transcript::Millis;
use lookback_session::RecordedMessage;
use lookback_wire::dialect::{Dialect, Preamble};
use lookback_wire::message::{Message, Role};
use serde::{Deserialize, Serialize};

/// The beginning of the names that Lookback gives to conversations. It stands for "Lookback", in hexadecimal.
pub(crate) const HANDED_OVER: &str = "100cbac0";

/// What is between the name of a conversation and that of an agent that it has started.
const AGENT: &str = "/agent-";

/// Returns the name of the conversation of an agent that another conversation has started.
pub(crate) fn side_chain(parent: &str, agent: &str) -> String {
    format!("{parent}{AGENT}{agent}")
}

/// A recorded conversation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recording {
    /// The name.
    pub id: String,
    /// The dialect of its messages.
    pub dialect: Dialect,
    /// The messages, in order.
    pub messages: Vec<RecordedMessage>,
    /// The system prompt and the tools, if they are outside the messages.
    pub preamble: Preamble,
    /// The provider's usage reports for the calls, in order. Empty if they were not recorded.
    pub usage: Vec<RecordedUsage>,
    /// The usage of calls whose answers are not among the messages: summaries, titles, answers that were tried again. The
    /// index of each is the number of messages before the call.
    #[doc(hidden)]
    pub aside: Vec<RecordedUsage>,
    /// The indices of summaries with which the recorded client began a new window.
    pub compactions: Vec<usize>,
    /// The indices of messages before a summary that the client still sent behind it, by the summary's index. A summary of
    /// which the log does not say is not here.
    #[doc(hidden)]
    pub kept: BTreeMap<usize, Vec<usize>>,
    /// The model, if known. If there were several, the one that made the most calls.
    pub model: Option<String>,
    /// The folder in which the agent worked, if known.
    pub project: Option<String>,
}

/// The tokens that a provider reported for one call.
///
/// It is read from an object with these members, or from a list of the five numbers in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedUsage {
    /// The index of the assistant message that answers the call.
    pub message: usize,
    /// Input tokens that were neither read from the cache nor written to it.
    pub input: u64,
    /// Input tokens that were written to the cache.
    pub cache_write: u64,
    /// Input tokens that were read from the cache.
    pub cache_read: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens among `cache_write` that are kept for an hour, and not for the usual five minutes.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_hour: u64,
    /// The model, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The time, in milliseconds since 1970, if it is known and the answer is not among the messages.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Millis>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl RecordedUsage {
    /// Creates a usage of zero tokens for the call that the assistant message with this index answers.
    #[doc(hidden)]
    pub fn new(message: usize) -> Self {
        RecordedUsage {
            message,
            input: 0,
            cache_write: 0,
            cache_read: 0,
            output: 0,
            cache_write_hour: 0,
            model: None,
            time: None,
        }
    }

    /// Creates a usage from a report whose input tokens include those that were read from the cache and written to it.
    pub(crate) fn of_whole(input: u64, cache_read: u64, cache_write: u64, output: u64, model: Option<String>) -> Self {
        let input = input.saturating_sub(cache_read.saturating_add(cache_write));
        RecordedUsage { input, cache_read, cache_write, output, model, ..RecordedUsage::new(0) }
    }

    /// Returns all input tokens, cached or not.
    ///
    /// ```
    /// use lookback_recordings::RecordedUsage;
    ///
    /// let mut usage = RecordedUsage::new(1);
    /// (usage.input, usage.cache_write, usage.cache_read) = (3, 100, 2_000);
    /// assert_eq!(usage.sent(), 2_103);
    /// ```
    pub fn sent(&self) -> u64 {
        self.input.saturating_add(self.cache_write).saturating_add(self.cache_read)
    }

    /// Returns whether the numbers are plausible. More than 2^40 tokens mean that the file is damaged, and sums of such
    /// numbers would overflow.
    pub(crate) fn is_possible(&self) -> bool {
        [self.input, self.cache_write, self.cache_read, self.output].into_iter().all(|tokens| tokens < 1 << 40)
    }
}

impl Recording {
    /// Creates a recording of these messages, without preamble, usage, compactions, model and project.
    pub fn new(id: impl Into<String>, dialect: Dialect, messages: Vec<RecordedMessage>) -> Self {
        Recording {
            id: id.into(),
            dialect,
            messages,
            preamble: Preamble::default(),
            usage: Vec::new(),
            aside: Vec::new(),
            compactions: Vec::new(),
            kept: BTreeMap::new(),
            model: None,
            project: None,
        }
    }

    /// Returns the messages that answer a call for which the provider's cache was cold, according to the reported usage:
    /// the call read less than a third of the tokens that the previous call left in the cache, although the client had
    /// not compacted in between. Returns none for recordings with times, which show pauses directly.
    #[doc(hidden)]
    pub fn cold_calls(&self) -> HashSet<usize> {
        if self.messages.iter().any(|recorded| recorded.time.is_some()) {
            return HashSet::new();
        }
        let calls = self.usage.iter().zip(self.usage.iter().skip(1));
        let compacted = |from: usize, to: usize| self.compactions.iter().any(|at| (from..=to).contains(at));
        let is_cold = |(before, call): &(&RecordedUsage, &RecordedUsage)| {
            let cached = before.cache_read + before.cache_write;
            call.cache_read < cached / 3 && !compacted(before.message, call.message)
        };
        calls.filter(is_cold).map(|(_, call)| call.message).collect()
    }

    /// Returns whether Lookback wrote the conversation for an agent, from the log of another one.
    #[doc(hidden)]
    pub fn is_handed_over(&self) -> bool {
        let id = self.id.trim_start_matches("ses_");
        id.starts_with(HANDED_OVER)
    }

    /// Returns whether another conversation has started this one, for an agent of its own.
    #[doc(hidden)]
    pub fn is_side_chain(&self) -> bool {
        self.id.contains(AGENT)
    }

    /// Returns the indices of the messages that the client would send next, without the system prompt: the newest summary
    /// that can be read, the messages that the client kept behind it, and all that follow.
    #[doc(hidden)]
    pub fn current(&self) -> Vec<usize> {
        let is_readable = |at: &usize| self.messages.get(*at).is_some_and(|it| !it.message.text().trim().is_empty());
        let Some(summary) = self.compactions.iter().rev().copied().find(is_readable) else {
            return (0..self.messages.len()).filter(|at| !self.compactions.contains(at)).collect();
        };
        let later = (summary + 1..self.messages.len()).filter(|at| !self.compactions.contains(at));
        let kept = self.kept_with_results(summary);
        // Clients put people's words before the summary, and the newest rounds behind it.
        let is_answer = |at: &usize| self.messages.get(*at).is_some_and(|it| it.message.role() == Role::Assistant);
        let (before, behind) = if kept.iter().any(is_answer) { (Vec::new(), kept) } else { (kept, Vec::new()) };
        before.into_iter().chain([summary]).chain(behind).chain(later).collect()
    }

    /// Returns the messages that stood behind a summary, with the results of their calls. Some clients compact before the
    /// results of the last calls have come.
    fn kept_with_results(&self, summary: usize) -> Vec<usize> {
        let mut kept: Vec<usize> = self.kept.get(&summary).cloned().unwrap_or_default();
        let message = |at: &usize| self.messages.get(*at).map(|recorded| &recorded.message);
        let mut calls: HashSet<&str> =
            kept.iter().filter_map(message).flat_map(Message::tool_calls).map(|(_, call)| call.id.as_str()).collect();
        for (_, result) in kept.iter().filter_map(message).flat_map(Message::tool_results) {
            calls.remove(result.call_id.as_str());
        }
        let first = kept.first().copied().unwrap_or(summary);
        let answers = |at: &usize| {
            message(at).is_some_and(|it| it.tool_results().any(|(_, result)| calls.contains(result.call_id.as_str())))
        };
        let known: HashSet<usize> = kept.iter().copied().collect();
        let missing: Vec<usize> = (first..summary).filter(|at| !known.contains(at)).filter(answers).collect();
        kept.extend(missing);
        kept.sort_unstable();
        kept
    }

    /// Returns the time of the newest message, if any has one.
    #[doc(hidden)]
    pub fn newest(&self) -> Option<Millis> {
        self.messages.iter().rev().find_map(|recorded| recorded.time)
    }
}

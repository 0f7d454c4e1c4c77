//! The figures of a replay, and those that the provider reported for the recorded conversation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Cause, ReplayedCall, Reported};

/// The figures of a replay. The fields are those of the command line's JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Report {
    /// The name of the transcript; `total` for the sum of several.
    pub id: String,
    /// The text by which the policy was given.
    pub policy: String,
    /// The number of model calls.
    pub calls: u64,
    /// Input tokens, including system prompts and tools.
    pub sent_tokens: u64,
    /// Input tokens that were read from the cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the cache.
    pub cache_write_tokens: u64,
    /// Input tokens that were neither read from the cache nor written to it.
    pub uncached_tokens: u64,
    /// The cost of the input, in US dollars.
    pub cost: f64,
    /// Calls, from the second on, that do not extend the previous call.
    pub prefix_breaks: u64,
    /// The number of compactions.
    pub compactions: u64,
    /// The tokens of the largest window.
    pub max_window_tokens: u64,
    /// Requests that break a rule of the provider.
    pub invalid_requests: u64,
    /// Calls whose window exceeded a limit of the policy, because the remaining groups are pinned or have to wait.
    pub over_limit_calls: u64,
    /// Identifiers in the model's next message that were in the history.
    pub reused_identifiers: u64,
    /// Identifiers among these that were no longer in the window.
    pub missed_identifiers: u64,
    /// Spans of 30 or more bytes within a line of the model's next message that it copied from the history.
    pub copied_spans: u64,
    /// Spans among these that were no longer in the window, word for word.
    pub missed_spans: u64,
    /// Calls that missed an identifier or a span.
    pub missed_calls: u64,
    /// Calls among these that missed an identifier.
    #[doc(hidden)]
    pub calls_missing_identifiers: u64,
    /// Tool calls that repeat an earlier one, whose result had left the window or was shortened.
    #[doc(hidden)]
    pub rereads: u64,
    /// The cost of recalling the missed texts, in US dollars: the model reads a page of each message that has them, after
    /// a search if no marker names the message. Both stay in the window until the next compaction.
    pub recall_cost: f64,
    /// The missed identifiers, by cause. A cause without any is left out.
    pub missed_identifiers_by: BTreeMap<Cause, u64>,
    /// The missed spans, by cause.
    pub missed_spans_by: BTreeMap<Cause, u64>,
    /// The usage that the provider reported for the recorded conversation, if it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
    /// Whether the replay was stopped early. The figures are those of the calls before.
    #[serde(skip_serializing_if = "is_false")]
    pub cut_short: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The shares of texts and calls that the windows of a replay missed, between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Missed {
    /// Missed identifiers among the reused ones.
    pub identifiers: f64,
    /// Missed spans among the copied ones.
    pub spans: f64,
    /// Calls that missed an identifier or a span, among all calls.
    pub calls: f64,
}

impl Report {
    /// Creates an empty report for a transcript with this name and a policy.
    pub fn new(id: impl Into<String>, policy: impl Into<String>) -> Self {
        Report { id: id.into(), policy: policy.into(), ..Report::default() }
    }

    /// Returns the cost for comparing policies, in US dollars: the cost of the input, plus that of recalling the missed
    /// texts.
    ///
    /// ```
    /// use lookback_replay::replay::Report;
    ///
    /// let mut report = Report::new("notes", "default");
    /// (report.cost, report.recall_cost) = (2.0, 0.5);
    /// assert_eq!(report.cost_with_recalls(), 2.5);
    /// ```
    pub fn cost_with_recalls(&self) -> f64 {
        self.cost + self.recall_cost
    }

    /// Returns the shares that the windows missed. A share of zero is 0.
    ///
    /// ```
    /// use lookback_replay::replay::Report;
    ///
    /// let mut report = Report::new("notes", "default");
    /// (report.reused_identifiers, report.missed_identifiers) = (200, 3);
    /// assert_eq!((report.missed().identifiers, report.missed().spans), (0.015, 0.0));
    /// ```
    pub fn missed(&self) -> Missed {
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        Missed {
            identifiers: share(self.missed_identifiers, self.reused_identifiers),
            spans: share(self.missed_spans, self.copied_spans),
            calls: share(self.missed_calls, self.calls),
        }
    }

    /// Counts a call.
    pub(super) fn count(&mut self, call: &ReplayedCall) {
        self.calls += 1;
        self.sent_tokens += call.charge.sent();
        self.cache_read_tokens += call.charge.read;
        self.cache_write_tokens += call.charge.written;
        self.uncached_tokens += call.charge.uncached;
        self.cost += call.charge.cost;
        self.prefix_breaks += u64::from(call.charge.breaks);
        self.max_window_tokens = self.max_window_tokens.max(call.charge.sent());
        self.over_limit_calls += u64::from(!call.over.is_empty());
        self.rereads += call.rereads;
        if let Some(reported) = &call.reported {
            self.reported.get_or_insert_default().add(reported);
        }
    }

    /// Adds another report to this one.
    pub fn add(&mut self, other: &Report) {
        self.calls += other.calls;
        self.sent_tokens += other.sent_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.uncached_tokens += other.uncached_tokens;
        self.cost += other.cost;
        self.prefix_breaks += other.prefix_breaks;
        self.compactions += other.compactions;
        self.max_window_tokens = self.max_window_tokens.max(other.max_window_tokens);
        self.invalid_requests += other.invalid_requests;
        self.reused_identifiers += other.reused_identifiers;
        self.missed_identifiers += other.missed_identifiers;
        self.copied_spans += other.copied_spans;
        self.missed_spans += other.missed_spans;
        self.missed_calls += other.missed_calls;
        self.calls_missing_identifiers += other.calls_missing_identifiers;
        self.rereads += other.rereads;
        self.recall_cost += other.recall_cost;
        let by_cause = [
            (&mut self.missed_identifiers_by, &other.missed_identifiers_by),
            (&mut self.missed_spans_by, &other.missed_spans_by),
        ];
        for (own, others) in by_cause {
            for (cause, count) in others {
                *own.entry(*cause).or_default() += count;
            }
        }
        self.over_limit_calls += other.over_limit_calls;
        self.cut_short |= other.cut_short;
        if let Some(reported) = &other.reported {
            self.reported.get_or_insert_default().add(reported);
        }
    }
}

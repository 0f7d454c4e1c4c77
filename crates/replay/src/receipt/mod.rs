//! Receipts: the tokens and the cost of each model call of a session, and its cost without a window.
//!
//! A receipt is computed only from the log: the view of the entries before an answer is the window that the model was
//! sent. To make one, see [`Receipt::for_session`] and [`Receipt::load`].
//!
//! The receipt assumes a call before each assistant message of every branch, unless it is the first message. If Lookback
//! received answers itself, as a gateway does, others are no calls: the client has changed them, or has brought them with
//! its history, and the provider's cache has them. The cache is
//! [simulated](crate::cache), with the arrival times of the answers.
//!
//! *Without a window*, a call sends the whole history of its branch, with a separate cache. Tool results that were
//! truncated on arrival are whole there.
//!
//! *Reported usage* corrects the figures of its call: all tokens, including those without a window, are multiplied by
//! the ratio of the reported tokens to Lookback's count. So the sent tokens are the reported ones, while the shares
//! that are read and written are still simulated.

mod history;
mod ledger;
mod load;
mod paid;

use lookback_engine::plan::Occasion;
use lookback_engine::transcript::Position;
use serde::Serialize;

pub(crate) use self::ledger::Ledger;
#[doc(hidden)]
pub use self::paid::{Estimate, Paid, PaidTotal, ratio};
use crate::cache::Charge;

/// The calls of a session, and their cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The calls, in the order in which they were made, including those of abandoned branches.
    pub calls: Vec<CallReceipt>,
    /// The sums.
    pub total: ReceiptTotal,
    /// The entry from which on calls are known: 0 unless contents of the session were erased. If they were, a call
    /// without a window sends the messages that were shown at this entry, and the later ones.
    pub since: Position,
}

/// The tokens and the cost of one model call. The fields are those of the command line's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CallReceipt {
    /// The number of the call, from 1.
    #[serde(rename = "call")]
    pub number: u64,
    /// The position of its answer in the log. In JSON, it is called `entry`.
    #[serde(rename = "entry")]
    pub position: Position,
    /// The number of messages that were sent.
    pub messages: u64,
    /// Input tokens, including the system prompt and tools.
    pub sent_tokens: u64,
    /// Input tokens that were read from the cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the cache.
    pub cache_write_tokens: u64,
    /// Input tokens that were neither read from the cache nor written to it.
    pub uncached_tokens: u64,
    /// Tokens of the answer, as Lookback counted them.
    pub output_tokens: u64,
    /// The cost of the input, in US dollars.
    pub cost: f64,
    /// The cost of the input without a window, in US dollars.
    pub cost_without_window: f64,
    /// Whether a compaction was made since the previous call.
    pub compacted: bool,
    /// The occasion of the compaction, if it was made at lower limits than usual.
    pub occasion: Option<Occasion>,
    /// The reason why the request does not extend the previous one; `None` if it does.
    pub prefix_break: Option<PrefixBreak>,
    /// Whether the cache had the beginning of the request, but it had expired according to the recorded times.
    pub cold: bool,
    /// Whether the provider reported the tokens that were sent.
    pub reported: bool,
    /// The cost of the input by the provider's report, if it also says how much came from the cache.
    #[serde(skip)]
    pub(crate) paid: Option<f64>,
}

/// The reason why a request does not extend the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PrefixBreak {
    /// The client changed its history, which began a branch.
    Branch,
    /// A compaction.
    Compaction,
    /// Another system prompt, or other tools.
    Preamble,
    /// A repair before the end of the request.
    Repair,
    /// A message was inserted before the end of the request: a result next to its call, or a system message.
    Insertion,
}

impl PrefixBreak {
    /// Returns the name of the cause.
    pub fn as_str(self) -> &'static str {
        match self {
            PrefixBreak::Branch => "a branch: the client changed its history",
            PrefixBreak::Compaction => "a compaction",
            PrefixBreak::Preamble => "another system prompt, or other tools",
            PrefixBreak::Repair => "a repair",
            PrefixBreak::Insertion => "a message was put before the end of the request",
        }
    }
}

/// The sums of a receipt. The fields are those of the command line's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct ReceiptTotal {
    /// The number of calls.
    pub calls: u64,
    /// Input tokens, including system prompts and tools.
    pub sent_tokens: u64,
    /// Input tokens that were read from the cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the cache.
    pub cache_write_tokens: u64,
    /// Input tokens that were neither read from the cache nor written to it.
    pub uncached_tokens: u64,
    /// Tokens of the answers, as Lookback counted them.
    pub output_tokens: u64,
    /// The cost of the input, in US dollars.
    pub cost: f64,
    /// The cost of the input without a window, in US dollars.
    pub cost_without_window: f64,
    /// Calls with a compaction directly before them.
    pub compactions: u64,
    /// Calls, from the second on, that do not extend the previous call.
    pub prefix_breaks: u64,
    /// Calls whose tokens the provider reported.
    pub reported_calls: u64,
    /// The cost of the calls whose cost the provider reported.
    #[doc(hidden)]
    #[serde(skip)]
    pub paid: Paid,
}

impl CallReceipt {
    /// Sets the cost of the call, with a window and without.
    fn charge(&mut self, with: Charge, without: Charge) {
        self.sent_tokens = with.sent();
        self.cache_read_tokens = with.read;
        self.cache_write_tokens = with.written;
        self.uncached_tokens = with.uncached;
        self.cost = with.cost;
        self.cost_without_window = without.cost;
    }
}

impl Receipt {
    fn from_calls(calls: Vec<CallReceipt>) -> Receipt {
        let mut total = ReceiptTotal::default();
        calls.iter().for_each(|call| total.add(call));
        Receipt { calls, total, since: 0 }
    }
}

impl ReceiptTotal {
    /// Returns the savings by the window, in US dollars. The result is negative if the window cost more than it saved.
    pub fn saved(&self) -> f64 {
        self.cost_without_window - self.cost
    }

    fn add(&mut self, call: &CallReceipt) {
        self.calls += 1;
        self.sent_tokens += call.sent_tokens;
        self.cache_read_tokens += call.cache_read_tokens;
        self.cache_write_tokens += call.cache_write_tokens;
        self.uncached_tokens += call.uncached_tokens;
        self.output_tokens += call.output_tokens;
        self.cost += call.cost;
        self.cost_without_window += call.cost_without_window;
        self.compactions += u64::from(call.compacted);
        self.prefix_breaks += u64::from(call.prefix_break.is_some());
        self.reported_calls += u64::from(call.reported);
        if let Some(paid) = call.paid {
            self.paid = self.paid + Paid::call(paid, call.cost, call.cost_without_window);
        }
    }
}

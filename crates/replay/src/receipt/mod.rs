//! Receipts: what each model call of a session sent and cost, and what it would have cost without a window.
//!
//! A receipt is computed from the log alone, because the view of the entries before an answer is what the model was
//! sent. To make one, see [`Receipt::for_session`] and
//! [`Receipt::load`].
//!
//! A call is assumed before each assistant message of every branch, unless it is the first message. The cache is
//! [simulated](crate::cache), with the times at which the answers arrived.
//!
//! *Without a window*, a call sends the whole history of its branch, with a cache of its own. Tool results that were
//! truncated as they arrived are whole there.
//!
//! *Reported usage* corrects the figures of its call: all tokens, those without a window too, are multiplied by what the
//! provider reported over what Lookback had counted. So the tokens sent are those that were reported, and the shares that
//! were read and written are still simulated.

mod history;
mod ledger;
mod load;

use lookback_engine::plan::Occasion;
use lookback_engine::transcript::Position;
use serde::Serialize;

pub(crate) use self::ledger::Ledger;
use crate::cache::Charge;

/// The calls of a session, and what they cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The calls, in the order in which they were made. Those of abandoned branches are among them.
    pub calls: Vec<CallReceipt>,
    /// The sums.
    pub total: ReceiptTotal,
    /// The entry from which on calls are known: 0 unless contents of the session were erased. Without a window, a call sends
    /// what was shown there, and what came after it.
    pub since: Position,
}

/// What one model call sent and cost. The fields are those of the command line's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CallReceipt {
    /// The number of the call, from 1.
    #[serde(rename = "call")]
    pub number: u64,
    /// The position of its answer in the log. As JSON it is called `entry`.
    #[serde(rename = "entry")]
    pub position: Position,
    /// How many messages were sent.
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
    /// What the input would have cost without a window, in US dollars.
    pub cost_without_window: f64,
    /// Whether a compaction was made since the call before.
    pub compacted: bool,
    /// Why it was made at lower limits than usual, if it was.
    pub occasion: Option<Occasion>,
    /// Why the request does not extend the one before it, or `None` if it does.
    pub prefix_break: Option<PrefixBreak>,
    /// Whether the cache had the beginning of the request, but it had expired by the recorded times.
    pub cold: bool,
    /// Whether the provider reported the tokens that were sent.
    pub reported: bool,
}

/// Why a request does not extend the one before it.
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
    /// A message that was put before the end of the request: a result beside its call, or a system message.
    Insertion,
}

impl PrefixBreak {
    /// Names the cause.
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
    /// What the input would have cost without a window, in US dollars.
    pub cost_without_window: f64,
    /// Calls right before which a compaction was made.
    pub compactions: u64,
    /// Calls, from the second on, that do not extend the call before.
    pub prefix_breaks: u64,
    /// Calls whose tokens the provider reported.
    pub reported_calls: u64,
}

impl CallReceipt {
    /// Sets what the call cost, with a window and without.
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
    /// Returns what the window saved, in US dollars. It is negative if the window cost more than it saved.
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
    }
}

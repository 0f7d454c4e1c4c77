//! The use of agents over some time, from their own logs: tokens and money, misses of the cache, large results, repeated
//! reads, and compactions.

mod call;
mod conversation;
mod limits;
mod misses;
mod results;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::AddAssign;

use lookback_engine::transcript::Millis;
use serde::Serialize;

pub use call::{Call, Cause, Kind, Miss};
pub use conversation::{Compaction, Conversation, Place};
pub use results::{LargeResult, Repeat};

/// Tokens, money and calls.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Used {
    /// The number of calls.
    pub calls: u64,
    /// The calls among these whose tokens are estimated, because the log has no usage.
    pub estimated_calls: u64,
    /// Input tokens that were neither read from the cache nor written to it.
    pub input: u64,
    /// Input tokens that were read from the cache.
    pub cache_read: u64,
    /// Input tokens that were written to the cache.
    pub cache_write: u64,
    /// Output tokens.
    pub output: u64,
    /// The cost of the calls whose model has a price, in US dollars.
    pub cost: f64,
    /// The calls whose model has no price.
    pub unpriced_calls: u64,
    /// The calls whose cost is that of the input, because the price list has none for output.
    pub input_only_calls: u64,
    /// The calls that read less than half of what the call before had left in the cache.
    pub misses: u64,
    /// What these cost more, in US dollars.
    pub miss_cost: f64,
    /// What the default policy would have saved of the cost of the input, in US dollars, estimated from the sizes of calls.
    pub saved: f64,
}

impl Used {
    /// Returns all input tokens, cached or not.
    pub fn sent(&self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }

    /// Returns whether the cost has all calls, with their output. For the others, no price is known.
    pub fn is_complete(&self) -> bool {
        self.unpriced_calls + self.input_only_calls == 0
    }

    /// Compares by cost, and then by input tokens, the highest first.
    pub fn highest_first(&self, other: &Used) -> Ordering {
        other.cost.total_cmp(&self.cost).then_with(|| other.sent().cmp(&self.sent()))
    }

    fn of_call(call: &Call) -> Used {
        Used {
            calls: 1,
            estimated_calls: u64::from(call.kind == Kind::Estimated),
            input: call.input,
            cache_read: call.cache_read,
            cache_write: call.cache_write,
            output: call.output,
            cost: call.cost.unwrap_or(0.0),
            unpriced_calls: u64::from(call.cost.is_none()),
            input_only_calls: u64::from(!call.has_output_price),
            misses: u64::from(call.miss.is_some()),
            miss_cost: call.miss.and_then(|miss| miss.cost).unwrap_or(0.0),
            saved: call.saved,
        }
    }
}

impl AddAssign for Used {
    fn add_assign(&mut self, other: Used) {
        self.calls += other.calls;
        self.estimated_calls += other.estimated_calls;
        self.input += other.input;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.output += other.output;
        self.cost += other.cost;
        self.unpriced_calls += other.unpriced_calls;
        self.input_only_calls += other.input_only_calls;
        self.misses += other.misses;
        self.miss_cost += other.miss_cost;
        self.saved += other.saved;
    }
}

/// The conversations of some time, and their sums.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Week {
    /// The sum of all calls.
    pub total: Used,
    /// By the day (UTC), such as `2026-11-29`. Calls without a time are under an empty text.
    pub days: BTreeMap<String, Used>,
    /// By the folder. Conversations without one are under an empty text.
    pub projects: BTreeMap<String, Used>,
    /// By the model. Calls of an unknown one are under an empty text.
    pub models: BTreeMap<String, Used>,
    /// By the agent. Other recordings are under an empty text.
    pub agents: BTreeMap<String, Used>,
    /// Misses of the cache, by their cause.
    pub misses: BTreeMap<Cause, Missed>,
    /// The prices that were used, each with its date.
    pub prices: BTreeSet<(String, String)>,
    /// The calls that are in several files, and count once.
    pub copies: u64,
    /// The conversations, the newest first.
    pub conversations: Vec<Conversation>,
}

/// The misses of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Missed {
    /// The number of calls.
    pub calls: u64,
    /// The tokens that the calls before had left in the cache and these did not read.
    pub tokens: u64,
    /// What they cost more, in US dollars, as far as prices are known.
    pub cost: f64,
}

impl Week {
    /// Sums up conversations, of which the newest must come first. Agents copy calls into another file when somebody
    /// forks or resumes a conversation. Such calls have the same time and tokens, and count once.
    pub fn new(conversations: Vec<Conversation>) -> Week {
        let mut week = Week { conversations, ..Week::default() };
        let mut known = HashSet::new();
        // The first conversation that has a call is the oldest one.
        for conversation in week.conversations.iter_mut().rev() {
            let (mut copied, mut copies) = (None, 0);
            conversation.calls.retain(|call| {
                let is_new = call.key().is_none_or(|key| known.insert(key));
                if !is_new {
                    (copied, copies) = (Some(call.message), copies + 1);
                }
                is_new
            });
            week.copies += copies;
            conversation.remove_copied(copied);
            conversation.used = Used::default();
            for call in &conversation.calls {
                let used = Used::of_call(call);
                conversation.used += used;
                week.total += used;
                *week.days.entry(call.time.and_then(day).unwrap_or_default()).or_default() += used;
                *week.models.entry(call.model.clone().unwrap_or_default()).or_default() += used;
                let project = conversation.place.project.clone().unwrap_or_default();
                *week.projects.entry(project).or_default() += used;
                *week.agents.entry(conversation.place.agent.unwrap_or_default().to_owned()).or_default() += used;
                week.prices.extend(call.price.clone());
                if let Some(miss) = call.miss {
                    let missed = week.misses.entry(miss.cause).or_default();
                    missed.calls += 1;
                    missed.tokens += miss.tokens;
                    missed.cost += miss.cost.unwrap_or(0.0);
                }
            }
        }
        // A copy may have nothing of its own.
        week.conversations.retain(|conversation| !conversation.calls.is_empty());
        week
    }
}

/// Returns the day of a time in UTC.
fn day(time: Millis) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(time).ok()?;
    Some(time.strftime("%Y-%m-%d").to_string())
}

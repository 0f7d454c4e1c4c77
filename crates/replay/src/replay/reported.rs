//! The provider's usage reports for calls, compared with the replay's figures.

use serde::{Deserialize, Serialize};

use crate::cache::Charge;
use crate::prices::Price;
use lookback_recordings::RecordedUsage;

/// The provider's usage reports for calls, and the replay's figures for the same calls.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Reported {
    /// The number of calls with a report.
    pub calls: u64,
    /// Input tokens, including cached ones.
    pub sent_tokens: u64,
    /// Input tokens that were read from the cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the cache.
    pub cache_write_tokens: u64,
    /// Input tokens that were neither read from the cache nor written to it.
    pub uncached_tokens: u64,
    /// The cost of the input at the prices of the replay, in US dollars.
    pub cost: f64,
    /// Input tokens of the same calls in the replay.
    pub replayed_tokens: u64,
    /// The cost of the same calls in the replay, in US dollars.
    pub replayed_cost: f64,
}

impl Reported {
    pub(super) fn new(usage: &RecordedUsage, price: &Price, replayed: &Charge) -> Reported {
        #[allow(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let tokens = |count: u64, times: f64| count as f64 * times;
        let weighted =
            tokens(usage.input, 1.0) + tokens(usage.cache_write, price.write) + tokens(usage.cache_read, price.read);
        Reported {
            calls: 1,
            sent_tokens: usage.sent(),
            cache_read_tokens: usage.cache_read,
            cache_write_tokens: usage.cache_write,
            uncached_tokens: usage.input,
            cost: weighted * price.input / 1e6,
            replayed_tokens: replayed.sent(),
            replayed_cost: replayed.cost,
        }
    }

    pub(super) fn add(&mut self, other: &Reported) {
        self.calls += other.calls;
        self.sent_tokens += other.sent_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.uncached_tokens += other.uncached_tokens;
        self.cost += other.cost;
        self.replayed_tokens += other.replayed_tokens;
        self.replayed_cost += other.replayed_cost;
    }
}

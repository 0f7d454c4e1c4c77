//! A call of a model, with what it cost and whether it missed the cache.

use lookback_engine::transcript::Millis;
use lookback_recordings::RecordedUsage;
use serde::Serialize;

use crate::prices::Price;

/// What it costs to write a token that is kept for an hour, as a multiple of one for five minutes: 2 / 1.25 at Anthropic's
/// prices of November 2026. No other provider reports such tokens.
const FOR_AN_HOUR: f64 = 1.6;

/// How the tokens of a call are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The provider reported them with an answer.
    Reported,
    /// The provider reported them, and the answer is not among the messages: a title, a summary, an undone answer.
    Aside,
    /// The log has no usage, so they are estimated from the texts.
    Estimated,
}

/// Why a call missed the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The pause before it was longer than the cache lasts.
    Pause,
    /// The agent had compacted the conversation.
    Compaction,
    /// Another model was chosen.
    Model,
    /// None of these: something at the beginning of the request changed, such as the tools, or the provider lost it.
    Other,
}

/// A miss of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Miss {
    /// The cause.
    pub cause: Cause,
    /// The tokens that the call before had left in the cache and this one did not read.
    pub tokens: u64,
    /// What that cost more, in US dollars, if the model has a price.
    pub cost: Option<f64>,
}

/// A call of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// The index of the message that answers it, or of the one before which it was made.
    pub message: usize,
    /// How its tokens are known.
    pub kind: Kind,
    /// Its time, if known.
    pub time: Option<Millis>,
    /// The model, if known.
    pub model: Option<String>,
    /// Input tokens that were neither read from the cache nor written to it.
    pub input: u64,
    /// Input tokens that were read from the cache.
    pub cache_read: u64,
    /// Input tokens that were written to the cache.
    pub cache_write: u64,
    /// Output tokens.
    pub output: u64,
    /// The cost in US dollars, if the model has a price.
    pub cost: Option<f64>,
    /// Why the cache was missed, if it was.
    pub miss: Option<Miss>,
    /// What the default policy would have saved of its cost, in US dollars.
    pub saved: f64,
    /// The name and the date of the price.
    #[serde(skip)]
    pub price: Option<(String, String)>,
    /// Whether it wrote tokens that are kept for an hour.
    #[serde(skip)]
    pub(super) is_for_an_hour: bool,
    /// Whether the price has one for output.
    #[serde(skip)]
    pub(super) has_output_price: bool,
}

impl Call {
    /// Returns all input tokens, cached or not.
    pub fn sent(&self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }

    /// Returns a value that only copies of a call share.
    pub(super) fn key(&self) -> Option<(Millis, [u64; 4])> {
        Some((self.time?, [self.input, self.cache_read, self.cache_write, self.output]))
    }

    pub(super) fn new(
        message: usize,
        kind: Kind,
        time: Option<Millis>,
        used: &RecordedUsage,
        price: Option<&Price>,
    ) -> Call {
        let hour = used.cache_write_hour.min(used.cache_write);
        let cost = |price: &Price| {
            price.cost(used.cache_read, used.cache_write - hour, used.input)
                + price.cost(0, hour, 0) * FOR_AN_HOUR
                + price.output_cost(used.output)
        };
        Call {
            message,
            kind,
            time,
            model: used.model.clone(),
            input: used.input,
            cache_read: used.cache_read,
            cache_write: used.cache_write,
            output: used.output,
            cost: price.map(cost),
            miss: None,
            saved: 0.0,
            price: price.map(|price| (price.name.clone(), price.date.clone())),
            is_for_an_hour: used.cache_write_hour > 0,
            has_output_price: price.is_none_or(|price| price.output.is_some()),
        }
    }
}

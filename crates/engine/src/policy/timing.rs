//! The timing of compactions: how often limits are checked, and lower limits for when a cut is free or repaid.

use serde::{Deserialize, Serialize};

use super::Limits;

/// When the limits of a policy are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pace {
    /// Before every call.
    #[default]
    Call,
    /// Before every n-th call, and between turns. Calls are counted by the assistant messages of the history, so the
    /// count continues when a session is opened again.
    Calls(u64),
    /// Between turns, and never in the middle of a tool loop.
    Turn,
}

/// Limits that apply in addition if the provider's cache no longer has the window: after a pause, after the system
/// prompt or the tools have changed, and for another model.
///
/// A pause is the time between the last call and the arrival of the newest message. The time of the last call is the
/// arrival of the message that it answered. Without arrival times there are no pauses.
///
/// The cache is cold after a pause that is longer than its lifetime. If the policy does not set one, it is five minutes,
/// the shortest of the known providers. In the gateway, the request's cache markers and the model decide. In any case, if
/// the provider has reported that it still had the window after the last pause of more than five minutes, the lifetime
/// is at least an hour.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cold {
    /// The lifetime of the cache, in seconds. If this is `None`, it is the one that is known, or 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// When to compact.
    pub limits: Limits,
    /// How far to compact.
    pub target: Limits,
}

/// Limits that apply in addition once a compaction is repaid.
///
/// A large window costs a little more at each call, because all of it is read from the cache. A compaction costs a lot
/// once, because the kept messages are written to the cache again. Each call since the last compaction reads some
/// tokens more than the target. Once these extra tokens cost as much as a new compaction, it is made. So a window that
/// grows fast is compacted at a larger size than one that grows slowly.
///
/// ```
/// use lookback_engine::policy::{Limits, Payback, Policy};
///
/// // At Anthropic's prices for five minutes, a token costs 1.25 to write and 0.1 to read.
/// let payback = Payback { write: 12.5, limits: Limits::body(20_000) };
/// let policy = Policy { payback: Some(payback), ..Policy::production() };
/// assert!(policy.faults().is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Payback {
    /// The price of writing a token to the cache, as a multiple of the price of reading one.
    pub write: f64,
    /// The limits below which a window is never compacted for this reason.
    pub limits: Limits,
}

impl Payback {
    /// Returns the extra cost of writing this many tokens again instead of reading them, in tokens that are read.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float saturates as it is cast")]
    #[allow(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub(crate) fn price(&self, tokens: u64) -> u64 {
        (tokens as f64 * (self.write - 1.0)).round() as u64
    }
}

impl Default for Payback {
    /// Returns Anthropic's price ratio of 12.5, and no limits.
    fn default() -> Self {
        Payback { write: 12.5, limits: Limits::default() }
    }
}

/// Whether compactions are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// Compactions are recorded in the log, and requests extend each other until the next compaction.
    #[default]
    Recorded,
    /// The window is planned again at each read, and nothing is recorded. This is for compatibility with systems that
    /// work this way. Each read costs O(history), and the provider's cache is lost.
    OnRead,
}

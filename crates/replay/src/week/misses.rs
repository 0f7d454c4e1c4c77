//! Misses of the prompt cache, and their causes.

use super::call::{Call, Cause, Kind, Miss};
use crate::prices::Price;
use lookback_engine::transcript::Millis;
use lookback_recordings::Recording;

/// A call misses the cache if it reads less than this share of what the call before has left there.
const READ: f64 = 0.5;
/// The fewest tokens that a provider caches.
const LEAST: u64 = 1_024;
/// How long a provider without a known price keeps a prefix: five minutes.
const KEPT: Millis = 300_000;
/// How long Anthropic keeps what was written for an hour.
const HOUR: Millis = 3_600_000;

/// Finds the calls that missed the cache.
pub(super) fn find<'p>(
    calls: &mut [Call],
    recording: &Recording,
    price: &impl Fn(&Option<String>) -> Option<&'p Price>,
) {
    // Providers with a price for writing report what they have written. Others cache all that was sent.
    let has_writes = calls.iter().any(|call| call.cache_write > 0);
    let has_reads = calls.iter().any(|call| call.cache_read > 0);
    if !has_writes && !has_reads {
        // Nothing says that there is a cache.
        return;
    }
    let mut before: Option<Call> = None;
    for call in calls.iter_mut().filter(|call| call.kind == Kind::Reported) {
        if let Some(before) = &before {
            let left = if has_writes { before.cache_read + before.cache_write } else { before.sent() };
            #[allow(clippy::cast_precision_loss, reason = "it is compared with half of it")]
            let is_miss = left >= LEAST && (call.cache_read as f64) < READ * left as f64;
            if is_miss {
                let known = price(&call.model);
                let kept =
                    known.map_or(KEPT, |price| Millis::try_from(price.ttl).unwrap_or(KEPT).saturating_mul(1_000));
                let kept = if before.is_for_an_hour { HOUR } else { kept };
                let is_late = before.time.zip(call.time).is_some_and(|(before, now)| now - before > kept);
                let is_compacted = recording.compactions.iter().any(|at| (before.message..=call.message).contains(at));
                let cause = match () {
                    () if is_compacted => Cause::Compaction,
                    () if before.model != call.model => Cause::Model,
                    () if is_late => Cause::Pause,
                    () => Cause::Other,
                };
                // What would have been read is as much as the call sent again.
                let tokens = left.min(call.sent()).saturating_sub(call.cache_read);
                let cost = known.map(|price| {
                    let paid = if has_writes { price.cost(0, tokens, 0) } else { price.cost(0, 0, tokens) };
                    paid - price.cost(tokens, 0, 0)
                });
                call.miss = Some(Miss { cause, tokens, cost });
            }
        }
        before = Some(call.clone());
    }
}

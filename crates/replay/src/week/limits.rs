//! What the default policy would have saved, from the sizes of calls alone.
//!
//! A replay is exact, and takes seconds for a long conversation. Here the limits of the default policy are applied to the
//! sizes that the provider reported: the window grows as the recorded one grew, and is cut to the target above the limit.
//! The same calculation without a limit is compared with it, because it reads more from the cache than real calls do.

use lookback_engine::policy::{Limits, Policy};

use super::call::{Call, Kind};
use crate::prices::Price;

/// A window by its size.
#[derive(Default)]
struct Window {
    tokens: u64,
    /// The tokens of it that are in the cache.
    cached: u64,
}

impl Window {
    /// Sends a call, and returns its cost.
    fn send(&mut self, price: &Price, has_writes: bool) -> f64 {
        let read = self.cached.min(self.tokens);
        let rest = self.tokens - read;
        self.cached = self.tokens;
        if has_writes { price.cost(read, rest, 0) } else { price.cost(read, 0, rest) }
    }
}

/// Computes what the default policy would have saved of the cost of each call.
pub(super) fn savings<'p>(calls: &mut [Call], price: &impl Fn(&Option<String>) -> Option<&'p Price>) {
    let policy = Policy::production();
    let body = |limits: Option<Limits>| limits.and_then(|limits| limits.body).unwrap_or(u64::MAX);
    let (limit, target) = (body(Some(policy.limits)), body(policy.target));
    let cold = policy.cold.map_or((limit, target), |cold| (body(Some(cold.limits)), body(Some(cold.target))));
    // The words of people and the index stay behind a cut, at most as many as the policy allows.
    let kept = policy.keep.people + policy.index.map_or(0, |index| index.budget);
    let has_writes = calls.iter().any(|call| call.cache_write > 0);
    let (mut all, mut cut) = (Window::default(), Window::default());
    let (mut head, mut before) = (0, 0);
    for call in calls.iter_mut().filter(|call| call.kind != Kind::Aside) {
        let sent = call.sent();
        if before == 0 {
            // The system prompt, the tools and the task stay.
            head = sent;
        }
        cut.tokens = (cut.tokens + sent.saturating_sub(before)).min(sent);
        all.tokens = sent;
        before = sent;
        // The cache of both is as cold as it was.
        let is_cold = call.miss.is_some();
        if is_cold {
            (all.cached, cut.cached) = (0, 0);
        }
        let (limit, target) = if is_cold { cold } else { (limit, target) };
        if cut.tokens.saturating_sub(head) > limit {
            cut.tokens = cut.tokens.min(head.saturating_add(target).saturating_add(kept));
            cut.cached = cut.cached.min(head);
        }
        let Some(price) = price(&call.model) else { continue };
        let (everything, window) = (all.send(price, has_writes), cut.send(price, has_writes));
        let paid = price.cost(call.cache_read, call.cache_write, call.input);
        call.saved = if everything > 0.0 { paid * (1.0 - window / everything) } else { 0.0 };
    }
}

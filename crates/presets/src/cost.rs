//! The settings `max_cost_per_call` and `prices`, which derive a limit in tokens or the payback of compactions from
//! prices.

use lookback_engine::policy::{Cold, Limits, Payback, Policy, Tokens};
use lookback_wire::size::Measure;

use super::PolicyError;
use lookback_replay::prices::{Price, Prices};

const COST: &str = "max_cost_per_call";
const PRICES: &str = "prices";

/// Returns whether this is one of the two settings.
pub(super) fn is_setting(key: &str) -> bool {
    key == COST || key == PRICES
}

/// Changes a policy by the two settings, after all others. `max_cost_per_call` limits its tokens. `prices` alone makes
/// it compact once a compaction pays for itself.
pub(super) fn apply(policy: Policy, settings: &[(&str, &str)]) -> Result<Policy, PolicyError> {
    let last = |key: &str| settings.iter().rev().find(|(given, _)| *given == key).map(|(_, value)| *value);
    let (cost, prices) = (last(COST), last(PRICES));
    let sets = |keys: [&str; 2]| settings.iter().any(|(key, _)| keys.contains(key));
    let builtin = Prices::builtin();
    let price = |name: &str| {
        let found = builtin.find(name).cloned();
        found.ok_or_else(|| PolicyError::refused(PRICES, "a built-in price, or a model that has one", name))
    };
    match (cost, prices) {
        (None, None) => Ok(policy),
        (None, Some(name)) => {
            let demand = "given with max_cost_per_call, or for a policy with a target in tokens";
            repaid(policy, &price(name)?).ok_or_else(|| PolicyError::refused(PRICES, demand, name))
        }
        (Some(cost), prices) => {
            let dollars = cost.parse::<f64>().ok().filter(|dollars| dollars.is_finite() && *dollars > 0.0);
            let dollars = dollars.ok_or_else(|| PolicyError::refused(COST, "an amount in US dollars above 0", cost))?;
            let price = price(prices.or_else(|| builtin.names().next()).unwrap_or_default())?;
            if sets(["max_tokens", "limits.tokens"]) {
                return Err(PolicyError::refused(COST, "given without max_tokens", cost));
            }
            Ok(limited(policy, price.tokens_for(dollars), sets(["target_tokens", "target.tokens"])))
        }
    }
}

/// Returns the policy with a limit in tokens. Unless its target in tokens is given, the target keeps its ratio to the
/// limit, in tokens or else in tokens of the body. If it has no such target, it becomes half of the limit.
fn limited(policy: Policy, tokens: u64, target_is_given: bool) -> Policy {
    let count = |tokens| Some(Tokens::Count(tokens));
    let scaled = |target: Limits| {
        let pair = |measure| Some((target.get(measure)?, policy.limits.get(measure).filter(|limit| *limit > 0)?));
        let (aim, limit) = pair(Measure::Tokens).or_else(|| pair(Measure::Body)).unwrap_or((1, 2));
        let aim = u128::from(aim) * u128::from(tokens) / u128::from(limit);
        Limits { tokens: count(u64::try_from(aim).unwrap_or(u64::MAX)), ..target }
    };
    let target = policy.target.map(|target| if target_is_given { target } else { scaled(target) });
    Policy { limits: Limits { tokens: count(tokens), ..policy.limits }, target, ..policy }
}

/// Returns the policy with a payback at this price, which never compacts below one and a half times the target. `None`
/// if the target is not in tokens.
fn repaid(policy: Policy, price: &Price) -> Option<Policy> {
    let target = policy.target?;
    let earliest = |measure| target.get(measure).map(|target| target.saturating_add(target / 2));
    let limits = match (earliest(Measure::Body), earliest(Measure::Tokens)) {
        (Some(body), _) => Limits::body(body),
        (None, Some(tokens)) => Limits::tokens(tokens),
        (None, None) => return None,
    };
    let write = (price.write / price.read).max(1.0);
    // If reading from the cache is free, a compaction never pays for itself.
    let payback = write.is_finite().then_some(Payback { write, limits });
    // The price also has the lifetime of the cache.
    let cold = policy.cold.map(|cold| Cold { after: Some(price.ttl), ..cold });
    Some(Policy { payback, cold, ..policy })
}

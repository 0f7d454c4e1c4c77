//! The setting `max_cost_per_call`: a limit in tokens, from what a call may cost.

use lookback_core::policy::{Limits, Policy, Tokens};

use super::PolicyError;
use crate::prices::Prices;

const COST: &str = "max_cost_per_call";
const PRICES: &str = "prices";

/// Returns whether this is one of the two settings that [`take`] takes.
pub(super) fn is_setting(key: &str) -> bool {
    key == COST || key == PRICES
}

/// Takes what a call may cost, and at which prices, from the settings, and limits the policy's tokens by it. A target in
/// tokens keeps its proportion to the limit.
pub(super) fn take(policy: Policy, settings: &mut Vec<(&str, &str)>) -> Result<Policy, PolicyError> {
    let last = |key: &str| settings.iter().rev().find(|(given, _)| *given == key).map(|(_, value)| *value);
    let (cost, prices) = (last(COST), last(PRICES));
    settings.retain(|(key, _)| !is_setting(key));
    let refused = |option, demand, value: &str| PolicyError::Refused { option, demand, value: value.to_owned() };
    let Some(cost) = cost else {
        return prices.map_or(Ok(policy), |name| Err(refused(PRICES, "given with max_cost_per_call", name)));
    };
    let dollars = cost.parse::<f64>().ok().filter(|dollars| dollars.is_finite() && *dollars > 0.0);
    let dollars = dollars.ok_or_else(|| refused(COST, "an amount in US dollars above 0", cost))?;
    let builtin = Prices::builtin();
    let name = prices.or_else(|| builtin.names().next()).unwrap_or_default();
    let price = builtin.find(name).ok_or_else(|| refused(PRICES, "a built-in price, or a model that has one", name))?;
    let tokens = price.tokens_for(dollars);
    let target = policy.target.map(|target| match (policy.limits.tokens, target.tokens) {
        (Some(Tokens::Count(limit)), Some(Tokens::Count(aim))) if limit > 0 => {
            let aim = u128::from(aim) * u128::from(tokens) / u128::from(limit);
            Limits { tokens: Some(Tokens::Count(u64::try_from(aim).unwrap_or(u64::MAX))), ..target }
        }
        _ => target,
    });
    let limits = Limits { tokens: Some(Tokens::Count(tokens)), ..policy.limits };
    Ok(Policy { limits, target, ..policy })
}

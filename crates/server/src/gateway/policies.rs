//! The policies of a gateway: the defaults, and the forms of a policy for different requests.

use lookback_engine::policy::{Limits, Policy, Tokens};

use crate::gateway::config::summarizer::summarizing;

/// A policy in its forms.
pub(crate) struct Policies {
    pub(crate) usual: Policy,
    /// With summaries.
    pub(crate) summarizing: Policy,
    /// For conversations that the provider shortens: cuts only if a request is refused as too long.
    pub(crate) yielding: Policy,
}

impl Policies {
    pub(crate) fn new(usual: Policy) -> Policies {
        let summarizing = summarizing(&usual);
        let (limits, whole) = (Limits::default(), whole(usual.clone()));
        let yielding = Policy { limits, target: None, cold: None, payback: None, arrival: None, ..whole };
        Policies { usual, summarizing, yielding }
    }
}

/// Returns the default policy for a model that cannot read back what was cut: most conversations are never cut, and
/// nothing is shortened.
pub(crate) fn sparing() -> Policy {
    whole(below_clients(Policy { limits: Limits::default(), target: None, cold: None, ..Policy::production() }))
}

/// Returns the policy for a model that can read back what was cut, if it differs from this one: only the default does.
pub(crate) fn for_readers(policy: &Policy) -> Option<Policy> {
    (*policy == sparing()).then(saving)
}

/// Returns the default policy for a model that can read back what was cut.
fn saving() -> Policy {
    below_clients(Policy::production())
}

/// Returns a policy that shortens no results on arrival.
fn whole(policy: Policy) -> Policy {
    Policy { caps: None, repeats: None, ..policy }
}

/// Returns a policy with limits below those at which clients compact by themselves.
fn below_clients(policy: Policy) -> Policy {
    let limits = Limits { tokens: Some(Tokens::Share(0.45)), ..policy.limits };
    let target = Limits { tokens: Some(Tokens::Share(0.225)), ..policy.target.unwrap_or_default() };
    Policy { limits, target: Some(target), ..policy }
}

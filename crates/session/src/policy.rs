//! The policy of a session: its own, which a function may provide, and a second one that the window must meet.

use lookback_engine::policy::Policy;

use super::Session;
use lookback_store::LogName;

/// Returns a session's policy, given its name.
pub(super) type Policies = dyn Fn(&LogName) -> Policy + Send + Sync;

#[derive(Debug, Clone)]
pub(super) struct Bound {
    own: Policy,
    by: Policy,
}

impl Session {
    /// Replaces the policy. A smaller limit applies from the next window on. Under a larger limit, groups that a policy
    /// in the mode `on_read` left out appear again.
    pub fn set_policy(&mut self, policy: Policy) {
        let Some(bound) = &mut self.bound else { return self.engine.set_policy(policy) };
        let tightened = policy.tightened(&bound.by, self.engine.settings().model_window);
        bound.own = policy;
        self.engine.set_policy(tightened);
    }

    /// Sets a second policy that the window must meet besides the session's own, even if that changes; `None` removes
    /// it.
    pub fn bind(&mut self, by: Option<Policy>) {
        let own = self.bound.take().map_or_else(|| self.engine.settings().policy.clone(), |bound| bound.own);
        self.bound = by.map(|by| Box::new(Bound { own: own.clone(), by }));
        self.set_policy(own);
    }

    pub(super) fn follow_policy(&mut self) {
        if let Some(policies) = &self.policies {
            let policy = policies(&self.name);
            let own = self.bound.as_ref().map_or(&self.engine.settings().policy, |bound| &bound.own);
            if policy != *own {
                self.set_policy(policy);
            }
        }
    }
}

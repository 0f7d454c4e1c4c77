//! The policy of a session, and a second policy that its window must also meet.

use lookback_engine::policy::Policy;

use super::Session;

#[derive(Debug, Clone)]
pub(super) struct Bound {
    own: Policy,
    by: Policy,
}

impl Session {
    /// Replaces the policy. A smaller limit applies from the next window on. Under a larger limit, groups reappear if a
    /// policy in the mode `on_read` left them out.
    pub fn set_policy(&mut self, policy: Policy) {
        let Some(bound) = &mut self.bound else { return self.engine.set_policy(policy) };
        let tightened = policy.tightened(&bound.by, self.engine.settings().model_window);
        bound.own = policy;
        self.engine.set_policy(tightened);
    }
}

/// Sets a second policy that the window must meet in addition to the session's own, even if that changes later; `None`
/// removes it.
pub fn bind(session: &mut Session, by: Option<Policy>) {
    let own = session.bound.take().map_or_else(|| session.engine.settings().policy.clone(), |bound| bound.own);
    session.bound = by.map(|by| Box::new(Bound { own: own.clone(), by }));
    session.set_policy(own);
}

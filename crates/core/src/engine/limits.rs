//! How a window is measured, and which limits of the policy it exceeds.

use super::Engine;
use crate::candidates::{self, Sizing};
use crate::entry::Millis;
use crate::plan::Demands;
use crate::policy::{Limits, Pace, Policy, Tokens};
use crate::size::{Excess, Totals};
use crate::tokens::Calibration;
use crate::view::View;

impl Engine {
    /// Returns the tokens of a window, corrected by the provider's usage reports.
    pub fn tokens(&self, view: &View) -> u64 {
        self.calibration().apply(view.totals().size.tokens)
    }

    /// Returns the totals of the window, as the policy counts them.
    pub(super) fn totals(&self) -> Totals {
        self.counted(&self.view, &self.policy)
    }

    fn counted(&self, view: &View, policy: &Policy) -> Totals {
        let mut totals = view.totals();
        totals.size.tokens = self.calibration().apply(totals.size.tokens);
        totals.body = self.calibration().apply(totals.body);
        // What is pinned is looked up only if it matters.
        if policy.limits.body.is_some_and(|limit| totals.body > limit) {
            totals = totals.behind(candidates::head(view, self.sizing()));
        }
        if !policy.system.counted {
            totals.size.messages = totals.size.messages.saturating_sub(view.uncounted());
        }
        totals
    }

    /// Returns the limits of the policy that a view of this conversation exceeds. Tokens are corrected by the
    /// provider's usage reports.
    pub fn over(&self, view: &View) -> Vec<Excess> {
        self.policy.limits.excesses(&self.counted(view, &self.policy)).collect()
    }

    /// Returns whether a limit is exceeded that has to be checked now.
    pub(super) fn exceeds(&self) -> bool {
        self.exceeds_limits_of(&self.policy)
    }

    /// Returns whether a limit of a policy is exceeded that has to be checked now.
    pub(super) fn exceeds_limits_of(&self, policy: &Policy) -> bool {
        let totals = self.counted(&self.view, policy);
        let due = match self.policy.pace {
            Pace::Call => true,
            // Also between turns, so that it is never looser than `Pace::Turn`.
            Pace::Calls(calls) => !self.view.in_turn() || (self.view.round() + 1).is_multiple_of(calls.max(1)),
            Pace::Turn => !self.view.in_turn(),
        };
        // A share of the context window is checked before every call, whatever the pace.
        let shares = self.settings.policy.limits.tokens.filter(|tokens| matches!(tokens, Tokens::Share(_)));
        let shares = Limits { tokens: shares.and(self.policy.limits.tokens), ..Limits::default() };
        (due && !policy.limits.fits(&totals)) || !shares.fits(&totals) || !self.fits_hard(&totals)
    }

    pub(super) fn fits_hard(&self, totals: &Totals) -> bool {
        self.policy.hard.unwrap_or_default().fits(totals)
    }

    /// Says that the provider's cache no longer has the window, for example because the last usage report shows it. The
    /// next window may then be cut for free (see [`Cold`](crate::Cold)).
    pub fn cache_is_cold(&mut self) {
        self.cold = true;
    }

    /// Returns the policy for a cold cache, if the policy has one and the cache is cold.
    pub(super) fn cold_policy(&self) -> Option<Policy> {
        let cold = self.policy.cold?;
        let lasts = Millis::try_from(cold.after).unwrap_or(Millis::MAX).saturating_mul(1_000);
        let paused = self.view.pause().is_some_and(|pause| pause > lasts);
        let is_cold = self.cold || paused || self.view.is_changed_for(self.settings.model.as_deref());
        is_cold.then(|| self.policy.when_cold(self.settings.model_window)).flatten()
    }

    /// Returns whether an exceeded limit has to wait: for a summary that is being made, or for the end of a tool loop
    /// with signed reasoning. Such a loop lasts for several calls, and measuring every group again for each of them
    /// would be in vain.
    pub(super) fn waits(&self) -> bool {
        self.fits_hard(&self.totals()) && (self.summary_pending || self.is_bound())
    }

    /// Returns whether signed reasoning of an open tool loop forbids any change, and the request does not ask the
    /// provider to drop it.
    pub(super) fn is_bound(&self) -> bool {
        !self.policy.drop_block && candidates::is_bound(&self.view, self.sizing())
    }

    pub(super) fn calibration(&self) -> Calibration {
        self.settings.model.as_deref().map(|model| self.view.calibration(model)).unwrap_or_default()
    }

    pub(super) fn sizing(&self) -> Sizing<'_> {
        Sizing {
            policy: &self.policy,
            counter: &*self.settings.counter,
            calibration: self.calibration(),
            demands: self.demands(),
            lost: None,
        }
    }

    pub(super) fn demands(&self) -> Demands {
        Demands { start: self.settings.dialect.quirks().start, ..Demands::default() }
    }
}

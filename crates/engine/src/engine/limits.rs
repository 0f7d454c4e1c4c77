//! Measures the window, and finds the limits of the policy that it exceeds.

use super::Engine;
use crate::candidates::{self, Sizing};
use crate::entry::SHORTEST_LIFETIME;
use crate::plan::{Demands, LOOSE, Occasion};
use crate::policy::{Cold, Limits, Mode, Pace, Policy, Tokens};
use crate::totals::{Excess, Totals};
use crate::view::View;
use lookback_tokens::Calibration;
use lookback_wire::size::Measure;

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
        // Finding the pinned groups is slow, so the head is measured only if it matters.
        let limits = [policy.limits.body, policy.hard.and_then(|hard| hard.body)];
        if limits.into_iter().flatten().any(|limit| totals.body > limit) {
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
        self.policy.limits.exceeded_by(&self.counted(view, &self.policy)).collect()
    }

    /// Returns whether the window would certainly stay unchanged if this many messages with this many bytes of JSON in
    /// total arrived: no limit would be exceeded. The messages are assumed to have one token per byte, because text never
    /// has more.
    ///
    /// `false` means only that this is not certain. Even after `true`, messages with pictures or files may exceed a
    /// limit, and the policy may shorten tool results as they arrive.
    ///
    /// ```
    /// use lookback_engine::{Engine, Settings, policy::{Limits, Policy}};
    ///
    /// let policy = Policy { limits: Limits::tokens(1_000), ..Policy::unlimited() };
    /// let engine = Engine::new(Settings::default().policy(policy));
    /// assert!(engine.has_room(2, 900));
    /// assert!(!engine.has_room(2, 1_100));
    /// ```
    pub fn has_room(&self, messages: u64, bytes: u64) -> bool {
        let Policy { cold, payback, mode, .. } = &self.policy;
        if *mode != Mode::Recorded || cold.is_some() || payback.is_some() || self.view.is_cut() || self.summary_pending
        {
            return false;
        }
        let mut totals = self.totals();
        let more = self.calibration().apply(bytes);
        totals.size.tokens = totals.size.tokens.saturating_add(more);
        totals.body = totals.body.saturating_add(more);
        totals.size.bytes = totals.size.bytes.saturating_add(bytes);
        for count in [&mut totals.size.messages, &mut totals.turns, &mut totals.rounds] {
            *count = count.saturating_add(messages);
        }
        self.policy.limits.fits(&totals) && self.fits_hard(&totals)
    }

    /// Returns the policy and the demands of a compaction that is due now, if a limit is exceeded.
    pub(super) fn due(&self) -> Option<(Policy, Demands)> {
        match self.occasion() {
            Some((policy, occasion)) => Some((policy, Demands { occasion: Some(occasion), ..self.demands() })),
            None => self.exceeds_limits_of(&self.policy).then(|| (self.policy.clone(), self.demands())),
        }
    }

    /// Returns whether the window exceeds a limit of a policy that has to be checked now.
    fn exceeds_limits_of(&self, policy: &Policy) -> bool {
        let totals = self.counted(&self.view, policy);
        let due = match self.policy.pace {
            Pace::Call => true,
            // Also between turns, because it must not be looser than `Pace::Turn`.
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

    /// Reports that the provider's cache no longer has the window, for example because the last usage report shows it.
    /// Cutting the next window is then free (see [`Cold`](crate::policy::Cold)).
    pub fn cache_is_cold(&mut self) {
        self.reported_cold = true;
    }

    /// Returns the occasion for an early compaction and the policy with its lower limits, if the window exceeds them.
    fn occasion(&self) -> Option<(Policy, Occasion)> {
        let window = self.settings.model_window;
        let cold = || self.cold().and_then(|occasion| Some((self.policy.when_cold(window)?, occasion)));
        let exceeds = |(policy, _): &(Policy, Occasion)| self.exceeds_limits_of(policy);
        cold().filter(exceeds).or_else(|| self.repaid().filter(exceeds))
    }

    /// Returns why the provider's cache does not have the window, if it is cold and the policy has limits for that.
    fn cold(&self) -> Option<Occasion> {
        let lasts = self.cache_lifetime(self.policy.cold?).saturating_mul(1_000);
        let millis = self.view.pause().and_then(|pause| u64::try_from(pause).ok());
        let is_new = |model: &str| self.view.is_new_to(model);
        if let Some(millis) = millis.filter(|millis| *millis > lasts) {
            Some(Occasion::Pause { millis })
        } else if self.view.has_new_preamble() {
            Some(Occasion::Preamble)
        } else if self.settings.model.as_deref().is_some_and(is_new) {
            Some(Occasion::Model)
        } else {
            self.reported_cold.then_some(Occasion::Told)
        }
    }

    /// Returns the lifetime of the provider's cache, in seconds.
    fn cache_lifetime(&self, cold: Cold) -> u64 {
        /// Providers whose cache lasts longer than five minutes keep it for up to an hour, or much longer.
        const HOUR: u64 = 3_600;
        let known = self.settings.cache_lifetime.unwrap_or(SHORTEST_LIFETIME.unsigned_abs() / 1_000);
        let shown = if self.view.cache_outlasted_pause() { HOUR } else { 0 };
        cold.after.unwrap_or(known.max(shown))
    }

    /// Returns the policy that applies, and the figures, once the calls since the last cut have read as many tokens
    /// beyond the target as a cut costs.
    fn repaid(&self) -> Option<(Policy, Occasion)> {
        let payback = self.policy.payback?;
        let policy = self.policy.when_repaid(self.settings.model_window)?;
        let target = policy.target.unwrap_or(policy.limits);
        let body = target.get(Measure::Body).or(policy.limits.body);
        let target = body.or_else(|| target.get(Measure::Tokens)).or_else(|| policy.limits.get(Measure::Tokens))?;
        let price = payback.price(target);
        let beyond = |kept: u64| self.calibration().apply(self.view.reading().beyond(kept));
        // The head is measured only if it matters. The tokens of `Reading` do not include the preamble.
        let preamble = self.sizing().corrected(self.view.preamble_size()).tokens;
        let head = || candidates::head(&self.view, self.sizing()).saturating_sub(preamble);
        let read = beyond(target);
        let read = if body.is_some() && read >= price { beyond(target.saturating_add(head())) } else { read };
        (read >= price).then_some((policy, Occasion::Repaid { read, price }))
    }

    /// Returns whether an exceeded limit has to wait for a summary that is being made, or until more follows the signed
    /// reasoning of the open tool loop. Such a loop lasts for several calls, and measuring every group at each of them
    /// would be wasted.
    pub(super) fn waits(&self) -> bool {
        self.fits_hard(&self.totals()) && (self.summary_pending || (self.is_bound() && !self.may_cut_after_bound()))
    }

    /// Returns whether signed reasoning of an open tool loop forbids a change of the window's beginning, and the request
    /// does not ask the provider to drop it.
    pub(super) fn is_bound(&self) -> bool {
        self.bound() > 0
    }

    /// Returns the number of groups at the beginning of the window that may not change.
    pub(super) fn bound(&self) -> usize {
        if self.policy.drop_block { 0 } else { candidates::bound(&self.view, self.sizing()) }
    }

    /// Returns whether so much follows the groups that may not change that a plan may cut it.
    fn may_cut_after_bound(&self) -> bool {
        let after = self.view.groups().get(self.bound()..).unwrap_or_default();
        let size = self.sizing().corrected(after.iter().map(|group| group.size).sum());
        let rounds = after.len() as u64;
        let totals = Totals { size, turns: rounds, rounds, body: size.tokens };
        let limits = self.occasion().map_or(self.policy.limits, |(policy, _)| policy.limits);
        Measure::ALL
            .into_iter()
            .any(|measure| limits.get(measure).is_some_and(|limit| totals.get(measure) > limit / LOOSE))
    }

    pub(super) fn calibration(&self) -> Calibration {
        let reported = |model| self.view.calibrations().find(|(reported, _)| *reported == model);
        match self.settings.model.as_deref() {
            Some(model) => reported(model).map_or(self.settings.calibration, |(_, calibration)| calibration),
            None => Calibration::default(),
        }
    }

    pub(super) fn sizing(&self) -> Sizing<'_> {
        Sizing {
            policy: &self.policy,
            counter: &*self.settings.counter,
            calibration: self.calibration(),
            demands: self.demands(),
            kept: None,
            anew: None,
        }
    }

    pub(super) fn demands(&self) -> Demands {
        Demands { start: self.settings.dialect.quirks().start, drops: self.drops, ..Demands::default() }
    }
}

//! Tightening: combines two policies into one whose windows meet both.

use super::{Cold, Keep, Limits, Mode, Pace, Payback, Policy, Tokens};
use crate::policy::Caps;
use lookback_tokens::cut::{Truncation, Unit};
use lookback_wire::size::Measure;

impl Policy {
    /// Returns this policy, tightened by another. The result has the smaller of each limit, the lower target, the
    /// stricter start and the shorter cap on arriving results, and it keeps everything that either policy keeps.
    ///
    /// The stages are those of `by`, if it has any. (If `self` records nothing and `by` summarizes, the stages are
    /// those of `self`.) Everything else is taken from `self`. `window` is the model's context window in tokens. It is
    /// needed to compare a share with a count.
    ///
    /// The pace comes from the policy that has limits. If both have limits, the more frequent pace wins. A share of the
    /// context window does not count as a limit here, because it is checked before every call.
    ///
    /// ```
    /// use lookback_engine::policy::{Limits, Policy};
    ///
    /// let target = Some(Limits::tokens(32_000));
    /// let wide = Policy { limits: Limits::tokens(64_000), target, ..Policy::unlimited() };
    /// let narrow = Policy { limits: Limits::messages(20), ..Policy::unlimited() };
    /// let both = wide.tightened(&narrow, None);
    /// assert_eq!(both.limits, Limits { messages: Some(20), ..wide.limits });
    /// assert_eq!(both.tightened(&narrow, None), both);
    /// ```
    #[must_use]
    pub fn tightened(&self, by: &Policy, window: Option<u64>) -> Policy {
        let limits = self.limits.least(&by.limits, window);
        // A policy without a target compacts to its limits.
        let reach = |policy: &Policy| policy.target.unwrap_or(policy.limits);
        let target = (self.target.is_some() || by.target.is_some())
            .then(|| reach(self).least(&reach(by), window).least(&limits, window));
        // Without a hard limit, the model's context window applies.
        let full = Limits { tokens: Some(Tokens::Share(1.0)), ..Limits::default() };
        let hard = (self.hard.is_some() || by.hard.is_some())
            .then(|| self.hard.unwrap_or(full).least(&by.hard.unwrap_or(full), window));
        // A summary has to be recorded.
        let keeps_stages = by.stages.is_empty() || (self.mode == Mode::OnRead && by.summary().is_some());
        Policy {
            limits,
            target,
            cold: colder(self.cold, by.cold, window),
            payback: sooner(self.payback, by.payback, window),
            hard,
            keep: Keep {
                first: self.keep.first.max(by.keep.first),
                last: self.keep.last.max(by.keep.last),
                task: self.keep.task || by.keep.task,
                people: self.keep.people.max(by.keep.people),
                work: self.keep.work || by.keep.work,
                system: self.keep.system || by.keep.system,
            },
            start: self.start.max(by.start),
            arrival: shorter(self.arrival.as_ref(), by.arrival.as_ref()).cloned(),
            caps: tighter(self.caps, by.caps),
            repeats: self.repeats.or(by.repeats),
            index: self.index.or(by.index),
            stages: if keeps_stages { self.stages.clone() } else { by.stages.clone() },
            pace: pace(self, by),
            ..self.clone()
        }
    }
}

impl Policy {
    /// Returns the policy that applies if the provider's cache no longer has the window. `window` is the model's
    /// context window in tokens.
    pub(crate) fn when_cold(&self, window: Option<u64>) -> Option<Policy> {
        self.cold.map(|cold| self.lowered(&cold.limits, &cold.target, window))
    }

    /// Returns the policy that applies once a compaction is repaid. `window` is the model's context window in tokens.
    pub(crate) fn when_repaid(&self, window: Option<u64>) -> Option<Policy> {
        self.payback.map(|payback| self.lowered(&payback.limits, &Limits::default(), window))
    }

    fn lowered(&self, limits: &Limits, target: &Limits, window: Option<u64>) -> Policy {
        let limits = self.limits.least(limits, window);
        let target = self.target.unwrap_or(self.limits).least(target, window).least(&limits, window);
        Policy { limits, target: Some(target), ..self.clone() }
    }
}

/// Returns the payback that comes sooner.
fn sooner(one: Option<Payback>, other: Option<Payback>, window: Option<u64>) -> Option<Payback> {
    match (one, other) {
        (Some(one), Some(other)) => {
            Some(Payback { write: one.write.min(other.write), limits: one.limits.least(&other.limits, window) })
        }
        (one, other) => one.or(other),
    }
}

/// Returns the smaller of each limit for a cold cache.
fn colder(one: Option<Cold>, other: Option<Cold>, window: Option<u64>) -> Option<Cold> {
    let both = match (one, other) {
        (Some(one), Some(other)) => Cold {
            after: one.after.into_iter().chain(other.after).min(),
            limits: one.limits.least(&other.limits, window),
            target: one.target.least(&other.target, window),
        },
        (one, other) => one.or(other)?,
    };
    Some(Cold { target: both.target.no_higher_than(&both.limits, window), ..both })
}

impl Limits {
    /// Returns these limits, each lowered to the other's limit if that is lower.
    fn no_higher_than(&self, other: &Limits, window: Option<u64>) -> Limits {
        let least = self.least(other, window);
        Limits {
            tokens: self.tokens.and(least.tokens),
            body: self.body.and(least.body),
            messages: self.messages.and(least.messages),
            turns: self.turns.and(least.turns),
            rounds: self.rounds.and(least.rounds),
            bytes: self.bytes.and(least.bytes),
            media: self.media.and(least.media),
        }
    }

    /// Returns the smaller of each limit.
    fn least(&self, other: &Limits, window: Option<u64>) -> Limits {
        let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let count = |limits: &Limits| match limits.for_window(window).tokens {
            Some(Tokens::Count(count)) => count,
            // A share of an unknown context window does not apply.
            Some(Tokens::Share(_)) | None => u64::MAX,
        };
        let tokens = match (self.tokens, other.tokens) {
            (Some(Tokens::Share(one)), Some(Tokens::Share(other))) => Some(Tokens::Share(one.min(other))),
            (Some(_), Some(_)) if count(other) < count(self) => other.tokens,
            (own, other) => own.or(other),
        };
        Limits {
            tokens,
            body: least(self.body, other.body),
            messages: least(self.messages, other.messages),
            turns: least(self.turns, other.turns),
            rounds: least(self.rounds, other.rounds),
            bytes: least(self.bytes, other.bytes),
            media: least(self.media, other.media),
        }
    }
}

/// Returns the cap that keeps less. A token counts as about four characters.
fn shorter<'a>(one: Option<&'a Truncation>, other: Option<&'a Truncation>) -> Option<&'a Truncation> {
    let length = |cap: &Truncation| {
        let kept = cap.head.saturating_add(cap.tail);
        if cap.unit == Unit::Tokens { kept.saturating_mul(4) } else { kept }
    };
    match (one, other) {
        (Some(one), Some(other)) => Some(if length(other) < length(one) { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// Returns the smaller of each cap.
fn tighter(one: Option<Caps>, other: Option<Caps>) -> Option<Caps> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Caps {
            file: one.file.min(other.file),
            other: one.other.min(other.other),
            names: one.names.min(other.names),
            numbers: one.numbers && other.numbers,
            without_recall: one.without_recall.min(other.without_recall),
        }),
        (one, other) => one.or(other),
    }
}

/// Returns the pace of two combined policies. The pace of a policy matters only if it has limits that wait for it.
fn pace(one: &Policy, by: &Policy) -> Pace {
    // A share of the context window waits for no pace. It has no count, so `get` does not return it.
    let waits = |policy: &Policy| Measure::ALL.into_iter().any(|measure| policy.limits.get(measure).is_some());
    match (waits(one), waits(by)) {
        (_, false) => one.pace,
        (false, true) => by.pace,
        (true, true) if rank(by.pace) < rank(one.pace) => by.pace,
        (true, true) => one.pace,
    }
}

/// Ranks paces: the lower the rank, the more often the limits are checked.
fn rank(pace: Pace) -> u64 {
    match pace {
        Pace::Call => 0,
        Pace::Calls(calls) => calls.min(u64::MAX - 1),
        Pace::Turn => u64::MAX,
    }
}

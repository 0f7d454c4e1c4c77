//! Two policies as one: a window that fits it fits both.

use super::{Keep, Limits, Measure, Mode, Pace, Policy, Tokens};
use crate::cut::{Truncation, Unit};

impl Policy {
    /// This policy, but as narrow as `by` where that is narrower: the smaller of each limit, the nearer target, the shorter cap, and what
    /// either keeps. The ways to make a window smaller are those of `by`, where it has any. All else stays. `window` is that of the model
    /// in tokens, by which a share is compared with a count.
    ///
    /// The pace is that of the policy whose limits it rules; if both have such limits, it is the one at which they are looked at oftener.
    /// A share of the model's window is looked at before every call, so it has no pace.
    ///
    /// ```
    /// use lookback_core::{Limits, Policy};
    ///
    /// let wide = Policy { limits: Limits::tokens(64_000), target: Some(Limits::tokens(32_000)), ..Policy::default() };
    /// let narrow = Policy { limits: Limits::messages(20), ..Policy::default() };
    /// let both = wide.tightened(&narrow, None);
    /// assert_eq!(both.limits, Limits { messages: Some(20), ..wide.limits });
    /// assert_eq!(both.tightened(&narrow, None), both);
    /// ```
    #[must_use]
    pub fn tightened(&self, by: &Policy, window: Option<u64>) -> Policy {
        let limits = self.limits.least(&by.limits, window);
        // Without a target a policy goes down to its limits.
        let reach = |policy: &Policy| policy.target.unwrap_or(policy.limits);
        let target = (self.target.is_some() || by.target.is_some())
            .then(|| reach(self).least(&reach(by), window).least(&limits, window));
        // Without a hard limit there is the model's own.
        let full = Limits { tokens: Some(Tokens::Share(1.0)), ..Limits::default() };
        let hard = (self.hard.is_some() || by.hard.is_some())
            .then(|| self.hard.unwrap_or(full).least(&by.hard.unwrap_or(full), window));
        // A summary needs a log that is written.
        let keeps_stages = by.stages.is_empty() || (self.mode == Mode::OnRead && by.summary().is_some());
        Policy {
            limits,
            target,
            hard,
            keep: Keep {
                first: self.keep.first.max(by.keep.first),
                last: self.keep.last.max(by.keep.last),
                task: self.keep.task || by.keep.task,
                system: self.keep.system || by.keep.system,
            },
            start: self.start.max(by.start),
            arrival: shorter(self.arrival.as_ref(), by.arrival.as_ref()).cloned(),
            stages: if keeps_stages { self.stages.clone() } else { by.stages.clone() },
            pace: pace(self, by),
            ..self.clone()
        }
    }
}

impl Limits {
    /// The smaller of each limit.
    fn least(&self, other: &Limits, window: Option<u64>) -> Limits {
        let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let count = |limits: &Limits| match limits.for_window(window).tokens {
            Some(Tokens::Count(count)) => count,
            // A share of a window that nobody knows does not bind.
            Some(Tokens::Share(_)) | None => u64::MAX,
        };
        let tokens = match (self.tokens, other.tokens) {
            (Some(Tokens::Share(one)), Some(Tokens::Share(other))) => Some(Tokens::Share(one.min(other))),
            (Some(_), Some(_)) if count(other) < count(self) => other.tokens,
            (own, other) => own.or(other),
        };
        Limits {
            tokens,
            messages: least(self.messages, other.messages),
            turns: least(self.turns, other.turns),
            rounds: least(self.rounds, other.rounds),
            bytes: least(self.bytes, other.bytes),
            media: least(self.media, other.media),
        }
    }
}

/// The cap that leaves less: of a token and of four characters, about the same.
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

/// A policy without limits that wait for its pace says nothing of when limits are looked at.
fn pace(one: &Policy, by: &Policy) -> Pace {
    // A share of the model's window is no count, and waits for nothing.
    let waits = |policy: &Policy| Measure::ALL.into_iter().any(|measure| policy.limits.get(measure).is_some());
    match (waits(one), waits(by)) {
        (_, false) => one.pace,
        (false, true) => by.pace,
        (true, true) if rank(by.pace) < rank(one.pace) => by.pace,
        (true, true) => one.pace,
    }
}

/// The less, the oftener the limits are looked at.
fn rank(pace: Pace) -> u64 {
    match pace {
        Pace::Call => 0,
        Pace::Calls(calls) => calls.min(u64::MAX - 1),
        Pace::Turn => u64::MAX,
    }
}

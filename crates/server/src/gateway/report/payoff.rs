//! Whether windows pay: the cost of sessions with a window, by the provider's reports, compared with held-out sessions.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use lookback_replay::receipt::ratio;
use lookback_store::Tenant;
use serde::Serialize;
use utoipa::ToSchema;
use xxhash_rust::xxh3::xxh3_64;

/// The arms of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arm {
    /// Sessions that are sent with their window.
    Windowed,
    /// Sessions that are left alone.
    HeldOut,
}

impl Arm {
    const ALL: [Arm; 2] = [Arm::Windowed, Arm::HeldOut];

    /// Returns the arm of a session, if this share of all sessions is held out. It depends only on the name and the
    /// share.
    pub(crate) fn for_session(session: &str, share: f64) -> Arm {
        #[allow(clippy::cast_precision_loss, reason = "a share needs no more than 52 bits")]
        let place = xxh3_64(session.as_bytes()) as f64 / u64::MAX as f64;
        if place < share { Arm::HeldOut } else { Arm::Windowed }
    }

    fn name(self) -> &'static str {
        match self {
            Arm::Windowed => "windowed",
            Arm::HeldOut => "held_out",
        }
    }
}

/// The cost of a session since the gateway started, in each arm, because the share may change while the gateway serves.
pub(crate) type Spending = [Spent; 2];

/// The cost of a session in one arm.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) calls: f64,
    /// Calls with a new message from a person.
    pub(crate) turns: f64,
    pub(crate) dollars: f64,
}

/// The sums of both arms, by tenant.
#[derive(Debug, Default)]
pub(crate) struct Payoff {
    /// By tenant.
    arms: Mutex<HashMap<Option<Tenant>, [Sums; 2]>>,
}

/// Sums over the sessions of an arm. A session is one observation, because its calls are similar.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) sessions: f64,
    pub(crate) all: Spent,
    /// Answers of unknown cost: no usage was reported, or the model has no price.
    pub(crate) unpriced: u64,
    calls_squared: f64,
    turns_squared: f64,
    dollars_squared: f64,
    dollars_by_calls: f64,
    dollars_by_turns: f64,
}

/// A figure of both arms.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// By the name of the arm.
    pub(crate) values: [(&'static str, f64); 2],
}

/// A ratio of two sums over sessions, with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) error: f64,
    pub(crate) sessions: f64,
}

/// The fewest sessions in each arm for a verdict. With fewer, the error itself is a guess.
const FEWEST: f64 = 10.0;

/// The verdict on windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Sessions with a window cost less.
    Pays,
    /// Sessions with a window cost more.
    DoesNotPay,
    /// The difference is less than twice its standard error, or an arm has fewer than ten sessions.
    Unclear,
}

impl Verdict {
    /// Compares the cost of sessions with a window and of held-out sessions.
    pub(crate) fn from_ratios(windowed: Ratio, held_out: Ratio) -> Verdict {
        let (difference, error) = (windowed.value - held_out.value, windowed.error.hypot(held_out.error));
        // A comparison with NaN is false, and so ends in `Unclear`.
        if windowed.sessions.min(held_out.sessions) < FEWEST {
            Verdict::Unclear
        } else if difference < -2.0 * error {
            Verdict::Pays
        } else if difference > 2.0 * error {
            Verdict::DoesNotPay
        } else {
            Verdict::Unclear
        }
    }

    /// Returns the verdict as a number: 1 if windows pay, -1 if they do not.
    fn number(self) -> f64 {
        match self {
            Verdict::Pays => 1.0,
            Verdict::DoesNotPay => -1.0,
            Verdict::Unclear => 0.0,
        }
    }
}

impl Payoff {
    /// Counts an answer of a session. If its cost is unknown, counts only that.
    pub(crate) fn count(
        &self,
        tenant: Option<&Tenant>,
        arm: Arm,
        session: &mut Spending,
        is_turn: bool,
        dollars: Option<f64>,
    ) {
        let mut arms = self.arms.lock().unwrap_or_else(PoisonError::into_inner);
        let of_tenant = arms.entry(tenant.cloned()).or_default();
        let ([windowed, held_out], [as_windowed, as_held_out]) = (of_tenant, session);
        let (sums, session) = match arm {
            Arm::Windowed => (windowed, as_windowed),
            Arm::HeldOut => (held_out, as_held_out),
        };
        let Some(dollars) = dollars else {
            sums.unpriced += 1;
            return;
        };
        sums.add(session, -1.0);
        if session.calls == 0.0 {
            sums.sessions += 1.0;
        }
        session.calls += 1.0;
        session.turns += f64::from(u8::from(is_turn));
        session.dollars += dollars;
        sums.add(session, 1.0);
    }

    /// Returns the sums of both arms for a tenant: with a window, and held out.
    pub(crate) fn sums_for(&self, tenant: Option<&Tenant>) -> [Sums; 2] {
        let arms = self.arms.lock().unwrap_or_else(PoisonError::into_inner);
        arms.get(&tenant.cloned()).copied().unwrap_or_default()
    }

    /// Returns the sums of both arms for all tenants.
    fn all(&self) -> [Sums; 2] {
        let arms = self.arms.lock().unwrap_or_else(PoisonError::into_inner);
        arms.values().fold(<[Sums; 2]>::default(), |[windowed, held_out], [more, left]| {
            [windowed.plus(more), held_out.plus(left)]
        })
    }

    /// Returns the verdicts over all tenants, per call and per turn.
    pub(crate) fn verdicts(&self) -> [(&'static str, f64); 2] {
        let [windowed, held_out] = self.all();
        let of = |ratio: fn(&Sums) -> Ratio| Verdict::from_ratios(ratio(&windowed), ratio(&held_out)).number();
        [("call", of(Sums::per_call)), ("turn", of(Sums::per_turn))]
    }

    /// Returns the figures for the metrics.
    pub(crate) fn figures(&self) -> [Figure; 9] {
        let arms = self.all();
        let each = |figure: fn(&Sums) -> f64| {
            let [windowed, held_out] = &arms;
            let [one, other] = Arm::ALL.map(Arm::name);
            [(one, figure(windowed)), (other, figure(held_out))]
        };
        #[allow(clippy::cast_precision_loss, reason = "a count of answers")]
        let unpriced = each(|sums| sums.unpriced as f64);
        let figure = |name, help, values| Figure { name, help, values };
        [
            figure("payoff_sessions", "Sessions with an answer whose cost is known.", each(|sums| sums.sessions)),
            figure("payoff_calls", "Answers whose cost is known.", each(|sums| sums.all.calls)),
            figure(
                "payoff_turns",
                "Answers to a new message from a person, if their cost is known.",
                each(|sums| sums.all.turns),
            ),
            figure(
                "payoff_unpriced_calls",
                "Answers without a report of usage, or of a model without a price.",
                unpriced,
            ),
            figure("payoff_dollars", "Cost of all answers, by the provider's reports.", each(|sums| sums.all.dollars)),
            figure("payoff_dollars_per_call", "Mean cost of a call.", each(|sums| sums.per_call().value)),
            figure(
                "payoff_dollars_per_call_error",
                "Standard error of the mean cost of a call.",
                each(|sums| sums.per_call().error),
            ),
            figure("payoff_dollars_per_turn", "Mean cost of a turn.", each(|sums| sums.per_turn().value)),
            figure(
                "payoff_dollars_per_turn_error",
                "Standard error of the mean cost of a turn.",
                each(|sums| sums.per_turn().error),
            ),
        ]
    }
}

impl Sums {
    /// Returns the sums over the sessions of both.
    fn plus(self, other: &Sums) -> Sums {
        Sums {
            sessions: self.sessions + other.sessions,
            all: Spent {
                calls: self.all.calls + other.all.calls,
                turns: self.all.turns + other.all.turns,
                dollars: self.all.dollars + other.all.dollars,
            },
            unpriced: self.unpriced + other.unpriced,
            calls_squared: self.calls_squared + other.calls_squared,
            turns_squared: self.turns_squared + other.turns_squared,
            dollars_squared: self.dollars_squared + other.dollars_squared,
            dollars_by_calls: self.dollars_by_calls + other.dollars_by_calls,
            dollars_by_turns: self.dollars_by_turns + other.dollars_by_turns,
        }
    }

    /// Adds a session's spending, times the sign.
    fn add(&mut self, session: &Spent, sign: f64) {
        let Spent { calls, turns, dollars } = *session;
        self.all.calls += sign * calls;
        self.all.turns += sign * turns;
        self.all.dollars += sign * dollars;
        self.calls_squared += sign * calls * calls;
        self.turns_squared += sign * turns * turns;
        self.dollars_squared += sign * dollars * dollars;
        self.dollars_by_calls += sign * dollars * calls;
        self.dollars_by_turns += sign * dollars * turns;
    }

    pub(crate) fn per_call(&self) -> Ratio {
        self.ratio(self.all.calls, self.calls_squared, self.dollars_by_calls)
    }

    pub(crate) fn per_turn(&self) -> Ratio {
        self.ratio(self.all.turns, self.turns_squared, self.dollars_by_turns)
    }

    fn ratio(&self, divisor: f64, squared: f64, product: f64) -> Ratio {
        let squares = [self.dollars_squared, product, squared];
        let (value, error) = ratio(self.sessions, [self.all.dollars, divisor], squares);
        Ratio { value, error, sessions: self.sessions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_sessions_is_held_out_and_always_the_same() {
        let arms =
            |share| (0..10_000).filter(|at| Arm::for_session(&format!("chat/{at}"), share) == Arm::HeldOut).count();
        assert_eq!((arms(0.0), arms(1.0)), (0, 10_000));
        assert!((900..1100).contains(&arms(0.1)), "{}", arms(0.1));
        let held: Vec<_> = (0..100).map(|at| Arm::for_session(&format!("chat/{at}"), 0.1)).collect();
        let more: Vec<_> = (0..100).map(|at| Arm::for_session(&format!("chat/{at}"), 0.5)).collect();
        let both = held.iter().zip(more).all(|(held, more)| *held == Arm::Windowed || more == Arm::HeldOut);
        assert!(both, "who was held out stays so when the share grows");
    }

    #[test]
    fn nothing_is_said_of_windows_before_the_difference_is_clear() {
        let ratio = |value, error| Ratio { value, error, sessions: 10.0 };
        assert_eq!(Verdict::from_ratios(ratio(1.0, 0.1), ratio(2.0, 0.1)), Verdict::Pays);
        assert_eq!(Verdict::from_ratios(ratio(2.0, 0.1), ratio(1.0, 0.1)), Verdict::DoesNotPay);
        assert_eq!(Verdict::from_ratios(ratio(1.0, 0.4), ratio(2.0, 0.4)), Verdict::Unclear);
        assert_eq!(
            Verdict::from_ratios(ratio(1.0, 0.1), ratio(f64::NAN, f64::NAN)),
            Verdict::Unclear,
            "nobody is held out"
        );
        assert_eq!(Verdict::from_ratios(ratio(1.0, f64::NAN), ratio(2.0, 0.1)), Verdict::Unclear, "one session alone");
        let few = Ratio { sessions: 9.0, ..ratio(2.0, 0.1) };
        assert_eq!(Verdict::from_ratios(ratio(1.0, 0.1), few), Verdict::Unclear, "too few to say how much they differ");
    }

    #[test]
    fn the_error_is_that_of_a_ratio_over_sessions() {
        let payoff = Payoff::default();
        // Sessions of 1 to 4 calls, at a cent or two for each.
        let sessions: [&[f64]; 4] = [&[0.01], &[0.02, 0.02], &[0.01, 0.02, 0.01], &[0.02; 4]];
        for costs in sessions {
            let mut spent = Spending::default();
            for cost in costs {
                payoff.count(None, Arm::Windowed, &mut spent, true, Some(*cost));
            }
        }
        payoff.count(None, Arm::HeldOut, &mut Spending::default(), true, None);
        let arms = payoff.all();
        let ratio = arms[0].per_call();
        let value = 0.17 / 10.0;
        let residuals: f64 =
            sessions.iter().map(|costs| (costs.iter().sum::<f64>() - value * costs.len() as f64).powi(2)).sum();
        let error = (residuals / 3.0).sqrt() / (2.5 * 2.0);
        assert!((ratio.value - value).abs() < 1e-12 && (ratio.error - error).abs() < 1e-12, "{ratio:?} {error}");
        assert_eq!((arms[0].sessions, arms[1].sessions, arms[1].unpriced), (4.0, 0.0, 1));
        assert!(arms[1].per_call().value.is_nan(), "nothing is known yet");
    }
}

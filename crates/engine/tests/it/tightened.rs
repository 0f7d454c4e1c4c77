//! Tightens generated policies: a window that fits the result fits both policies.

#![allow(clippy::cast_possible_truncation)]

use crate::common::policy;
use lookback_engine::policy::{Limits, Mode, Pace, Stage};
use lookback_engine::policy::{Policy, Tokens};
use lookback_wire::size::Measure;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// Returns the target that a policy compacts to.
fn reach(policy: &Policy) -> Limits {
    policy.target.unwrap_or(policy.limits)
}

proptest! {
    #![proptest_config(Config { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_tightened_policy_is_as_narrow_as_both(
        one in policy(),
        other in policy(),
        window in prop_oneof![Just(None), (1_000_u64..200_000).prop_map(Some)],
    ) {
        let both = one.tightened(&other, window);
        let [resolved, first, second] = [&both, &one, &other].map(|policy| policy.for_window(window, 0));
        for each in [first, second] {
            for measure in Measure::ALL {
                let within = |narrow: Limits, wide: Limits| {
                    wide.get(measure).is_none_or(|wide| narrow.get(measure).is_some_and(|narrow| narrow <= wide))
                };
                prop_assert!(within(resolved.limits, each.limits), "{measure}");
                prop_assert!(within(reach(&resolved), reach(&each)), "{measure}");
                prop_assert!(within(resolved.hard.unwrap_or_default(), each.hard.unwrap_or_default()), "{measure}");
            }
            prop_assert!(both.keep.first >= each.keep.first && both.keep.last >= each.keep.last);
            prop_assert!(both.keep.task || !each.keep.task);
            prop_assert!(both.keep.system || !each.keep.system);
            prop_assert!(both.start >= each.start);
            prop_assert!(both.arrival.is_some() || each.arrival.is_none());
        }
        prop_assert_eq!(&both.tightened(&other, window), &both);
        if one.faults().is_empty() && other.faults().is_empty() {
            prop_assert_eq!(both.faults(), vec![]);
        }
    }
}

#[test]
fn a_share_and_a_count_are_compared_by_the_models_window() {
    let share =
        Policy { limits: Limits { tokens: Some(Tokens::Share(0.5)), ..Limits::default() }, ..Policy::unlimited() };
    let count = Policy { limits: Limits::tokens(60_000), ..Policy::unlimited() };
    let tokens = |window| share.tightened(&count, window).limits.tokens;
    assert_eq!(tokens(Some(100_000)), Some(Tokens::Share(0.5)));
    assert_eq!(tokens(Some(200_000)), Some(Tokens::Count(60_000)));
    assert_eq!(tokens(None), Some(Tokens::Count(60_000)));
}

#[test]
fn what_is_not_of_how_much_stays_that_of_the_policy() {
    let on_read = Policy { mode: Mode::OnRead, pace: Pace::Turn, ..Policy::unlimited() };
    let summary = Policy { stages: vec![Stage::Summarize(Default::default())], ..Policy::unlimited() };
    let both = on_read.tightened(&summary, None);
    assert_eq!((both.mode, both.pace), (Mode::OnRead, Pace::Turn));
    assert_eq!(both.stages, [Stage::Drop], "a summary needs a log that is written");
    let none = Policy { stages: Vec::new(), ..Policy::unlimited() };
    assert_eq!(summary.tightened(&none, None).stages, summary.stages);
}

#[test]
fn the_pace_of_a_policy_without_limits_does_not_hurry_those_of_another() {
    let pace = |one: Limits, first: Pace, other: Limits, second: Pace| {
        let policy = |limits, pace| Policy { limits, pace, ..Policy::unlimited() };
        policy(one, first).tightened(&policy(other, second), Some(100_000)).pace
    };
    let (none, some) = (Limits::default(), Limits::messages(4));
    let share = Limits { tokens: Some(Tokens::Share(0.7)), ..none };
    for slow in [Pace::Turn, Pace::Calls(3)] {
        assert_eq!(pace(none, Pace::Call, some, slow), slow);
        assert_eq!(pace(some, slow, none, Pace::Call), slow);
        // A share is checked before every call, whatever the pace.
        assert_eq!(pace(share, Pace::Call, some, slow), slow);
        // If both policies have limits, the more frequent pace wins.
        assert_eq!(pace(some, Pace::Call, some, slow), Pace::Call);
        assert_eq!(pace(some, slow, some, Pace::Call), Pace::Call);
    }
}

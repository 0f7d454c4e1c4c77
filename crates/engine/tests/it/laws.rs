//! Checks the laws on generated histories, in each dialect, with policies of every kind.

#![allow(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]
#![allow(clippy::cast_possible_truncation)]

use crate::common::laws::{self, Found};
use crate::common::{Case, Run, case, groups, policy};
use lookback_engine::plan::plan;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// The cases are the same each time. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` give other cases.
fn config() -> Config {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    Config {
        cases: number("PROPTEST_CASES").map_or(256, |cases: u64| cases as u32),
        rng_seed: RngSeed::Fixed(number("PROPTEST_RNG_SEED").unwrap_or(7)),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    }
}

fn holds(case: &Case, law: impl Fn(&Run) -> Found) -> Result<(), TestCaseError> {
    law(&Run::from_case(case)).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nothing_is_lost(case in case()) {
        holds(&case, laws::nothing_is_lost)?;
    }

    #[test]
    fn what_is_left_out_is_shown_above(case in case()) {
        holds(&case, laws::what_is_left_out_is_shown_above)?;
    }

    #[test]
    fn no_request_is_invalid_whatever_the_history(case in case()) {
        holds(&case, laws::never_invalid)?;
    }

    #[test]
    fn repair_is_idempotent(case in case()) {
        holds(&case, laws::repair_is_idempotent)?;
    }

    #[test]
    fn a_late_result_takes_its_stand_ins_place(case in case()) {
        holds(&case, laws::a_late_result_takes_its_stand_ins_place)?;
    }

    #[test]
    fn a_window_fits_or_says_what_is_pinned(case in case()) {
        holds(&case, laws::a_window_fits_or_says_what_is_pinned)?;
    }

    #[test]
    fn requests_extend_each_other_between_compactions(case in case()) {
        holds(&case, laws::requests_extend_each_other)?;
    }

    #[test]
    fn a_kept_part_is_byte_identical(case in case()) {
        holds(&case, laws::a_kept_part_is_byte_identical)?;
    }

    #[test]
    fn what_encoding_does_is_told(case in case()) {
        holds(&case, laws::what_encoding_does_is_told)?;
    }

    #[test]
    fn what_is_pinned_is_never_dropped(case in case()) {
        holds(&case, laws::what_is_pinned_is_never_dropped)?;
    }

    #[test]
    fn a_compaction_makes_the_window_smaller_and_does_not_come_again_at_once(case in case()) {
        holds(&case, laws::a_compaction_makes_progress)?;
    }

    #[test]
    fn recovery_from_an_overflow_is_bounded_and_each_step_smaller(case in case()) {
        holds(&case, laws::recovery_from_overflow_is_bounded)?;
    }

    #[test]
    fn every_group_has_a_reason(case in case()) {
        holds(&case, laws::every_group_has_a_reason)?;
    }

    #[test]
    fn the_view_is_the_fold_of_the_log(case in case()) {
        holds(&case, |run| laws::the_view_is_the_fold_of_the_log(run, 1))?;
    }

    #[test]
    fn a_session_that_is_opened_again_goes_on_the_same(case in case()) {
        holds(&case, laws::a_session_that_is_opened_again_goes_on_the_same)?;
    }

    #[test]
    fn no_signed_block_is_sent_under_another_prefix(case in case()) {
        holds(&case, laws::no_signed_block_is_sent_under_another_prefix)?;
    }

    #[test]
    fn planning_never_panics(groups in groups(), policy in policy(), window in prop::option::of(any::<u64>())) {
        let plan = plan(&groups, &policy.for_window(window, 0));
        prop_assert_eq!(plan.decisions.len(), groups.len());
    }
}

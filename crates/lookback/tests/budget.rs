//! The budget of a run, by vectors.

mod vectors;

use lookback::middleware::{Budget, BudgetError};

#[test]
fn a_budget_speaks_once_and_ends_the_run_when_it_is_used_up() {
    vectors::run::hold("budget.json");
}

#[test]
fn a_share_that_is_none_is_refused() {
    for ratio in [f64::NAN, 0.0, -0.5, 1.01, f64::INFINITY] {
        assert!(matches!(Budget::reported(10).soft(ratio), Err(BudgetError { limit: "soft", .. })), "{ratio}");
        assert!(matches!(Budget::reported(10).hard(ratio), Err(BudgetError { limit: "hard", .. })), "{ratio}");
    }
    let message = Budget::reported(10).hard(1.5).unwrap_err().to_string();
    assert_eq!(message, "a budget's hard limit must be a share above 0 and at most 1, got 1.5");
}

//! The budget of a run: in tokens, against the vectors of `corpus/middleware/budget.json`, and in US dollars.

use crate::vectors;
use futures_lite::future::block_on;
use lookback_agent::{Budget, BudgetError, CallUsage, EndReason, Pipeline, Stopped};
use lookback_engine::Settings;
use lookback_replay::{
    prices::{Price, Prices},
    receipt::Receipt,
};
use lookback_session::Session;
use lookback_store::MemoryStore;
use lookback_wire::message::{Message, ToolCall};

#[test]
fn a_budget_speaks_once_and_ends_the_run_when_it_is_used_up() {
    vectors::run::hold("budget.json");
}

#[test]
fn a_share_that_is_none_is_refused() {
    for ratio in [f64::NAN, 0.0, -0.5, 1.01, f64::INFINITY] {
        assert!(matches!(Budget::reported(10).with_soft(ratio), Err(BudgetError { limit: "soft", .. })), "{ratio}");
        assert!(matches!(Budget::reported(10).with_hard(ratio), Err(BudgetError { limit: "hard", .. })), "{ratio}");
    }
    let message = Budget::reported(10).with_hard(1.5).unwrap_err().to_string();
    assert_eq!(message, "the hard limit of a budget must be greater than 0 and at most 1, got 1.5");
}

/// Plays a run of at most ten calls with a budget and reported usage. Returns the pipeline, and the messages and tokens
/// of each call.
async fn play(budget: Budget, usage: impl Fn(u64) -> Option<CallUsage>) -> (Pipeline, Vec<(String, u64)>) {
    let session = Session::open(MemoryStore::new(), "run", Settings::default()).await.unwrap();
    let mut run = Pipeline::new(session).with(budget).with_iterations(10);
    run.start(Message::user("Read every page.")).await.unwrap();
    let mut calls = Vec::new();
    while let Some(call) = run.next().await.unwrap() {
        calls.push((call.to_json().unwrap(), call.tokens));
        let number = call.iteration;
        let answer = Message::assistant_with_calls(
            "",
            [ToolCall::new(format!("c{number}"), "read", format!(r#"{{"page":{number}}}"#))],
        );
        for tool in run.answered(answer, usage(number)).await.unwrap() {
            run.tool(&tool, |_| async { Ok::<_, String>("a page") }).await.unwrap();
        }
    }
    (run, calls)
}

/// Returns the number of the first call whose messages contain these words.
fn first(calls: &[(String, u64)], words: &str) -> Option<usize> {
    calls.iter().position(|(sent, _)| sent.contains(words)).map(|index| index + 1)
}

#[test]
fn where_nothing_is_reported_what_was_sent_and_answered_is_counted() {
    block_on(async {
        let (run, calls) = play(Budget::reported(200), |_| None).await;
        let Some(Stopped::NoAnswer(EndReason::Budget { used, limit: 200 })) = run.stopped() else {
            unreachable!("{:?}", run.stopped())
        };
        let sent: u64 = calls.iter().rev().skip(1).map(|(_, tokens)| tokens).sum();
        assert!(*used > sent, "the answers are counted too: {used} of {sent}");
        assert!(calls.len() > 2);
    });
}

#[test]
fn calls_with_a_long_prompt_bring_little_where_little_is_new() {
    block_on(async {
        let little = "brought fewer than 500 new tokens each";
        let growing = |by: u64| move |number| Some(CallUsage::default().input(20_000 + by * number).output(20));
        let (_, calls) = play(Budget::reported(10_000_000), growing(50)).await;
        assert_eq!(first(&calls, little), Some(4));
        let (_, calls) = play(Budget::reported(10_000_000), growing(480)).await;
        assert_eq!((calls.len(), first(&calls, little)), (10, None));
    });
}

#[test]
fn what_was_used_before_counts_for_the_run_that_goes_on_and_not_for_the_next() {
    block_on(async {
        let usage = |_| Some(CallUsage::default().input(50).output(10));
        let (mut run, calls) = play(Budget::reported(1_000).with_used_before(900), usage).await;
        assert_eq!((calls.len(), first(&calls, "Token budget: 900 of 1000")), (3, Some(1)));
        assert_eq!(run.stopped(), Some(&Stopped::NoAnswer(EndReason::Budget { used: 1_020, limit: 1_000 })));
        run.start(Message::user("Read them again.")).await.unwrap();
        run.next().await.unwrap();
        run.answered(Message::assistant("I did."), usage(1)).await.unwrap();
        assert_eq!(run.stopped(), Some(&Stopped::Answered));
    });
}

/// Without a cache and a price for output: $0.30 for 100,000 tokens of input.
fn uncached() -> Price {
    Prices::builtin().find("uncached").unwrap().clone()
}

fn usage(_: u64) -> Option<CallUsage> {
    Some(CallUsage::default().input(100_000).output(50_000))
}

#[test]
fn a_budget_of_dollars_speaks_once_and_ends_the_run_when_it_is_spent() {
    block_on(async {
        let (run, calls) = play(Budget::cost(1.00, &uncached()), usage).await;
        let told = ["Cost budget: $0.9000 of $1.00 is spent (90 %).", "Cost budget: $1.20 of $1.00 is spent. This is"];
        assert_eq!((calls.len(), told.map(|words| first(&calls, words))), (5, [Some(4), Some(5)]));
        let reason = EndReason::Cost { spent: 1_200_000, limit: 1_000_000 };
        assert_eq!(reason.to_string(), "$1.20 of $1.00 is spent");
        assert_eq!(run.stopped(), Some(&Stopped::NoAnswer(reason)));
    });
}

#[test]
fn output_counts_where_its_price_is_known_and_what_is_not_reported_is_estimated() {
    block_on(async {
        let mut price = uncached();
        price.output = Some(10.0);
        let (run, calls) = play(Budget::cost(1.00, &price), usage).await;
        assert_eq!(calls.len(), 3);
        let reason = EndReason::Cost { spent: 1_600_000, limit: 1_000_000 };
        assert_eq!(run.stopped(), Some(&Stopped::NoAnswer(reason)));

        let (run, calls) = play(Budget::cost(0.0005, &uncached()), |_| None).await;
        assert!(matches!(run.stopped(), Some(Stopped::NoAnswer(EndReason::Cost { .. }))), "{:?}", run.stopped());
        assert!(calls.len() > 2);
        for nothing in [0.0, -1.0, f64::NAN] {
            let (run, _) = play(Budget::cost(nothing, &uncached()), usage).await;
            let reason = EndReason::Cost { spent: 0, limit: 0 };
            assert_eq!(run.stopped(), Some(&Stopped::NoAnswer(reason)), "{nothing}: it allows no call");
        }
    });
}

#[test]
fn the_budget_of_a_session_counts_what_its_runs_have_cost_before() {
    block_on(async {
        let mut before = Receipt::default();
        before.total.cost = 0.5;
        let budget = Budget::reported(0).with_session_cost(1.00, &uncached(), &before);
        let (mut run, calls) = play(budget, usage).await;
        assert_eq!((calls.len(), first(&calls, "Cost budget: $0.8000 of $1.00")), (3, Some(2)));
        run.start(Message::user("Read them again.")).await.unwrap();
        run.next().await.unwrap();
        run.answered(Message::assistant("I did."), usage(1)).await.unwrap();
        let reason = EndReason::Cost { spent: 1_400_000, limit: 1_000_000 };
        assert_eq!(run.stopped(), Some(&Stopped::LastAnswer(reason)));

        let (mut run, calls) = play(Budget::cost(0.70, &uncached()), usage).await;
        assert_eq!(calls.len(), 4, "each run has the whole budget");
        run.start(Message::user("Read them again.")).await.unwrap();
        run.next().await.unwrap();
        run.answered(Message::assistant("I did."), usage(1)).await.unwrap();
        assert_eq!(run.stopped(), Some(&Stopped::Answered));
    });
}

//! The receipt of a session: it equals the replay's report, it can be computed at any time, and its cost without a
//! window equals the cost of a session that leaves out nothing.

#![allow(clippy::disallowed_methods, reason = "a test may read the environment")]
#![allow(clippy::cast_possible_truncation)]

use std::ops::ControlFlow;

use crate::common::{Case, Run, case};
use futures_lite::future::block_on;
use lookback_engine::{
    Settings,
    policy::{Limits, Mode, Policy},
    transcript::Entry,
};
use lookback_presets as presets;
use lookback_recordings::Recording;
use lookback_replay::prices::{Price, Prices};
use lookback_replay::receipt::{PrefixBreak, Receipt};
use lookback_replay::replay::{ReplayedCall, Report, replay};
use lookback_session::Session;
use lookback_store::{Append, Record};
use lookback_store::{LogName, MemoryStore, Store, StoreError};
use lookback_wire::{
    dialect::{Dialect, Preamble},
    message::Message,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::value::RawValue;

fn price(name: &str) -> Price {
    Prices::builtin().find(name).unwrap().clone()
}

fn example() -> Recording {
    Recording::read(include_str!("../../../../examples/session.jsonl"), "session", None).unwrap().remove(0)
}

/// Replays a recording, and returns its report, and the store with its session. `None` if a window exceeds a hard
/// limit.
fn replayed(recording: &Recording, settings: &Settings, price: &Price) -> Option<(Report, MemoryStore)> {
    block_on(async {
        let mut on_call = |_: &ReplayedCall| ControlFlow::Continue(());
        let replay = replay(recording, settings.clone(), price, 0, &mut on_call).await.ok()?;
        let (report, store) = (replay.report.clone(), MemoryStore::new());
        replay.save(&store, &name()).await.unwrap();
        Some((report, store))
    })
}

fn name() -> LogName {
    "s".parse().unwrap()
}

fn receipt(store: &MemoryStore, settings: &Settings, price: &Price) -> Receipt {
    block_on(Receipt::load(store, &name(), &*settings.counter, price)).unwrap()
}

/// Returns a store with only the first records of a log.
fn first_records(store: &MemoryStore, records: u64) -> MemoryStore {
    let first = MemoryStore::new();
    block_on(async {
        let bodies = store.read(&name(), 0..records).await.unwrap();
        first.append(&name(), Append::new(0, bodies.into_iter().map(Record::new))).await.unwrap();
    });
    first
}

fn length(store: &MemoryStore) -> u64 {
    block_on(store.head(&name(), None)).unwrap().map_or(0, |head| head.end)
}

#[track_caller]
fn same_as_report(receipt: &Receipt, report: &Report) {
    let (total, max) = (receipt.total, receipt.calls.iter().map(|call| call.sent_tokens).max().unwrap_or(0));
    assert_eq!((total.calls, total.sent_tokens, max), (report.calls, report.sent_tokens, report.max_window_tokens));
    assert_eq!(
        (total.cache_read_tokens, total.cache_write_tokens, total.uncached_tokens),
        (report.cache_read_tokens, report.cache_write_tokens, report.uncached_tokens)
    );
    assert_eq!((total.compactions, total.prefix_breaks), (report.compactions, report.prefix_breaks));
    assert!((total.cost - report.cost).abs() < 1e-9, "{} {}", total.cost, report.cost);
}

const POLICIES: [&str; 4] = ["default", "none", "tokens:max_tokens=16000,target_tokens=8000", "rolling-summary"];

#[test]
fn the_receipt_of_a_replayed_session_is_the_report_of_the_replay() {
    let recording = example();
    for policy in POLICIES {
        let settings = Settings::default().dialect(recording.dialect).policy(presets::named(policy).unwrap());
        for name in ["anthropic-5m", "openai-4o", "uncached"] {
            let (report, store) = replayed(&recording, &settings, &price(name)).unwrap();
            let receipt = receipt(&store, &settings, &price(name));
            same_as_report(&receipt, &report);
            // After the pause in the recording, the default policy compacts, and some windows are too small for a
            // cache.
            let may_be_cold = policy == "none" && name != "uncached";
            assert!(receipt.calls.iter().any(|call| call.cold) || !may_be_cold, "the recording has a pause");
        }
    }
}

#[test]
fn without_a_window_a_call_costs_what_it_costs_in_a_replay_that_leaves_out_nothing() {
    let recording = example();
    for name in ["anthropic-5m", "openai-4o", "uncached"] {
        let of = |policy: &str| Settings::default().dialect(recording.dialect).policy(presets::named(policy).unwrap());
        let (whole, _) = replayed(&recording, &of("none"), &price(name)).unwrap();
        for policy in POLICIES {
            let (report, store) = replayed(&recording, &of(policy), &price(name)).unwrap();
            let total = receipt(&store, &of(policy), &price(name)).total;
            assert!((total.cost_without_window - whole.cost).abs() < 1e-9, "{policy} {name}");
            assert!((total.saved() - (whole.cost - report.cost)).abs() < 1e-9, "{policy} {name}");
        }
    }
}

#[test]
fn the_receipt_of_the_beginning_of_a_log_is_the_beginning_of_the_receipt() {
    let recording = example();
    let policy = presets::named("tokens:max_tokens=16000,target_tokens=8000").unwrap();
    let settings = Settings::default().dialect(recording.dialect).policy(policy);
    let (_, store) = replayed(&recording, &settings, &price("anthropic-5m")).unwrap();
    let whole = receipt(&store, &settings, &price("anthropic-5m"));
    for end in (0..=length(&store)).step_by(29) {
        let begun = receipt(&first_records(&store, end), &settings, &price("anthropic-5m"));
        assert_eq!(begun.calls, whole.calls[..begun.calls.len()]);
        assert_eq!(begun.calls.len(), whole.calls.iter().filter(|call| call.position < end).count());
    }
}

#[test]
fn a_compaction_is_named_where_it_breaks_the_prefix() {
    let recording = example();
    let settings = Settings::default().dialect(recording.dialect).policy(presets::named("default").unwrap());
    let (_, store) = replayed(&recording, &settings, &price("anthropic-5m")).unwrap();
    let receipt = receipt(&store, &settings, &price("anthropic-5m"));
    let compacted: Vec<_> = receipt.calls.iter().filter(|call| call.compacted).collect();
    assert!(!compacted.is_empty());
    assert!(compacted.iter().all(|call| call.prefix_break == Some(PrefixBreak::Compaction)), "{compacted:?}");
}

/// Opens a session whose window keeps everything.
fn open() -> Session {
    let settings = Settings::default().policy(Policy::never_compact());
    block_on(Session::open(MemoryStore::new(), "s", settings)).unwrap()
}

fn long(text: &str) -> Message {
    Message::user(format!("{text} ").repeat(2_000))
}

#[test]
fn calls_of_an_abandoned_branch_were_paid_and_each_call_has_the_history_of_its_own() {
    block_on(async {
        let mut session = open();
        let (task, answer) = (long("task"), Message::assistant("yes"));
        for history in [
            vec![task.clone()],
            vec![task.clone(), answer.clone(), long("more")],
            vec![task.clone(), answer.clone(), long("something else entirely")],
        ] {
            session.sync(history).await.unwrap();
            session.window().await.unwrap();
            session.push(answer.clone()).await.unwrap();
        }
        for name in ["anthropic-5m", "openai", "uncached"] {
            let receipt = Receipt::for_session(&session, &price(name)).await.unwrap();
            let breaks: Vec<_> = receipt.calls.iter().map(|call| call.prefix_break).collect();
            assert_eq!(breaks, [None, None, Some(PrefixBreak::Branch)], "{name}");
            // Nothing has left the window, so it makes no difference on any branch.
            for call in &receipt.calls {
                assert!((call.cost - call.cost_without_window).abs() < 1e-12, "{name} {call:?}");
            }
            let [first, .., last] = receipt.calls[..] else { unreachable!() };
            let read = if name == "uncached" { 0 } else { first.sent_tokens / 128 * 128 };
            assert!(last.cache_read_tokens >= read && last.cache_read_tokens < last.sent_tokens, "{name} {last:?}");
        }
    });
}

#[test]
fn reasoning_that_the_provider_drops_after_its_turn_is_not_paid_for_with_a_window_or_without() {
    let decode = |text: &str| Dialect::OpenAiResponses.decode(text).unwrap();
    let ask = |text: &str| decode(&format!(r#"{{"role":"user","content":"{}"}}"#, format!("{text} ").repeat(2_000)));
    let thought = format!(r#"{{"type":"reasoning","summary":[],"encrypted_content":"{}"}}"#, "R".repeat(20_000));
    let thought = decode(&thought);
    let call = decode(r#"{"type":"function_call","call_id":"c1","name":"read","arguments":"{}"}"#);
    let result = decode(r#"{"type":"function_call_output","call_id":"c1","output":"text"}"#);
    let answer = decode(r#"{"role":"assistant","content":"yes"}"#);
    let first = vec![ask("task"), thought, call, result];
    let turn = [first.clone(), vec![answer.clone()]].concat();
    block_on(async {
        let settings = Settings::for_model(Dialect::OpenAiResponses, "gpt-5").policy(Policy::never_compact());
        let mut session = Session::open(MemoryStore::new(), "s", settings).await.unwrap();
        // The last one goes back to a point at which the first turn was open.
        for history in [&first, &[turn.clone(), vec![ask("more")]].concat(), &first] {
            session.sync(history.clone()).await.unwrap();
            session.window().await.unwrap();
            session.push(answer.clone()).await.unwrap();
        }
        let receipt = Receipt::for_session(&session, &price("openai")).await.unwrap();
        // The reasoning and the call are separate answers.
        let [.., first, second, third] = receipt.calls[..] else { panic!("{:?}", receipt.calls) };
        let hidden = (20_000 / 4 * 3 - 650) / 4;
        assert!(first.sent_tokens > hidden && first.sent_tokens == third.sent_tokens, "{first:?} {third:?}");
        assert!(second.sent_tokens < 2 * first.sent_tokens - hidden, "{second:?}");
        assert_eq!(second.prefix_break, None);
        for call in receipt.calls.iter().rev().skip(1) {
            assert!((call.cost - call.cost_without_window).abs() < 1e-12, "{call:?}");
        }
    });
}

#[test]
fn another_preamble_breaks_the_prefix() {
    block_on(async {
        let mut session = open();
        for number in 0..3 {
            let tools = RawValue::from_string(format!(r#"[{{"name":"tool {}"}}]"#, number / 2)).unwrap();
            session.set_preamble(&Preamble::default().with_tools(tools)).await.unwrap();
            session.push(long("go on")).await.unwrap();
            session.window().await.unwrap();
            session.push(Message::assistant("yes")).await.unwrap();
        }
        let receipt = Receipt::for_session(&session, &price("anthropic-5m")).await.unwrap();
        let breaks: Vec<_> = receipt.calls.iter().map(|call| call.prefix_break).collect();
        assert_eq!(breaks, [None, None, Some(PrefixBreak::Preamble)]);
        assert_eq!(receipt.calls[2].cache_read_tokens, 0);
        assert!((receipt.total.saved()).abs() < 1e-12, "{:?}", receipt.total);
    });
}

#[test]
fn what_was_reported_is_what_was_sent_whether_it_was_recorded_before_the_answer_or_after() {
    block_on(async {
        let settings = Settings::default().policy(Policy {
            limits: Limits::messages(4),
            target: Some(Limits::messages(2)),
            ..Policy::unlimited()
        });
        let mut session = Session::open(MemoryStore::new(), "s", settings).await.unwrap();
        let mut counted = Vec::new();
        for number in 0..4 {
            session.push(long("go on")).await.unwrap();
            counted.push(session.window().await.unwrap().view().totals().size.tokens);
            if number == 0 {
                session.usage("m", counted[0] * 3 / 2).await.unwrap();
            }
            session.push(Message::assistant("yes")).await.unwrap();
            if number == 1 {
                session.usage("m", counted[1] * 2).await.unwrap();
            }
        }
        let price = price("anthropic-5m");
        let corrected = Receipt::for_session(&session, &price).await.unwrap();
        assert_eq!(corrected.calls.iter().map(|call| call.reported).collect::<Vec<_>>(), [true, true, false, false]);
        assert_eq!(
            corrected.calls.iter().map(|call| call.sent_tokens).collect::<Vec<_>>(),
            [counted[0] * 3 / 2, counted[1] * 2, counted[2], counted[3]]
        );
        assert_eq!(corrected.total.reported_calls, 2);
        for call in &corrected.calls {
            let parts = call.cache_read_tokens + call.cache_write_tokens + call.uncached_tokens;
            assert_eq!(parts, call.sent_tokens);
        }
        // Nothing can have left before the first call, so it costs the same without a window.
        let first = corrected.calls[0];
        assert!(first.cost > 0.0 && (first.cost - first.cost_without_window).abs() < 1e-12, "{first:?}");
        assert!(corrected.total.compactions > 0);
    });
}

#[test]
fn a_log_that_is_not_there_has_no_calls_and_a_damaged_one_is_an_error() {
    block_on(async {
        let (store, settings) = (MemoryStore::new(), Settings::default());
        assert_eq!(receipt(&store, &settings, &price("openai")), Receipt::default());
        let branch = serde_json::to_string(&Entry::Branch { at: 0 }).unwrap();
        store.append(&name(), Append::new(0, [Record::new(branch.clone()), Record::new(branch)])).await.unwrap();
        let error = Receipt::load(&store, &name(), &*settings.counter, &price("openai")).await.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { position: 1, .. }), "{error:?}");
    });
}

/// Runs the same cases each time. Set `PROPTEST_CASES` and `PROPTEST_RNG_SEED` to search for others.
fn config() -> Config {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    Config {
        cases: number("PROPTEST_CASES").map_or(64, |cases: u64| cases as u32),
        rng_seed: RngSeed::Fixed(number("PROPTEST_RNG_SEED").unwrap_or(11)),
        failure_persistence: None,
        ..Config::default()
    }
}

fn holds(case: &Case) -> Result<(), TestCaseError> {
    let messages = Run::from_case(case).elements();
    // A policy that is computed on read does not record what it leaves out.
    if messages.is_empty() || case.policy.mode == Mode::OnRead {
        return Ok(());
    }
    let recordings = Recording::read(&messages.join("\n"), "case", None);
    let recording = recordings.map_err(|fault| TestCaseError::fail(fault.to_string()))?.remove(0);
    let settings = Settings::default().dialect(recording.dialect).policy(case.policy.clone());
    for name in ["mistral", "uncached"] {
        // A hard limit may end the replay.
        let Some((report, store)) = replayed(&recording, &settings, &price(name)) else { return Ok(()) };
        let whole = receipt(&store, &settings, &price(name));
        same_as_report(&whole, &report);
        for end in (0..length(&store)).step_by(7) {
            let begun = receipt(&first_records(&store, end), &settings, &price(name));
            prop_assert_eq!(&begun.calls[..], &whole.calls[..begun.calls.len()]);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_receipt_of_any_history_is_the_report_of_its_replay(case in case()) {
        holds(&case)?;
    }
}

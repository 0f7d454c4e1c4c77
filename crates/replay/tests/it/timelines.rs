//! Timelines: the rows of a call are the messages it sent, and removed messages have the engine's reason.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_presets as presets;
use lookback_recordings::Recording;
use lookback_replay::explain::outcomes;
use lookback_replay::prices::Prices;
use lookback_replay::receipt::Receipt;
use lookback_replay::replay::{Cause, ReplayedCall, replay};
use lookback_replay::timeline::{Fate, Row, RowKind, State, Timeline};
use lookback_session as session;
use lookback_session::Session;
use lookback_session::adapter;
use lookback_store::{Append, Record};
use lookback_store::{LogName, MemoryStore, Store};
use lookback_tokens::Estimate;

fn timeline(store: &dyn Store, name: &LogName) -> Timeline {
    let price = Prices::builtin().find("anthropic-5m").unwrap();
    block_on(Timeline::load(store, name, &Estimate::default(), price)).unwrap()
}

/// Asserts the law that at each call, the shown rows are the messages of the view before its answer, in the same order.
#[track_caller]
pub(crate) fn shows_what_each_call_saw(store: &dyn Store, name: &LogName) {
    let price = Prices::builtin().find("anthropic-5m").unwrap();
    let timeline = timeline(store, name);
    let receipt = block_on(Receipt::load(store, name, &Estimate::default(), price)).unwrap();
    assert_eq!((timeline.total, timeline.since), (receipt.total, receipt.since));
    assert!(timeline.calls.iter().map(|call| call.receipt).eq(receipt.calls));
    let end = block_on(store.head(name, None)).unwrap().map_or(0, |head| head.end);
    let answers = timeline.calls.iter().map(|call| call.receipt.position);
    for (call, position) in (1..).zip(answers.chain([end])) {
        let view = block_on(session::adapter::view_at(store, name, position)).unwrap();
        let sent = view.messages().map(|item| (item.position(), item.message().digest(), item.size().tokens));
        let shown = timeline.window(call).map(|(row, state)| (row.position, row.message.digest(), state.tokens));
        assert_eq!(shown.collect::<Vec<_>>(), sent.collect::<Vec<_>>(), "call {call} at {position}");
        let edits = view.messages().map(|item| item.edits().to_vec());
        assert!(timeline.window(call).map(|(_, state)| state.edits.to_vec()).eq(edits), "call {call}");
        let preamble = timeline.preamble(call).map(|sent| sent.size.tokens).unwrap_or_default();
        if let Some(known) = timeline.call(call) {
            assert_eq!((known.preamble_tokens, known.window), (view.preamble_size().tokens, view.totals()));
            assert_eq!(preamble, known.preamble_tokens, "call {call}");
        }
    }
    for row in &timeline.rows {
        assert!(row.states.windows(2).all(|pair| pair[0].call < pair[1].call), "{row:?}");
        assert!(row.states.iter().all(|state| state.is_shown || state.tokens == 0), "{row:?}");
    }
}

const POLICIES: [&str; 5] =
    ["default", "none", "tokens:max_tokens=16000,target_tokens=8000", "rolling-summary", "managed-window"];

/// Replays the example with a policy into a store. Returns the store, the log, and the number of missed identifiers.
fn example(policy: &str) -> (Arc<MemoryStore>, LogName, u64) {
    let text = include_str!("../../../../examples/session.jsonl");
    let recording = Recording::read(text, "session", None).unwrap().remove(0);
    let settings = Settings::default().dialect(recording.dialect).policy(presets::named(policy).unwrap());
    let price = Prices::builtin().find("anthropic-5m").unwrap();
    let (store, name): (_, LogName) = (Arc::new(MemoryStore::new()), "s".parse().unwrap());
    block_on(async {
        let mut on_call = |_: &ReplayedCall| ControlFlow::Continue(());
        let replay = replay(&recording, settings, price, 0, &mut on_call).await.unwrap();
        let missed = replay.report.missed_identifiers;
        replay.save(&*store, &name).await.unwrap();
        (store, name, missed)
    })
}

#[test]
fn a_call_of_a_replayed_session_is_shown_as_it_was_sent() {
    for policy in POLICIES {
        let (store, name, _) = example(policy);
        shows_what_each_call_saw(&*store, &name);
    }
}

#[test]
fn the_logs_of_earlier_versions_have_timelines() {
    for log in ["anthropic", "branch", "openai", "summary"] {
        let path = format!("{}/../session/tests/logs/{log}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let bodies: Vec<_> = std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
        let (store, name): (_, LogName) = (MemoryStore::new(), "s".parse().unwrap());
        let record = |body: String| {
            let checkpoint = body.starts_with("{\"checkpoint\"");
            Record::new(body).checkpoint(checkpoint)
        };
        block_on(store.append(&name, Append::new(0, bodies.into_iter().map(record)))).unwrap();
        shows_what_each_call_saw(&store, &name);
    }
}

#[test]
fn what_is_gone_has_the_reason_that_an_explanation_gives() {
    for policy in POLICIES {
        let (store, name, _) = example(policy);
        let timeline = timeline(&*store, &name);
        let entries = block_on(async {
            let mut session = Session::open(store.clone(), "s", Settings::default()).await.unwrap();
            adapter::entries(&mut session).await.unwrap()
        });
        let session = block_on(Session::open(store.clone(), "s", Settings::default())).unwrap();
        let outcomes = outcomes(&entries, session.view(), timeline.dialect, &session.explain());
        let ordinary: Vec<&Row> = {
            let mut rows: Vec<_> = timeline.rows.iter().filter(|row| row.kind == RowKind::Message).collect();
            rows.sort_by_key(|row| row.position);
            rows
        };
        let mut gone = 0;
        for outcome in &outcomes {
            for row in &ordinary[outcome.span.clone()] {
                let state = row.at(timeline.next_call()).unwrap();
                if outcome.sent == 0 && outcome.tokens > 0 {
                    let fate = Fate::Decided { action: outcome.action, reason: outcome.reason };
                    assert_eq!((state.is_shown, state.fate), (false, fate), "{policy} {}", row.position);
                    gone += 1;
                }
            }
        }
        assert_eq!(gone > 0, policy != "none", "{policy}");
    }
}

#[test]
fn the_names_that_were_missed_are_those_of_the_replay_and_have_a_place() {
    for policy in POLICIES {
        let (store, name, missed) = example(policy);
        let timeline = timeline(&*store, &name);
        let of_calls: Vec<_> = timeline.calls.iter().flat_map(|call| &call.missed).collect();
        assert_eq!(of_calls.len() as u64, missed, "{policy}");
        for missed in of_calls {
            let row = timeline.rows.iter().find(|row| row.position == missed.position).unwrap();
            assert!(row.message.text().contains(&missed.name) || row.message.tool_calls().next().is_some());
            let is_shown = row.states.last().is_some_and(|state| state.is_shown);
            match missed.cause {
                Cause::Capped | Cause::Cleared => assert!(row.message.tool_results().next().is_some(), "{missed:?}"),
                _ => assert!(!is_shown, "{missed:?}"),
            }
        }
    }
}

#[test]
fn between_two_calls_differs_what_came_left_or_was_cut() {
    let (store, name, _) = example("tokens:max_tokens=16000,target_tokens=8000");
    let timeline = timeline(&*store, &name);
    let mark = &timeline.compactions[0];
    let (before, after) = (mark.call - 1, mark.call);
    let mut left = 0;
    for (row, from, to) in timeline.difference(before, after) {
        let shown = |state: Option<&State>| state.is_some_and(|state| state.is_shown);
        left += u64::from(shown(from) && !shown(to));
        assert!(shown(from) || shown(to), "{}", row.position);
    }
    assert!(left > 0);
    assert_eq!(timeline.difference(before, before).count(), 0);
    assert!(mark.limit.is_some_and(|limit| limit.actual > limit.limit));
}

#[test]
fn the_recording_of_a_timeline_is_the_conversation() {
    let text = include_str!("../../../../examples/session.jsonl");
    let recording = Recording::read(text, "session", None).unwrap().remove(0);
    for policy in ["default", "none"] {
        let (store, name, _) = example(policy);
        let again = timeline(&*store, &name).recording("session");
        let said = |recording: &Recording| {
            let messages = recording.messages.iter().map(|recorded| (recorded.message.digest(), recorded.time));
            messages.collect::<Vec<_>>()
        };
        assert_eq!(said(&again), said(&recording), "{policy}");
    }
}

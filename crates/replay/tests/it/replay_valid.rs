//! A replay and `check` agree on which requests are valid, for generated histories in each dialect, which must be
//! recognized.

#![allow(clippy::disallowed_methods, reason = "a test may read the environment")]
#![allow(clippy::cast_possible_truncation)]

use std::ops::ControlFlow;

use crate::common::{Case, Run, case};
use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_recordings::Recording;
use lookback_replay::prices::Prices;
use lookback_replay::replay::{Replay, ReplayedCall, replay};
use lookback_session::Batch;
use lookback_session::RecordedMessage;
use lookback_session::Session;
use lookback_session::SummaryOptions;
use lookback_store::MemoryStore;
use lookback_wire::dialect::Severity;
use lookback_wire::{
    dialect::{Dialect, Request},
    message::Role,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// Runs the same cases each time. Set `PROPTEST_CASES` and `PROPTEST_RNG_SEED` to search for others.
fn config() -> Config {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    Config {
        cases: number("PROPTEST_CASES").map_or(96, |cases: u64| cases as u32),
        rng_seed: RngSeed::Fixed(number("PROPTEST_RNG_SEED").unwrap_or(7)),
        failure_persistence: None,
        ..Config::default()
    }
}

/// Returns the dialect that `check` recognizes in a list of messages.
fn checked(messages: &[String]) -> Dialect {
    Request::decode(format!("[{}]", messages.join(",")), None).unwrap().dialect()
}

/// Returns the windows of a replay, as files for `check`.
fn windows(recording: &Recording, settings: Settings) -> Result<Vec<String>, lookback_session::Error> {
    block_on(async {
        let mut session = Session::open(MemoryStore::new(), "replay", settings)
            .await?
            .with_summarizer(SummaryOptions::default().spawner(block_on));
        session.set_preamble(&recording.preamble).await?;
        let mut windows = Vec::new();
        for (index, RecordedMessage { message, time, .. }) in recording.messages.iter().enumerate() {
            if index > 0 && message.role() == Role::Assistant {
                windows.push(session.window().await?.to_json()?);
            }
            session.append(Batch::from(message.clone()).at(*time)).await?;
        }
        Ok::<_, lookback_session::Error>(windows)
    })
}

fn holds(case: &Case) -> Result<(), TestCaseError> {
    let messages = Run::from_case(case).elements();
    if messages.is_empty() {
        return Ok(());
    }
    let list = format!("[{}]", messages.join(","));
    let dialect = checked(&messages);
    for file in [messages.join("\n"), list.clone(), format!("{{\"messages\":{list}}}\n")] {
        let recordings =
            Recording::read(&file, "case", None).map_err(|fault| TestCaseError::fail(fault.to_string()))?;
        prop_assert_eq!(recordings.len(), 1);
        let recording = &recordings[0];
        prop_assert_eq!(recording.dialect, dialect);
        let settings = Settings::default().dialect(recording.dialect).policy(case.policy.clone());
        let mut on_call = |_: &ReplayedCall| ControlFlow::Continue(());
        let prices = Prices::builtin();
        let price = prices.find(prices.names().next().unwrap()).unwrap();
        let replayed = replay(recording, settings.clone(), price, 0, &mut on_call);
        // A hard limit may end the replay. It then also ends the other one.
        let (Ok(Replay { report, .. }), Ok(windows)) = (block_on(replayed), windows(recording, settings)) else {
            return Ok(());
        };
        // A provider accepts signed reasoning only where the previous request had it.
        let mut previous = None;
        let mut refused = |window: &&String| {
            let request = Request::decode(window.as_str(), Some(dialect)).unwrap();
            let request = previous.take().into_iter().fold(request, |request, previous| request.after(&previous));
            let is_refused = dialect.check(&request).iter().any(|finding| finding.severity == Severity::Refused);
            previous = Some(request);
            is_refused
        };
        prop_assert_eq!(report.calls, windows.len() as u64);
        prop_assert_eq!(report.invalid_requests, windows.iter().filter(&mut refused).count() as u64);
    }
    Ok(())
}

/// Anthropic takes four markers. The window drops older ones, so a request does not have all messages of the one before it
/// as they were.
#[test]
fn cache_markers_that_leave_later_requests_are_no_fault() {
    let said = |index: usize| {
        let (role, marker) = match index % 2 {
            0 => ("user", r#","cache_control":{"type":"ephemeral"}"#),
            _ => ("assistant", ""),
        };
        format!(r#"{{"role":"{role}","content":[{{"type":"text","text":"{index}"{marker}}}]}}"#)
    };
    let messages: Vec<String> = (0..20).map(said).collect();
    let recording = &Recording::read(&messages.join("\n"), "marked", Some(Dialect::Anthropic)).unwrap()[0];
    let settings = Settings::default().dialect(Dialect::Anthropic);
    let prices = Prices::builtin();
    let mut on_call = |_: &ReplayedCall| ControlFlow::Continue(());
    let report =
        block_on(replay(recording, settings, prices.find("anthropic-5m").unwrap(), 0, &mut on_call)).unwrap().report;
    assert_eq!((report.calls, report.invalid_requests), (10, 0));
    let whole = Request::decode(format!("[{}]", messages.join(",")), Some(Dialect::Anthropic)).unwrap();
    assert!(!Dialect::Anthropic.check(&whole).is_empty(), "with all markers, it is refused");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_a_replay_counts_as_valid_check_calls_valid(case in case()) {
        holds(&case)?;
    }

    /// If anything in a recording identifies a dialect, the recording is read in that dialect.
    #[test]
    fn a_recording_is_read_in_the_dialect_that_it_was_written_in(case in case()) {
        let messages = Run::from_case(&case).elements();
        let recordings = Recording::read(&messages.join("\n"), "case", None);
        let recordings = recordings.map_err(|fault| TestCaseError::fail(fault.to_string()))?;
        for recording in &recordings {
            let raws = recording.messages.iter().map(|recorded| &*recorded.message.wire().unwrap().raw);
            let plain = Dialect::detect(None, raws);
            if plain.unwrap().is_some() {
                prop_assert_eq!(recording.dialect, case.dialect);
            }
        }
    }
}

//! Checks the laws on real transcripts, if `LOOKBACK_CORPUS` names a gzipped file of JSON lines.

#![allow(clippy::disallowed_methods, reason = "a test may read files and the environment")]
#![allow(clippy::cast_possible_truncation)]

use std::path::PathBuf;

use crate::common::{Run, laws};
use lookback_engine::policy::Caps;
use lookback_engine::transcript::Origin;
use lookback_engine::{
    Settings,
    policy::{Index, Limits, Payback, Policy, Repeats, Stage},
};
use lookback_tokens::cut::Truncation;
use lookback_wire::{dialect::Dialect, message::Role};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'a> {
    id: String,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

fn transcripts() -> Option<String> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/transcripts.jsonl.gz");
    let path = std::env::var_os("LOOKBACK_CORPUS").map_or_else(beside, PathBuf::from);
    let file = std::fs::File::open(&path).ok()?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    Some(text)
}

fn policies() -> Vec<Policy> {
    let cap = Truncation { head: 400, tail: 400, ..Truncation::default() };
    vec![
        Policy { limits: Limits::messages(40), target: Some(Limits::messages(20)), ..Policy::unlimited() },
        Policy {
            limits: Limits::tokens(16_000),
            target: Some(Limits::tokens(8_000)),
            arrival: Some(cap.clone()),
            stages: vec![
                Stage::TruncateResults { to: cap, except_newest: 3 },
                Stage::ClearResults { except_newest: 3, marker: None },
                Stage::Drop,
            ],
            ..Policy::unlimited()
        },
        Policy {
            limits: Limits::body(8_000),
            target: Some(Limits::body(3_000)),
            caps: Some(Caps { file: 2_000, other: 500, names: 100, numbers: true, ..Caps::default() }),
            repeats: Some(Repeats::default()),
            index: Some(Index { budget: 800 }),
            stages: vec![Stage::ClearResults { except_newest: 0, marker: None }, Stage::Drop],
            ..Policy::unlimited()
        },
        Policy {
            payback: Some(Payback { limits: Limits::body(14_000), ..Payback::default() }),
            ..Policy::production()
        },
    ]
}

#[test]
fn the_laws_hold_of_real_transcripts() {
    let Some(text) = transcripts() else {
        crate::common::skipped("there are no transcripts (LOOKBACK_CORPUS names none)");
        return;
    };
    // All transcripts in all dialects take minutes in a debug build. `LOOKBACK_CORPUS_EVERY=1` runs all of them.
    let every = std::env::var("LOOKBACK_CORPUS_EVERY").ok().and_then(|every| every.parse().ok()).unwrap_or(10);
    for (number, line) in text.lines().step_by(every).enumerate() {
        let line: Line<'_> = serde_json::from_str(line).unwrap();
        for (index, policy) in policies().into_iter().enumerate() {
            let one = |(place, _): &(usize, Dialect)| every == 1 || (number + index) % 3 == *place;
            for (_, dialect) in Dialect::ALL.into_iter().enumerate().filter(one) {
                let run = drive(&line, &policy, dialect);
                let law = laws::all(&run).and_then(|()| laws::the_view_is_the_fold_of_the_log(&run, 97));
                law.unwrap_or_else(|why| panic!("{} in {dialect} under policy {index}: {why:.2000}", line.id));
            }
        }
    }
}

/// Feeds a session message by message, with a window before each assistant message.
fn drive(line: &Line<'_>, policy: &Policy, dialect: Dialect) -> Run {
    let mut run = Run::new(Settings::default().dialect(dialect).policy(policy.clone()));
    for raw in &line.messages {
        let message = Dialect::OpenAiChat.decode_raw(raw).unwrap();
        // Other dialects have their system prompt elsewhere, and cannot express all of these messages.
        if dialect != Dialect::OpenAiChat && message.role() == Role::System {
            continue;
        }
        let Ok(messages) = dialect.convert(&message) else { continue };
        for message in messages {
            let model = message.role() == Role::Assistant;
            if model {
                run.window();
            }
            let origin = if model { Origin::Model } else { Origin::Client };
            run.push(message.wire().unwrap().raw.get(), origin);
        }
    }
    run.window();
    run
}

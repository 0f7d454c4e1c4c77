//! Replays of recorded conversations, which show what their windows would have sent and cost.

use std::ops::ControlFlow;
use std::path::Path;

use futures_lite::future::block_on;
use lookback_engine::policy::Policy;
use lookback_recordings::{FileError, RecordedFile, Recording};
use lookback_replay::prices::Price;
use lookback_replay::{
    replay as library,
    replay::{ReplayedCall, Report},
};
use serde_json::{Value, json};

use crate::annotated::with;
use crate::options::settings;
use crate::{Failure, Model, price};

/// The recording to replay.
#[derive(Debug, Clone, Copy)]
pub enum Replayed<'a> {
    /// A file: JSON lines, a list, a request or an agent's log, gzipped or not.
    File(&'a Path),
    /// The text of such a file.
    Text(&'a str),
}

/// Replays conversations message by message, with a model call before each assistant message.
///
/// Returns JSON with the `total`, and with the `report` and `calls` of each of the `recordings`.
///
/// # Errors
/// Returns an error if the recording is invalid, or if a window exceeds a hard limit.
pub fn replay(what: Replayed<'_>, model: &Model, policy: Option<Policy>, prices: &str) -> Result<String, Failure> {
    let dialect = model.dialect.as_deref().map(crate::dialect).transpose()?;
    let recordings = match what {
        Replayed::Text(text) => Recording::read(text, "recording", dialect)?,
        Replayed::File(path) => {
            let unread = |error| Failure::decode("recording", format_args!("cannot read {}: {error}", path.display()));
            let file = RecordedFile::open(path, dialect).map_err(|error| match error {
                FileError::Io(error) => unread(error),
                FileError::Text(error) => error.into(),
                FileError::Recording(error) => error.into(),
            });
            file?.recordings
        }
    };
    let (policy, price) = (policy.unwrap_or_else(Policy::production), price(prices)?);
    let mut total = Report::new("total", "");
    let mut told = Vec::with_capacity(recordings.len());
    for recording in &recordings {
        let (report, calls) = one(recording, model, &policy, &price)?;
        total.add(&report);
        told.push(json!({ "report": in_words(&report), "calls": calls }));
    }
    Ok(json!({ "total": in_words(&total), "recordings": told }).to_string())
}

fn one(
    recording: &Recording,
    model: &Model,
    policy: &Policy,
    price: &Price,
) -> Result<(Report, Vec<ReplayedCall>), Failure> {
    let settings = settings(recording.dialect, model.name.as_deref(), policy.clone());
    let mut calls = Vec::new();
    let mut on_call = |call: &ReplayedCall| {
        calls.push(call.clone());
        ControlFlow::Continue(())
    };
    let replay = block_on(library::replay(recording, settings, price, 0, &mut on_call))?;
    Ok((replay.report, calls))
}

/// Returns a report as JSON, with the sums and shares that are computed from it.
fn in_words(report: &Report) -> Value {
    let missed = report.missed();
    let told = with(json!(report), "cost_with_recalls", json!(report.cost_with_recalls()));
    let told = with(told, "missed_identifiers_share", json!(missed.identifiers));
    with(told, "missed_spans_share", json!(missed.spans))
}

//! `lookback sessions window`: prints the window of the next call or of a past one, and explains each message.

use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::{Settings, view::View};
use lookback_replay::timeline::{Fate, Row, State, Timeline};
use lookback_session as session;
use lookback_session::adapter;
use lookback_session::{Error, Session};
use lookback_store::{LogName, Store};
use lookback_wire::dialect::Dialect;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args::StoreArg;
use crate::failure::Failure;
use crate::{input, output};

pub(super) fn run(name: &str, call: Option<u64>, explain: bool, json: bool, place: &StoreArg) -> Result<(), Failure> {
    let store = super::open(place)?;
    // A session may have facts but no messages.
    let log = super::known(&*store, name, place)?;
    if call.is_none() && !explain {
        return now(&store, name);
    }
    let timeline = timeline(&*store, &log)?;
    let call = match call {
        Some(call) => known(&timeline, &log, call)?,
        None => timeline.next_call(),
    };
    let view = view(&*store, &log, &timeline, call)?;
    let messages = view.encode(timeline.dialect).map_err(Error::from)?;
    if json {
        let messages = messages.into_iter().map(|raw| raw.into_owned()).collect();
        let rows = rows_at(&timeline, call).map(|(row, state)| Line::new(row, state)).collect();
        return output::json_line(&Explained { call, messages, rows });
    }
    if explain {
        output::message(&table(&timeline, call));
    }
    output::json_line(&messages)
}

/// Prints what a model call would send now. Records nothing, because it makes no call.
fn now(store: &Arc<dyn Store>, name: &str) -> Result<(), Failure> {
    let session = block_on(Session::open(store.clone(), name, Settings::default()))?;
    let wire = session.view().messages().find_map(|item| item.message().wire());
    let dialect = wire.map_or(Dialect::default(), |wire| wire.dialect);
    // The repairs depend on the message format.
    let settings = Settings::default().dialect(dialect);
    let session = block_on(Session::open(store.clone(), name, settings))?;
    output::json_line(&adapter::preview(&session).messages().map_err(Error::from)?)
}

/// Reads the timeline of a session.
pub(super) fn timeline(store: &dyn Store, log: &LogName) -> Result<Timeline, Failure> {
    // The same counter as that of a replay without --model. No costs are shown, so any price will do.
    let (settings, price) = (input::settings(None), input::price("anthropic-5m")?);
    Ok(block_on(Timeline::load(store, log, &*settings.counter, &price))?)
}

/// Returns the number of a call, or an error if there is no such call.
pub(super) fn known(timeline: &Timeline, log: &LogName, call: u64) -> Result<u64, Failure> {
    let calls = timeline.calls.len() as u64;
    if (1..=calls).contains(&call) {
        return Ok(call);
    }
    Err(Failure::NoCall { session: log.to_string(), call, calls })
}

/// Returns the view that a call sent, or that the next one would send.
fn view(store: &dyn Store, log: &LogName, timeline: &Timeline, call: u64) -> Result<View, Failure> {
    let position = match timeline.call(call) {
        Some(call) => call.receipt.position,
        None => block_on(store.head(log, None))?.map_or(0, |head| head.end),
    };
    Ok(block_on(session::adapter::view_at(store, log, position))?)
}

/// Returns the messages that existed at a call, each with its state, in the order of display.
fn rows_at(timeline: &Timeline, call: u64) -> impl Iterator<Item = (&Row, &State)> {
    timeline.rows.iter().filter_map(move |row| Some((row, row.at(call)?)))
}

#[derive(Serialize)]
struct Explained<'a> {
    call: u64,
    messages: Vec<Box<RawValue>>,
    rows: Vec<Line<'a>>,
}

/// The state of a message at a call, as JSON.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    entry: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    role: &'a str,
    sent: bool,
    fate: &'a str,
    why: String,
    /// The first call with this state.
    since: u64,
    tokens: u64,
    sent_tokens: u64,
}

impl<'a> Line<'a> {
    pub(super) fn new(row: &'a Row, state: &State) -> Line<'a> {
        Line {
            entry: row.position,
            kind: row.kind.name(),
            role: row.role(),
            sent: state.is_shown,
            fate: state.fate.as_str(),
            why: state.fate.why(),
            since: state.call,
            tokens: row.tokens,
            sent_tokens: state.tokens,
        }
    }
}

/// Returns a table of the messages' states. Adjacent messages with the same state share a row.
fn table(timeline: &Timeline, call: u64) -> String {
    let rows: Vec<_> = rows_at(timeline, call).collect();
    let shares = |a: &(&Row, &State), b: &(&Row, &State)| {
        (a.0.kind, a.1.is_shown, a.1.fate) == (b.0.kind, b.1.is_shown, b.1.fate)
            && (a.1.is_shown || a.1.call == b.1.call)
    };
    let line = |rows: &[(&Row, &State)]| {
        let ((first, state), (last, _)) = (rows.first()?, rows.last()?);
        let entries = match rows.len() {
            1 => first.position.to_string(),
            _ => format!("{}-{}", first.position, last.position),
        };
        let is_gone = !state.is_shown;
        let since = if is_gone { format!("{} at call {}", state.fate.as_str(), state.call) } else { String::new() };
        Some([
            entries,
            first.kind.name().unwrap_or("message").to_owned(),
            output::number(rows.iter().map(|(row, _)| row.tokens).sum()),
            output::number(rows.iter().map(|(_, state)| state.tokens).sum()),
            if is_gone { since } else { state.fate.as_str().to_owned() },
            if state.fate == Fate::Whole { String::new() } else { state.fate.why() },
        ])
    };
    let lines = rows.chunk_by(shares).filter_map(line);
    let header = ["entries", "what", "tokens", "sent", "fate", "why"];
    output::text_without(&output::table(header, &[0, 1, 4, 5], lines), &[1])
}

//! The data for the script, as JSON in the page: calls, states of rows, contents and requests. Large parts are
//! compressed.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use lookback_content::text::plain;
use lookback_replay::timeline::{SentPreamble, State};
use lookback_wire::dialect::Dialect;
use maud::{Markup, PreEscaped, html};
use serde::Serialize;
use serde_json::json;

use crate::calls::Calls;
use crate::fragments::Fragments;
use crate::rows::{fate, why};
use crate::story::{Contents, Story};

/// Renders the data of a page.
pub(crate) fn render(story: &Story<'_>, contents: Contents, fragments: &Fragments) -> Markup {
    let timeline = story.timeline;
    let mut reasons = Reasons::default();
    let rows: Vec<Vec<(u64, usize, u64, i64)>> = timeline
        .rows
        .iter()
        .enumerate()
        .map(|(row, of)| {
            let state = |(index, state): (usize, &State)| {
                let form = fragments.state_form(row, index).and_then(|form| i64::try_from(form).ok()).unwrap_or(-1);
                let tokens = if state.is_shown { state.tokens } else { of.tokens };
                (state.call, reasons.number(state), tokens, form)
            };
            of.states.iter().enumerate().map(state).collect()
        })
        .collect();
    let told = Calls::new(story, contents);
    let calls: Vec<String> = timeline.calls.iter().map(|call| told.one(call).into_string()).collect();
    let events: Vec<u64> =
        timeline.calls.iter().filter(|call| told.is_event(call)).map(|call| call.receipt.number).collect();
    let requests = if contents == Contents::Shown { story.requests } else { None };
    let preambles: Vec<_> = match requests {
        Some(_) => timeline.preambles.iter().map(|sent| (sent.call, members(sent, timeline.dialect))).collect(),
        None => Vec::new(),
    };
    html! {
        (script("data", &json!({
            "calls": calls, "events": events, "rows": rows, "reasons": reasons.told, "preambles": preambles, "list": timeline.dialect.list(),
        })))
        @if contents == Contents::Shown {
            @for (first, rows) in fragments.packs() {
                script.pack type=(PACKED) data-first=(first) { (PreEscaped(pack(rows))) }
            }
        }
        @if let Some(requests) = requests { script #requests type=(PACKED) { (PreEscaped(pack(requests))) } }
    }
}

/// The type of packed data: JSON, compressed with gzip and encoded in base64.
const PACKED: &str = "application/octet-stream";

fn pack(value: &(impl Serialize + ?Sized)) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory and serializing texts cannot fail.
    let _ = serde_json::to_writer(&mut encoder, value);
    BASE64_STANDARD.encode(encoder.finish().unwrap_or_default())
}

/// Returns the preamble's members of a request, each with its name and its JSON as text.
fn members(sent: &SentPreamble, dialect: Dialect) -> Vec<(&'static str, &str)> {
    sent.preamble.in_body(dialect).map(|(name, raw)| (name, raw.get())).collect()
}

/// Renders a value as JSON in which nothing is invisible and nothing ends the script element.
fn script(id: &str, value: &impl Serialize) -> Markup {
    let json = serde_json::to_string(value).unwrap_or_default();
    // In JSON, `<` and invisible characters occur only within strings, where they may be escaped.
    let json = plain(&json).replace('<', "\\u003c");
    html! { script id=(id) type="application/json" { (PreEscaped(json)) } }
}

/// The distinct reasons of states: whether the row is sent, its treatment in a word, and why.
#[derive(Default)]
struct Reasons {
    told: Vec<(bool, &'static str, String)>,
    numbers: HashMap<(bool, String), usize>,
}

impl Reasons {
    fn number(&mut self, state: &State) -> usize {
        let why = why(state);
        *self.numbers.entry((state.is_shown, why)).or_insert_with_key(|(is_shown, why)| {
            self.told.push((*is_shown, fate(state), why.clone()));
            self.told.len() - 1
        })
    }
}

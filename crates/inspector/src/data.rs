//! What the script needs to know: the calls, and what became of each row at which call. It is JSON in the page.

use std::collections::HashMap;
use std::fmt::Write as _;

use lookback::memory::is_unseen;
use lookback::timeline::State;
use lookback::words;
use maud::{Markup, PreEscaped, html};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::calls;
use crate::fragments::Fragments;
use crate::rows::{fate, why};
use crate::story::{Contents, Story};

/// Renders the data of a page.
pub(crate) fn of(story: &Story<'_>, contents: Contents, fragments: &Fragments) -> Markup {
    let timeline = story.timeline;
    let mut reasons = Reasons::default();
    let rows: Vec<Vec<(u64, usize, u64, i64)>> = timeline
        .rows
        .iter()
        .enumerate()
        .map(|(row, of)| {
            let state = |(index, state): (usize, &State)| {
                let form = fragments.of_state(row, index).and_then(|form| i64::try_from(form).ok()).unwrap_or(-1);
                let tokens = if state.is_shown { state.tokens } else { of.tokens };
                (state.call, reasons.number(state), tokens, form)
            };
            of.states.iter().enumerate().map(state).collect()
        })
        .collect();
    let calls: Vec<String> =
        timeline.calls.iter().map(|call| calls::one(timeline, call, contents).into_string()).collect();
    let preambles: Vec<_> = match (contents, story.requests) {
        (Contents::Shown, Some(_)) => timeline
            .preambles
            .iter()
            .map(|sent| {
                let text = |raw: &Option<Box<RawValue>>| raw.as_ref().map(|raw| raw.get().to_owned());
                json!([sent.call, text(&sent.preamble.system), text(&sent.preamble.tools)])
            })
            .collect(),
        _ => Vec::new(),
    };
    let requests = story.requests.filter(|_| contents == Contents::Shown);
    html! {
        (script("data", &json!({
            "calls": calls, "rows": rows, "reasons": reasons.told, "preambles": preambles,
        })))
        @if contents == Contents::Shown {
            @for (first, pack) in fragments.packs() {
                script.pack type="application/octet-stream" data-first=(first) { (PreEscaped(pack)) }
            }
        }
        @if let Some(requests) = requests { (script("requests", requests)) }
    }
}

/// Renders a value as JSON that no parser of HTML takes for anything else, and in which nothing is invisible.
fn script(id: &str, value: &impl Serialize) -> Markup {
    let json = serde_json::to_string(value).unwrap_or_default();
    let mut written = String::with_capacity(json.len());
    // In JSON, these stand in texts alone.
    for c in json.chars() {
        if c == '<' || is_unseen(c) {
            // Writing to memory does not fail.
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(written, "\\u{unit:04x}"));
        } else {
            written.push(c);
        }
    }
    html! { script id=(id) type="application/json" { (PreEscaped(written)) } }
}

/// What became of rows, each once: whether it is sent, in a word, and why.
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

/// The words of the page that the script needs, too.
pub(crate) fn price(story: &Story<'_>) -> String {
    format!("prices `{}` of {} ({})", story.price.name, story.price.date, words::short(&story.price.source))
}

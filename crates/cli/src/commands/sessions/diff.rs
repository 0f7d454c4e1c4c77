//! `lookback sessions diff`: compares what two calls of a session sent.

use lookback_replay::timeline::{Call, Fate, Row, State};
use serde::Serialize;

use super::window::{Line, known, timeline};
use crate::args::StoreArg;
use crate::failure::Failure;
use crate::output;

pub(super) fn run(name: &str, before: u64, after: u64, place: &StoreArg, json: bool) -> Result<(), Failure> {
    let store = super::open(place)?;
    let log = super::log(&*store, name, place)?;
    let timeline = timeline(&*store, &log)?;
    let (before, after) = (known(&timeline, &log, before)?, known(&timeline, &log, after)?);
    let differences: Vec<_> = timeline.difference(before, after).collect();
    if json {
        for (row, from, to) in &differences {
            let Some(state) = to.or(*from) else { continue };
            let (was, is) = (tokens(*from), tokens(*to));
            output::json_line(&Difference { change: change(*from, *to), was, is, line: Line::new(row, state) })?;
        }
        return Ok(());
    }
    // Adjacent messages with the same change share a row.
    let shares = |a: &Differing<'_>, b: &Differing<'_>| {
        what(a) == what(b) && change(a.1, a.2) == change(b.1, b.2) && why(a) == why(b)
    };
    let row = |rows: &[Differing<'_>]| {
        let ((first, from, to), (last, ..)) = (rows.first()?, rows.last()?);
        let entries = match rows.len() {
            1 => first.position.to_string(),
            _ => format!("{}-{}", first.position, last.position),
        };
        let was = rows.iter().map(|(_, from, _)| tokens(*from)).sum();
        let is = rows.iter().map(|(.., to)| tokens(*to)).sum();
        let change = change(*from, *to).to_owned();
        let [was, is] = [was, is].map(output::number);
        Some([entries, what(rows.first()?).to_owned(), change, was, is, why(rows.first()?)])
    };
    if differences.is_empty() {
        output::message("the same messages");
    } else {
        let header = ["entries", "what", "change", "was", "is", "why"];
        let table = output::table(header, &[0, 1, 2, 5], differences.chunk_by(shares).filter_map(row));
        output::rows(&output::text_without(&table, &[3, 1]))?;
    }
    if let (Some(from), Some(to)) = (timeline.call(before), timeline.call(after)) {
        let sent = |call| timeline.preamble(call).map(|sent| sent.call);
        if sent(before) != sent(after) {
            output::line("\nThe system prompt or the tools differ.")?;
        }
        let size = |call: &Call| output::number(call.receipt.sent_tokens);
        output::line(&format!("\nCall {before} sent {} tokens, and call {after} {}.", size(from), size(to)))?;
        if let Some(broken) = to.receipt.prefix_break
            && after == before + 1
        {
            output::line(&format!("It does not extend the call before: {}.", broken.as_str()))?;
        }
    }
    Ok(())
}

/// A message, with its state at the two calls.
type Differing<'a> = (&'a Row, Option<&'a State>, Option<&'a State>);

#[derive(Serialize)]
struct Difference<'a> {
    change: &'static str,
    was: u64,
    is: u64,
    #[serde(flatten)]
    line: Line<'a>,
}

/// Returns the tokens of a message that a call sent.
fn tokens(state: Option<&State>) -> u64 {
    state.map_or(0, |state| state.tokens)
}

/// Describes the change of a message between the calls in a word or two.
fn change(from: Option<&State>, to: Option<&State>) -> &'static str {
    let shown = |state: Option<&State>| state.is_some_and(|state| state.is_shown);
    match (shown(from), shown(to)) {
        (false, true) if from.is_none() => "came",
        (false, _) => "came back",
        (true, false) => to.map_or("left", |to| to.fate.as_str()),
        (true, true) if tokens(to) > tokens(from) => "more is shown",
        (true, true) => to.map_or("changed", |to| to.fate.as_str()),
    }
}

/// Names the kind of a message.
fn what((row, ..): &Differing<'_>) -> &'static str {
    row.kind.name().unwrap_or("message")
}

/// Returns the reason that a message is not sent in full, or an empty text.
fn why((.., to): &Differing<'_>) -> String {
    match to {
        Some(to) if to.fate != Fate::Whole => to.fate.why(),
        _ => String::new(),
    }
}

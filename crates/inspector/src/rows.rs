//! The rows of a page: the messages of a session, with their treatment at the selected call.

use lookback_content::text::number;
use lookback_replay::timeline::{Row, RowKind, State, Timeline};
use lookback_wire::message::PartRef;
use maud::{Markup, PreEscaped, html};

use crate::fragments::Fragments;
use crate::pairs::Pairs;
use crate::story::Contents;
use crate::text::{beginning, visible};

/// The most characters in a row's preview.
const PREVIEW: usize = 110;
/// The most rows that a browser builds at once. Longer sessions delay the rows that are not sent.
const MOST_AT_ONCE: usize = 1_000;
/// The number of delayed rows in one block.
const ASLEEP: usize = 500;

/// Renders all rows as they are at a call.
///
/// In a long session, rows that are not sent go into `noscript` elements. Browsers without scripts read them at once.
/// Other browsers see the sent rows first, and the script then unpacks the rest.
pub(crate) fn list(timeline: &Timeline, call: u64, contents: Contents, fragments: &Fragments) -> Markup {
    let pairs = Pairs::from_rows(&timeline.rows);
    let rows: Vec<(usize, &Row)> = timeline.rows.iter().enumerate().collect();
    let is_sent = |row: &Row| rows.len() <= MOST_AT_ONCE || row.at(call).is_some_and(|state| state.is_shown);
    html! {
        div #rows {
            @for run in rows.chunk_by(|(_, a), (_, b)| is_sent(a) == is_sent(b)) {
                @if run.first().is_some_and(|(_, row)| is_sent(row)) {
                    (some(run, call, contents, fragments, &pairs))
                } @else {
                    @for rows in run.chunks(ASLEEP) { noscript { (some(rows, call, contents, fragments, &pairs)) } }
                }
            }
        }
    }
}

/// Renders a run of rows.
fn some(rows: &[(usize, &Row)], call: u64, contents: Contents, fragments: &Fragments, pairs: &Pairs) -> Markup {
    html! {
        @for (index, row) in rows {
            @let at = row.states.partition_point(|state| state.call <= call).checked_sub(1);
            @let state = at.and_then(|at| row.states.get(at));
            details id=(format!("r{index}")) class=(class(row, state)) {
                summary {
                    span.entry { (row.position) }
                    span.role { (row.kind.name().unwrap_or(row.role())) }
                    span.says { @if contents == Contents::Shown { (says(row, pairs)) } }
                    span.fate { (state.map_or("", fate)) }
                    span.tokens { (number(state.map_or(row.tokens, |state| if state.is_shown { state.tokens } else { row.tokens }))) }
                }
                p.why { (state.map(why).unwrap_or_default()) }
                @if contents == Contents::Shown && fragments.are_few() {
                    @let form = at.and_then(|at| fragments.state_form(*index, at)).unwrap_or(0);
                    div.body { (PreEscaped(fragments.form(*index, form).unwrap_or_default())) }
                }
            }
        }
    }
}

fn class(row: &Row, state: Option<&State>) -> String {
    let role = match row.kind {
        RowKind::Message => row.role(),
        _ => "own",
    };
    let is = match state {
        None => "later",
        Some(state) if !state.is_shown => "gone",
        Some(_) => "sent",
    };
    format!("row {role} {is} {}", state.map_or("", fate))
}

/// Returns a row's treatment in a word.
pub(crate) fn fate(state: &State) -> &'static str {
    state.fate.as_str()
}

/// Returns a row's treatment and its reason.
pub(crate) fn why(state: &State) -> String {
    let since = if state.is_shown { String::new() } else { format!(" at call {}", state.call) };
    format!("{}{since}: {}", fate(state), state.fate.why())
}

/// Renders the preview of a message: its first words, the tools that it calls, and those whose results it has.
fn says(row: &Row, pairs: &Pairs) -> Markup {
    let calls: Vec<&str> = row.message.tool_calls().map(|(_, call)| call.name.as_str()).collect();
    let of: Vec<&str> = row
        .message
        .tool_results()
        .filter_map(|(_, result)| pairs.call(&result.call_id).map(|(name, _)| name))
        .collect();
    let text = row.message.parts().find_map(|part| match part {
        PartRef::Text(text) if !text.trim().is_empty() => Some(beginning(text, PREVIEW)),
        PartRef::ToolResult(result) => {
            result.content.iter().find_map(|item| item.text()).map(|text| beginning(text, PREVIEW))
        }
        PartRef::Reasoning(reasoning) if !reasoning.text.is_empty() && calls.is_empty() => {
            Some(beginning(&reasoning.text, PREVIEW))
        }
        _ => None,
    });
    html! {
        @for name in &of { b.result { "← " (visible(name)) } " " }
        @if let Some(text) = &text { (visible(text)) " " }
        @for name in &calls { b.call { "→ " (visible(name)) } " " }
    }
}

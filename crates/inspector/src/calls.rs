//! Descriptions of a call: what it sent and cost, and its events.

use lookback_content::text::number;
use lookback_engine::plan::Occasion;
use lookback_replay::lost::ClientCompaction;
use lookback_replay::prices::money;
use lookback_replay::receipt::CallReceipt;
use lookback_replay::timeline::{Call, RowKind, Timeline};
use maud::{Markup, html};

use crate::by_client;
use crate::numbers::{percent, time};
use crate::story::{Contents, Parts, Story};
use crate::text::{encoded, visible};

/// The most names that are listed for one call.
const MOST_NAMES: usize = 12;

/// Describes calls.
pub(crate) struct Calls<'a> {
    timeline: &'a Timeline,
    by_client: &'a [ClientCompaction],
    contents: Contents,
    /// The indices of rows that Lookback added for the model: summaries, notes and indexes.
    added: Vec<usize>,
}

impl<'a> Calls<'a> {
    pub(crate) fn new(story: &'a Story<'_>, contents: Contents) -> Calls<'a> {
        let Story { timeline, by_client, .. } = story;
        let is_added = |kind| matches!(kind, RowKind::Summary | RowKind::Note | RowKind::Index);
        let added =
            timeline.rows.iter().enumerate().filter(|(_, row)| is_added(row.kind)).map(|(index, _)| index).collect();
        Calls { timeline, by_client, contents, added }
    }

    /// Describes one call.
    pub(crate) fn one(&self, call: &Call) -> Markup {
        let Calls { timeline, by_client, contents, .. } = *self;
        html! {
            (sent(timeline, call))
            (self.added(call.receipt.number))
            (by_client::told(by_client, timeline, call.receipt.number, contents))
            (events(timeline, call, contents))
        }
    }

    /// Returns whether a call has an event: a compaction, also by the client, a prefix break, a cold cache or missed
    /// names.
    pub(crate) fn is_event(&self, call: &Call) -> bool {
        let CallReceipt { number, prefix_break, cold, .. } = call.receipt;
        let is_compacted = self.timeline.compactions.iter().any(|mark| mark.call == number);
        let is_compacted = is_compacted || self.by_client.iter().any(|by_client| by_client.call == number);
        is_compacted || prefix_break.is_some() || cold || !call.missed.is_empty()
    }

    /// Lists the summary, the fact sheet and other notes that a call sent, with links.
    fn added(&self, call: u64) -> Markup {
        let shown = self.added.iter().filter_map(|index| {
            let row = self.timeline.rows.get(*index)?;
            row.at(call).filter(|state| state.is_shown).map(|state| (*index, row, state))
        });
        let shown: Vec<_> = shown.collect();
        let older = shown.len().saturating_sub(MOST_NAMES);
        html! {
            @if !shown.is_empty() {
                p.note {
                    "In addition to the conversation, it sent "
                    @if older > 0 { (number(older as u64)) " older notes, " }
                    @for (place, (index, row, state)) in shown.iter().skip(older).enumerate() {
                        @if place > 0 { ", " }
                        a href=(format!("#r{index}")) { (row.kind.name().unwrap_or_default()) " " (row.position) }
                        " (" (number(state.tokens)) " tokens)"
                    }
                    "."
                }
            }
        }
    }
}

/// Describes what a call sent and cost.
fn sent(timeline: &Timeline, call: &Call) -> Markup {
    let CallReceipt { number: at, sent_tokens, cache_read_tokens, cost, cost_without_window, .. } = call.receipt;
    html! {
        p {
            "Call " b { (at) } " of " (timeline.calls.len()) " sent " b { (number(sent_tokens)) " tokens" }
            " in " (number(call.receipt.messages)) " messages, " (percent(cache_read_tokens, sent_tokens))
            " of them read from the cache. It cost " b { (money(cost)) }
            ", and would have cost " (money(cost_without_window)) " without a window."
            @if let Some(time) = call.time.and_then(time) { " Answered at " (time) " UTC." }
            @if call.receipt.reported { " The provider reported the tokens." }
        }
    }
}

/// Describes the events of a call.
fn events(timeline: &Timeline, call: &Call, contents: Contents) -> Markup {
    let mark = timeline.compactions.iter().rfind(|mark| mark.call == call.receipt.number);
    html! {
        @if let Some(mark) = mark {
            p.event {
                "Before it, the window was cut from " (number(mark.before.size.tokens)) " to "
                (number(mark.after.size.tokens)) " tokens: " (Occasion::compaction(mark.occasion))
                @if let Some(limit) = mark.limit {
                    ", because " (number(limit.actual)) " " (limit.measure) " exceed the limit of " (number(limit.limit))
                    "; the target is " (number(limit.target))
                }
                "."
            }
        }
        @if let Some(broken) = call.receipt.prefix_break {
            p.event { "It does not extend the call before, so the cache could not be read to its end: " (broken.as_str()) "." }
        } @else if call.receipt.cold {
            p.event { "The cache had contained its beginning, but had expired." }
        }
        @if !call.missed.is_empty() && contents == Contents::Shown {
            p.event.bad {
                "The answer used names that had left: "
                @for (index, missed) in call.missed.iter().take(MOST_NAMES).enumerate() {
                    @if index > 0 { ", " }
                    code { (visible(&missed.name)) }
                    @if let Some(row) = timeline.rows.iter().position(|row| row.position == missed.position) {
                        " (" a href=(format!("#r{row}")) { "message " (missed.position) } ", " (missed.cause) ")"
                    }
                }
                @if call.missed.len() > MOST_NAMES { ", and " (call.missed.len() - MOST_NAMES) " more" }
                "."
            }
        } @else if !call.missed.is_empty() {
            p.event.bad { "The answer used " (call.missed.len()) " names that had left." }
        }
    }
}

/// Renders links to the calls before and after, for browsers without scripts.
pub(crate) fn neighbors(story: &Story<'_>, call: u64) -> Markup {
    let name = encoded(story.name);
    let link = |call: u64, says: &str| html! { a href=(address(Some(&name), call)) { (says) } " " };
    html! {
        p {
            @if call > 1 { (link(call - 1, "the call before")) }
            @if call < story.newest_call() { (link(call + 1, "the next call")) }
        }
    }
}

/// Renders a table of all calls. Adjacent calls without events share a row.
pub(crate) fn table(story: &Story<'_>) -> Markup {
    let timeline = story.timeline;
    // The script handles a link to a call itself. Without a script, the server returns the page of that call.
    let page = match story.parts {
        Parts::Served { .. } => Some(encoded(story.name)),
        Parts::Packed => None,
    };
    let is_by_client = |call: &Call| story.by_client.iter().any(|by_client| by_client.call == call.receipt.number);
    let is_plain = |call: &Call| {
        let CallReceipt { compacted, prefix_break, cold, reported, .. } = call.receipt;
        let is_compacted = compacted || is_by_client(call);
        !is_compacted && prefix_break.is_none() && !cold && !reported && call.missed.is_empty()
    };
    html! {
        table.calls {
            thead { tr {
                th { "call" } th { "messages" } th { "sent" } th { "read" } th { "written" } th { "cost" }
                th { "without a window" } th.words { "what happened" }
            } }
            tbody {
                @for calls in timeline.calls.chunk_by(|a, b| is_plain(a) && is_plain(b)) {
                    @if let (Some(first), Some(last)) = (calls.first(), calls.last()) {
                        tr {
                            td { a href=(address(page.as_ref(), last.receipt.number)) data-call=(last.receipt.number) { (range(first.receipt.number, last.receipt.number)) } }
                            td { (range(first.receipt.messages, last.receipt.messages)) }
                            td { (number(calls.iter().map(|call| call.receipt.sent_tokens).sum())) }
                            td { (number(calls.iter().map(|call| call.receipt.cache_read_tokens).sum())) }
                            td { (number(calls.iter().map(|call| call.receipt.cache_write_tokens).sum())) }
                            td { (money(calls.iter().map(|call| call.receipt.cost).sum())) }
                            td { (money(calls.iter().map(|call| call.receipt.cost_without_window).sum())) }
                            td.words { (happened(first, is_by_client(first))) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the address of a call: an anchor in a packed page, or a page of the server.
fn address(page: Option<&impl std::fmt::Display>, call: u64) -> String {
    page.map_or_else(|| format!("#call-{call}"), |name| format!("session?name={name}&call={call}#call-title"))
}

fn range(from: u64, to: u64) -> String {
    if from == to { number(from) } else { format!("{}–{}", number(from), number(to)) }
}

fn happened(call: &Call, is_by_client: bool) -> String {
    let mut notes = Vec::new();
    if is_by_client {
        notes.push("compacted by the client".to_owned());
    }
    if call.receipt.compacted {
        notes.push(Occasion::compaction(call.receipt.occasion));
    } else if let Some(broken) = call.receipt.prefix_break {
        notes.push(broken.as_str().to_owned());
    }
    if call.receipt.cold && call.receipt.prefix_break.is_none() {
        notes.push("cache cold".to_owned());
    }
    match call.missed.len() {
        0 => {}
        1 => notes.push("used a name that had left".to_owned()),
        names => notes.push(format!("used {names} names that had left")),
    }
    notes.join("; ")
}

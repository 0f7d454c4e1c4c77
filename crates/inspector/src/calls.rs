//! What a call sent and cost, in words.

use lookback::receipt::CallReceipt;
use lookback::timeline::{Call, Timeline};
use lookback::words::{self, money, number};
use maud::{Markup, html};

use crate::numbers::{percent, time};
use crate::story::Contents;
use crate::text::visible;

/// The most names that are listed of one call.
const MOST_NAMES: usize = 12;

/// Describes one call.
pub(crate) fn one(timeline: &Timeline, call: &Call, contents: Contents) -> Markup {
    let CallReceipt { number: at, sent_tokens, cache_read_tokens, cost, cost_without_window, .. } = call.receipt;
    let mark = timeline.compactions.iter().rfind(|mark| mark.call == at);
    html! {
        p {
            "Call " b { (at) } " of " (timeline.calls.len()) " sent " b { (number(sent_tokens)) " tokens" }
            " in " (number(call.receipt.messages)) " messages, " (percent(cache_read_tokens, sent_tokens))
            " of them read from the cache. It cost " b { (money(cost)) }
            ", and would have cost " (money(cost_without_window)) " without a window."
            @if let Some(time) = call.time.and_then(time) { " Answered at " (time) " UTC." }
            @if call.receipt.reported { " The provider reported the tokens." }
        }
        @if let Some(mark) = mark {
            p.event {
                "Before it, the window was cut from " (number(mark.before.size.tokens)) " to "
                (number(mark.after.size.tokens)) " tokens: " (words::compaction(mark.occasion))
                @if let Some(limit) = mark.limit {
                    ", because " (number(limit.actual)) " " (limit.measure) " exceed the limit of " (number(limit.limit))
                    "; the target is " (number(limit.target))
                }
                "."
            }
        }
        @if let Some(broken) = call.receipt.prefix_break {
            p.event { "It does not extend the call before, so the cache could not be read to its end: " (words::prefix_break(broken)) "." }
        } @else if call.receipt.cold {
            p.event { "The cache had its beginning, and it had expired." }
        }
        @if !call.missed.is_empty() && contents == Contents::Shown {
            p.event.bad {
                "The answer used names that had left: "
                @for (index, missed) in call.missed.iter().take(MOST_NAMES).enumerate() {
                    @if index > 0 { ", " }
                    code { (visible(&missed.name)) }
                    @if let Some(row) = timeline.rows.iter().position(|row| row.position == missed.position) {
                        " (" a href=(format!("#r{row}")) { "message " (missed.position) } ")"
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

/// Renders a table of all calls. Neighbors without events share a row.
pub(crate) fn table(timeline: &Timeline) -> Markup {
    let is_plain = |call: &Call| {
        let CallReceipt { compacted, prefix_break, cold, reported, .. } = call.receipt;
        !compacted && prefix_break.is_none() && !cold && !reported && call.missed.is_empty()
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
                            td { a href=(format!("#call-{}", last.receipt.number)) data-call=(last.receipt.number) { (range(first.receipt.number, last.receipt.number)) } }
                            td { (range(first.receipt.messages, last.receipt.messages)) }
                            td { (number(calls.iter().map(|call| call.receipt.sent_tokens).sum())) }
                            td { (number(calls.iter().map(|call| call.receipt.cache_read_tokens).sum())) }
                            td { (number(calls.iter().map(|call| call.receipt.cache_write_tokens).sum())) }
                            td { (money(calls.iter().map(|call| call.receipt.cost).sum())) }
                            td { (money(calls.iter().map(|call| call.receipt.cost_without_window).sum())) }
                            td.words { (happened(first)) }
                        }
                    }
                }
            }
        }
    }
}

fn range(from: u64, to: u64) -> String {
    if from == to { number(from) } else { format!("{}–{}", number(from), number(to)) }
}

fn happened(call: &Call) -> String {
    let mut notes = Vec::new();
    if call.receipt.compacted {
        notes.push(words::compaction(call.receipt.occasion));
    }
    let broken = call.receipt.prefix_break.filter(|_| !call.receipt.compacted);
    notes.extend(broken.map(|broken| words::prefix_break(broken).to_owned()));
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

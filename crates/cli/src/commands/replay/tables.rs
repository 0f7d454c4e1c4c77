//! The results of a replay as tables.

use lookback_engine::plan::Occasion;
use lookback_replay::replay::{Groups, ReplayedCall, Report, Reported};

use crate::commands::causes::causes;
use crate::output;

/// The most sessions in a table. It shows those that cost the most.
const MOST_SESSIONS: usize = 40;

/// Returns a table of calls. Consecutive calls share a row if they only extend each other.
pub(super) fn calls(calls: &[ReplayedCall]) -> String {
    let mut rows: Vec<[String; 13]> = Vec::new();
    for calls in calls.chunk_by(|a, b| !happens(a) && !happens(b) && over(a) == over(b)) {
        rows.extend(folded(calls));
    }
    let header = [
        "call",
        "messages",
        "kept",
        "truncated",
        "cleared",
        "dropped",
        "sent",
        "read",
        "written",
        "cost",
        "reported",
        "reported cost",
        "what happened",
    ];
    let mut table = output::table(header, &[12], rows);
    if calls.iter().all(|call| call.reported.is_none()) {
        output::hide(&mut table, &[10, 11]);
    }
    output::text_without(&table, &[4, 3, 2, 8, 7, 5, 1])
}

/// Returns whether a call has an event, and so does more than extend the previous one.
fn happens(call: &ReplayedCall) -> bool {
    !events(call).is_empty()
}

/// Describes the events at calls that share a row, or directly before them.
fn note(calls: &[ReplayedCall]) -> String {
    let mut notes = calls.first().map_or_else(Vec::new, events);
    let capped = calls.iter().map(|call| call.capped).sum();
    if capped > 0 {
        notes.push(several(capped, "a long output truncated as it arrived", "long outputs truncated as they arrived"));
    }
    let missed = calls.iter().flat_map(|call| call.missed.values()).sum();
    if missed > 0 {
        notes.push(several(missed, "a missed text", "missed texts"));
    }
    let rereads = calls.iter().map(|call| call.rereads).sum();
    if rereads > 0 {
        notes.push(several(rereads, "a result read again", "results read again"));
    }
    notes.join(", ")
}

fn several(count: u64, one: &str, more: &str) -> String {
    if count == 1 { one.to_owned() } else { format!("{count} {more}") }
}

/// Describes the events at a call, apart from outputs that were truncated as they arrived.
fn events(call: &ReplayedCall) -> Vec<String> {
    let mut notes = Vec::new();
    if call.groups.summarized > 0 {
        notes.push("a summary replaces what it covers".to_owned());
    } else if call.groups != Groups::default() {
        notes.push(Occasion::compaction(call.occasion));
    } else if call.charge.breaks {
        notes.push("does not extend the previous call".to_owned());
    } else if call.charge.cold {
        notes.push("cache cold".to_owned());
    }
    if call.repairs > 0 {
        notes.push(several(call.repairs, "a stand-in for a missing result", "stand-ins for missing results"));
    }
    notes
}

/// Describes the limits that a window exceeds, and the reason that nothing more can leave it.
fn over(call: &ReplayedCall) -> Option<String> {
    let limits: Vec<_> =
        call.over.iter().map(|excess| format!("{} {}", output::number(excess.limit), excess.measure)).collect();
    let pin = call.pinned.map_or("waits for the end of a tool loop".to_owned(), |pin| format!("pinned: {pin}"));
    (!limits.is_empty()).then(|| format!("over {} ({pin})", limits.join(", ")))
}

/// Returns a row for one call, or for several calls with the sums of their tokens and costs.
fn folded(calls: &[ReplayedCall]) -> Option<[String; 13]> {
    let (first, last) = (calls.first()?, calls.last()?);
    let range = |from: u64, to: u64| if calls.len() == 1 { from.to_string() } else { format!("{from}-{to}") };
    let count = |count: u64| if count == 0 { "-".to_owned() } else { count.to_string() };
    let sum = |part: fn(&ReplayedCall) -> u64| output::number(calls.iter().map(part).sum());
    let reported: Vec<&Reported> = calls.iter().filter_map(|call| call.reported.as_ref()).collect();
    let or_dash = |text: String| if reported.is_empty() { "-".to_owned() } else { text };
    let notes: Vec<String> =
        [note(calls), over(first).unwrap_or_default()].into_iter().filter(|note| !note.is_empty()).collect();
    Some([
        range(first.number, last.number),
        range(first.messages, last.messages),
        count(first.groups.kept),
        count(first.groups.truncated + calls.iter().map(|call| call.capped).sum::<u64>()),
        count(first.groups.cleared),
        count(first.groups.dropped),
        sum(|call| call.charge.sent()),
        sum(|call| call.charge.read),
        sum(|call| call.charge.written),
        output::money(calls.iter().map(|call| call.charge.cost).sum()),
        or_dash(output::number(reported.iter().map(|reported| reported.sent_tokens).sum())),
        or_dash(output::money(reported.iter().map(|reported| reported.cost).sum())),
        notes.join("; "),
    ])
}

/// Returns a table of sessions, the most expensive first.
pub(super) fn sessions(reports: &[Report]) -> String {
    let mut sorted: Vec<&Report> = reports.iter().collect();
    sorted.sort_by(|a, b| b.cost.total_cmp(&a.cost));
    let row = |report: &&Report| {
        let reported = |part: fn(&Reported) -> String| report.reported.as_ref().map_or("-".to_owned(), part);
        [
            output::plain(&report.id) + if report.cut_short { " (cut short)" } else { "" },
            output::number(report.calls),
            output::number(report.sent_tokens),
            output::number(report.max_window_tokens),
            output::number(report.compactions),
            output::number(report.over_limit_calls),
            output::money(report.cost),
            reported(|reported| output::number(reported.sent_tokens)),
            reported(|reported| output::money(reported.cost)),
        ]
    };
    let header =
        ["session", "calls", "tokens sent", "largest", "compactions", "over", "cost", "reported", "reported cost"];
    let mut table = output::table(header, &[0], sorted.iter().take(MOST_SESSIONS).map(row));
    if reports.iter().all(|report| report.reported.is_none()) {
        output::hide(&mut table, &[7, 8]);
    }
    let text = output::text_without(&table, &[3, 4, 5]);
    match sorted.len().checked_sub(MOST_SESSIONS).filter(|more| *more > 0) {
        Some(more) => format!("{text}\n({more} more; use --json to see all)"),
        None => text,
    }
}

/// Returns a table of policies, each compared with the first.
pub(super) fn totals(totals: &[(&str, &Report)]) -> String {
    let base = totals.first().map_or(0.0, |(_, report)| report.cost);
    let row = |(label, report): &(&str, &Report)| {
        let share = |part: u64, whole: u64| {
            #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
            let share = if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
            format!("{share:.1} %")
        };
        let times = |cost: f64| if base > 0.0 { format!("{:.2}", cost / base) } else { "-".to_owned() };
        [
            output::plain(label),
            output::number(report.calls),
            output::number(report.sent_tokens),
            share(report.cache_read_tokens, report.sent_tokens),
            output::number(report.max_window_tokens),
            output::number(report.compactions),
            output::number(report.prefix_breaks),
            output::number(report.over_limit_calls),
            report.invalid_requests.to_string(),
            share(report.missed_identifiers, report.reused_identifiers),
            share(report.missed_spans, report.copied_spans),
            share(report.missed_calls, report.calls),
            causes(report),
            output::money(report.cost),
            times(report.cost),
            times(report.cost + report.recall_cost),
        ]
    };
    let header = [
        "policy",
        "calls",
        "tokens sent",
        "from cache",
        "largest",
        "compactions",
        "breaks",
        "over",
        "invalid",
        "missed",
        "spans",
        "calls missing",
        "causes",
        "cost",
        "times",
        "with recalls",
    ];
    output::text_without(&output::table(header, &[0], totals.iter().map(row)), &[6, 4, 3, 1, 5, 8, 7, 12, 11, 10, 9])
}

/// Compares the usage that the provider reported with the replay of the same calls. `None` if it reported none.
pub(super) fn compared(label: &str, total: &Report) -> Option<String> {
    let reported = total.reported.as_ref().filter(|reported| reported.cost > 0.0 && reported.sent_tokens > 0)?;
    #[allow(clippy::cast_precision_loss, reason = "shown with two decimals")]
    let tokens = reported.replayed_tokens as f64 / reported.sent_tokens as f64;
    Some(format!(
        "\nThe provider reported {} calls: {} tokens, {} at these prices. Replayed under `{}`, the same calls have {} \
         tokens and cost {}: {tokens:.2} times the tokens and {:.2} times the cost.",
        output::number(reported.calls),
        output::number(reported.sent_tokens),
        output::money(reported.cost),
        output::plain(label),
        output::number(reported.replayed_tokens),
        output::money(reported.replayed_cost),
        reported.replayed_cost / reported.cost,
    ))
}

/// Explains why the cost of a replay differs from the reported cost.
pub(super) fn why(preamble_from_usage: bool) -> String {
    let preamble = if preamble_from_usage {
        "A system prompt and tools that were not recorded are estimated from the usage of the first call."
    } else {
        "A system prompt and tools that were not recorded are not counted (--preamble-from-usage estimates them)."
    };
    format!(
        "{preamble} Claude's tokens are estimated. Without recorded times, the cache never expires. A client that \
         compacted the conversation itself sent less."
    )
}

/// Explains the columns of the tables.
pub(super) fn legend(with_calls: bool) -> String {
    let of_calls = "\
kept, truncated, cleared, dropped: groups that a compaction kept, truncated, cleared or dropped
sent, read, written: tokens of the request, and those of them that the provider's cache read or wrote
";
    let of_totals = "\
largest: tokens of the largest request; breaks: requests that do not extend the previous one
over: calls whose window exceeds a limit, because the rest is pinned or has to wait
missed: reused identifiers that the window no longer contained; spans: the same for copied passages
calls missing: calls that missed either; causes: how the missed texts had left the window
times: cost relative to the first policy
with recalls: the same, if each of those calls searches the log for the missed texts and reads them again";
    format!("{}{of_totals}", if with_calls { of_calls } else { "" })
}

//! What a replay came to, as tables for people.

use lookback::replay::{Call, Groups, Report, Reported};

use crate::output;

/// The most sessions that a table has: those that cost most.
const MOST_SESSIONS: usize = 40;

/// The calls: those at which something happens, and the others folded.
pub(super) fn calls(calls: &[Call]) -> String {
    let mut rows: Vec<[String; 13]> = Vec::new();
    for calls in calls.chunk_by(|a, b| !happens(a) && !happens(b) && over(a) == over(b)) {
        rows.extend(folded(calls));
    }
    let header = [
        "call",
        "messages",
        "kept",
        "cut",
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

/// Whether a call does more than extend the one before.
fn happens(call: &Call) -> bool {
    !note(call).is_empty()
}

/// What happened at a call, or right before it.
fn note(call: &Call) -> String {
    let several =
        |count: u64, one: &str, more: &str| if count == 1 { one.to_owned() } else { format!("{count} {more}") };
    let mut notes = Vec::new();
    if call.groups.summarized > 0 {
        notes.push("a summary takes the place of what it covers".to_owned());
    } else if call.groups != Groups::default() {
        notes.push("compaction".to_owned());
    } else if call.charge.breaks {
        notes.push("does not extend the call before".to_owned());
    } else if call.charge.cold {
        notes.push("cache cold".to_owned());
    }
    if call.capped > 0 {
        notes.push(several(call.capped, "a long output cut as it arrived", "long outputs cut as they arrived"));
    }
    if call.repairs > 0 {
        notes.push(several(call.repairs, "a stand-in for a missing result", "stand-ins for missing results"));
    }
    notes.join(", ")
}

/// By how much a window is over the limits, and why nothing more could leave it.
fn over(call: &Call) -> Option<String> {
    let limits: Vec<_> =
        call.over.iter().map(|excess| format!("{} {}", output::number(excess.limit), excess.measure)).collect();
    let pin = call.pinned.map_or("it waits".to_owned(), |pin| format!("pinned: {pin}"));
    (!limits.is_empty()).then(|| format!("over {} ({pin})", limits.join(", ")))
}

/// A call in a row; calls that only extend each other in one, with the sums of what they cost.
fn folded(calls: &[Call]) -> Option<[String; 13]> {
    let (first, last) = (calls.first()?, calls.last()?);
    let range = |from: u64, to: u64| if calls.len() == 1 { from.to_string() } else { format!("{from}-{to}") };
    let count = |count: u64| if count == 0 { "-".to_owned() } else { count.to_string() };
    let sum = |part: fn(&Call) -> u64| output::number(calls.iter().map(part).sum());
    let reported: Vec<&Reported> = calls.iter().filter_map(|call| call.reported.as_ref()).collect();
    let told = |text: String| if reported.is_empty() { "-".to_owned() } else { text };
    let notes: Vec<String> =
        [note(first), over(first).unwrap_or_default()].into_iter().filter(|note| !note.is_empty()).collect();
    Some([
        range(first.number, last.number),
        range(first.messages, last.messages),
        count(first.groups.kept),
        count(first.groups.truncated + first.capped),
        count(first.groups.cleared),
        count(first.groups.dropped),
        sum(|call| call.charge.sent()),
        sum(|call| call.charge.read),
        sum(|call| call.charge.written),
        output::money(calls.iter().map(|call| call.charge.cost).sum()),
        told(output::number(reported.iter().map(|reported| reported.sent_tokens).sum())),
        told(output::money(reported.iter().map(|reported| reported.cost).sum())),
        notes.join("; "),
    ])
}

/// The sessions, the dearest first.
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
        Some(more) => format!("{text}\n({more} more; --json has all)"),
        None => text,
    }
}

/// The policies, each beside the first.
pub(super) fn totals(totals: &[(&str, &Report)]) -> String {
    let base = totals.first().map_or(0.0, |(_, report)| report.cost);
    let row = |(label, report): &(&str, &Report)| {
        let share = |part: u64, whole: u64| {
            #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
            let share = if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
            format!("{share:.1} %")
        };
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
            output::money(report.cost),
            if base > 0.0 { format!("{:.2}", report.cost / base) } else { "-".to_owned() },
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
        "cost",
        "times",
    ];
    output::text_without(&output::table(header, &[0], totals.iter().map(row)), &[6, 4, 3, 1, 5, 8, 7, 9])
}

/// What the provider reported, beside what was replayed.
pub(super) fn compared(label: &str, total: &Report) -> Option<String> {
    let reported = total.reported.as_ref().filter(|reported| reported.cost > 0.0 && reported.sent_tokens > 0)?;
    #[allow(clippy::cast_precision_loss, reason = "shown with two decimals")]
    let tokens = reported.replayed_tokens as f64 / reported.sent_tokens as f64;
    Some(format!(
        "\nThe provider reported {} calls: {} tokens, {} at these prices. Replayed (`{}`), they are {} tokens and {}: {tokens:.2} and \
         {:.2} times that.",
        output::number(reported.calls),
        output::number(reported.sent_tokens),
        output::money(reported.cost),
        output::plain(label),
        output::number(reported.replayed_tokens),
        output::money(reported.replayed_cost),
        reported.replayed_cost / reported.cost,
    ))
}

/// Why a replay costs something else than what was lived.
pub(super) fn why(framed: bool) -> String {
    let preamble = if framed {
        "The system prompt and tools are taken from the first call's usage where they were not recorded"
    } else {
        "Of a recording without a system prompt and tools, neither is counted (--preamble-from-usage estimates them)"
    };
    format!(
        "{preamble}; without times nothing grows cold; Claude's tokens are estimated; and where the client itself compacted, it sent less \
         than everything."
    )
}

/// What the columns mean.
pub(super) fn legend(calls: bool) -> String {
    let of_calls = "\
kept, cut, cleared, dropped: groups of messages at a compaction
sent, read, written: tokens of the request, and of these read from the provider's cache and written to it
";
    let of_totals = "\
largest: tokens of the largest request; breaks: requests that do not extend the one before
over: calls whose window is over a limit: what is left of it may not be dropped, or not yet
missed: identifiers that the model wrote and its window no longer held; times: cost beside the first";
    format!("{}{of_totals}", if calls { of_calls } else { "" })
}

//! `lookback sessions calls`: shows what each model call of a session sent and cost.

use futures_lite::future::block_on;
use lookback_engine::plan::Occasion;
use lookback_replay::prices::Price;
use lookback_replay::receipt::Receipt;
use lookback_replay::receipt::{CallReceipt, PrefixBreak, ReceiptTotal};
use lookback_store::{LogName, Store};
use serde::Serialize;

use super::paid::PaidLine;
use crate::args::StoreArg;
use crate::failure::Failure;
use crate::{input, output};

pub(super) fn run(name: &str, prices: Option<&str>, place: &StoreArg, json: bool) -> Result<(), Failure> {
    let named = prices.map(input::price).transpose()?;
    let store = super::open(place)?;
    let log = super::log(&*store, name, place)?;
    let price = match named {
        Some(price) => price,
        None => usual_price(&*store, &log)?,
    };
    // The same counter as that of a replay without --model.
    let settings = input::settings(None);
    let receipt = block_on(Receipt::load(&*store, &log, &*settings.counter, &price))?;
    if json {
        receipt.calls.iter().try_for_each(output::json_line)?;
        return output::json_line(&Total::new(&receipt.total));
    }
    if receipt.calls.is_empty() {
        output::message("no model calls: a call is assumed before each assistant message, except one that comes first");
        return Ok(());
    }
    output::rows(&table(&receipt))?;
    output::line(&total(&receipt.total))?;
    if let Some(paid) = lookback_inspector::paid(&receipt.total.paid.into()) {
        output::line(&paid)?;
    }
    let [name, date, source] = [&price.name, &price.date, &price.source].map(|text| output::plain(text));
    output::line(&format!("Input at the prices `{name}` of {date} ({source})."))?;
    output::message(&format!("\n{LEGEND}"));
    if receipt.since > 0 {
        output::message(&format!("calls before entry {} are not known: contents were erased", receipt.since));
    }
    Ok(())
}

/// Returns the prices of a session's model, if they are known, or else the default ones.
fn usual_price(store: &dyn Store, log: &LogName) -> Result<Price, Failure> {
    match block_on(Price::for_log(store, log))? {
        Some(price) => Ok(price.clone()),
        None => input::price("anthropic-5m"),
    }
}

/// The line with the totals.
#[derive(Serialize)]
struct Total<'a> {
    #[serde(flatten)]
    total: &'a ReceiptTotal,
    saved: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid: Option<PaidLine>,
}

impl Total<'_> {
    fn new(total: &ReceiptTotal) -> Total<'_> {
        Total { total, saved: total.saved(), paid: PaidLine::new(&total.paid) }
    }
}

const LEGEND: &str = "\
sent, read, written: tokens of the request, and those of them that the provider's cache read or wrote
no window: what the call would have cost if it had sent the whole history of its branch";

/// Returns a table of calls, with a last row of sums. Consecutive calls without events share a row.
fn table(receipt: &Receipt) -> String {
    let mut rows: Vec<[String; 9]> = Vec::new();
    for calls in receipt.calls.chunk_by(|a, b| note(a).is_empty() && note(b).is_empty() && a.reported == b.reported) {
        rows.extend(folded(calls));
    }
    let total = &receipt.total;
    rows.push([
        "total".to_owned(),
        String::new(),
        output::number(total.sent_tokens),
        output::number(total.cache_read_tokens),
        output::number(total.cache_write_tokens),
        output::money(total.cost),
        output::money(total.cost_without_window),
        output::number(total.reported_calls),
        String::new(),
    ]);
    let header = ["call", "messages", "sent", "read", "written", "cost", "no window", "reported", "what happened"];
    let mut table = output::table(header, &[8], rows);
    if total.reported_calls == 0 {
        output::hide(&mut table, &[7]);
    }
    output::text_without(&table, &[4, 7, 3, 1])
}

/// Returns a row for one call, or for several calls with the sums of their tokens and costs.
fn folded(calls: &[CallReceipt]) -> Option<[String; 9]> {
    let (first, last) = (calls.first()?, calls.last()?);
    let range = |from: u64, to: u64| if from == to { from.to_string() } else { format!("{from}-{to}") };
    let sum = |part: fn(&CallReceipt) -> u64| output::number(calls.iter().map(part).sum());
    let cost = |part: fn(&CallReceipt) -> f64| output::money(calls.iter().map(part).sum());
    Some([
        range(first.number, last.number),
        range(first.messages, last.messages),
        sum(|call| call.sent_tokens),
        sum(|call| call.cache_read_tokens),
        sum(|call| call.cache_write_tokens),
        cost(|call| call.cost),
        cost(|call| call.cost_without_window),
        if first.reported { "yes" } else { "-" }.to_owned(),
        note(first),
    ])
}

/// Describes the events since the previous call.
fn note(call: &CallReceipt) -> String {
    let mut notes = Vec::new();
    if call.compacted {
        notes.push(Occasion::compaction(call.occasion));
    }
    let broken = call.prefix_break.filter(|broken| *broken != PrefixBreak::Compaction).map(PrefixBreak::as_str);
    let cold = (call.cold && call.prefix_break.is_none() && call.occasion.is_none()).then_some("cache cold");
    notes.extend([broken, cold].into_iter().flatten().map(str::to_owned));
    notes.join(", ")
}

/// Returns a sentence about the cost that the window saved.
fn total(total: &ReceiptTotal) -> String {
    let saved = total.saved();
    let (word, amount) = if saved < 0.0 { ("more", -saved) } else { ("less", saved) };
    format!("\n{} of input, {} {word} than without a window.", output::money(total.cost), output::money(amount))
}

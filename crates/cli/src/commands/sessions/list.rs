//! `lookback sessions list`: lists the sessions in a store, on request with their costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::transcript::Millis;
use lookback_replay::prices::{Price, money};
use lookback_replay::receipt::{Paid, PaidTotal, Receipt};
use lookback_store::{LogInfo, LogName, Store};
use serde::Serialize;

use super::paid::PaidLine;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::{input, json, output};

const LEGEND: &str = "\
paid: the input of the calls with a usage report, at the prices of the session's model, if they are known
everything: an estimate for the same calls with the whole history; without a cut, it is what was paid";

/// Lists the sessions. `costs` is whether their logs are read for the costs that providers reported.
pub(super) fn run(store: &Arc<dyn Store>, costs: bool, json: bool) -> Result<ExitCode, Failure> {
    let mut logs = block_on(store.list(""))?;
    let mut is_damaged = super::warn_of_damaged(&**store, &logs)?;
    logs.retain(|log| log.records > 0);
    let mut listed: BTreeMap<_, _> =
        logs.iter().filter(|log| !log.name.is_derived()).map(|log| (log.name.clone(), Listed::from(log))).collect();
    // A session may have facts but no messages.
    for (session, log) in super::with_facts(&logs) {
        let only_facts = LogInfo::new(session.clone(), 0, 0).created(log.created).used(log.used);
        let facts = super::facts(store, &session)?;
        listed.entry(session.clone()).or_insert_with(|| Listed::from(&only_facts)).facts = facts;
    }
    let mut sum = PaidTotal::default();
    if costs {
        let bar = output::progress(listed.len() as u64, "sessions");
        for session in listed.values_mut() {
            match paid(&**store, &session.session) {
                Ok(paid) => {
                    session.paid = PaidLine::new(&paid);
                    sum = sum + paid.into();
                }
                // The session is listed all the same.
                Err(Failure::Store(error)) if error.is_log_specific() => {
                    output::warning(&error.to_string());
                    is_damaged = true;
                }
                Err(error) => return Err(error),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
    }
    let code = ExitCode::from(u8::from(is_damaged));
    if json {
        for session in listed.values() {
            output::json_line(session)?;
        }
        return Ok(code);
    }
    let row = |session: &Listed| {
        let [entries, facts, bytes] = [session.entries, session.facts, session.bytes].map(output::number);
        let [created, used] = [session.created, session.used].map(super::minute);
        let costs = session.paid.as_ref().map(|paid| (paid.cost, paid.everything.unwrap_or(paid.cost)));
        let (paid, everything) =
            costs.map_or(("-".to_owned(), "-".to_owned()), |(paid, all)| (money(paid), money(all)));
        [output::plain(session.session.as_str()), entries, facts, bytes, created, used, paid, everything]
    };
    let header =
        ["session", "entries", "facts", "bytes", "created (UTC)", "last used (UTC)", "paid", "everything, about"];
    let mut table = output::table(header, &[0, 4, 5], listed.values().map(row));
    if !costs {
        output::hide(&mut table, &[6, 7]);
    }
    output::line(&output::text_of(&table))?;
    if costs {
        let says = lookback_inspector::paid(&sum);
        output::line(&says.unwrap_or_else(|| "No provider has reported the usage of a call.".to_owned()))?;
        output::message(&format!("\n{LEGEND}"));
    }
    Ok(code)
}

/// Returns the costs that the provider reported for the calls of a session. Nothing if the prices of its model are
/// unknown.
fn paid(store: &dyn Store, session: &LogName) -> Result<Paid, Failure> {
    let Some(price) = block_on(Price::for_log(store, session))? else { return Ok(Paid::default()) };
    let counter = input::settings(None).counter;
    Ok(block_on(Receipt::load(store, session, &*counter, price))?.total.paid)
}

/// A line of `sessions list`.
#[derive(Serialize)]
struct Listed {
    session: LogName,
    entries: u64,
    facts: u64,
    bytes: u64,
    #[serde(serialize_with = "json::rfc3339")]
    created: Option<Millis>,
    #[serde(serialize_with = "json::rfc3339")]
    used: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid: Option<PaidLine>,
}

impl From<&LogInfo> for Listed {
    fn from(log: &LogInfo) -> Self {
        let LogInfo { name, records, bytes, created, used, .. } = log;
        let (session, created, used) = (name.clone(), *created, *used);
        Listed { session, entries: *records, facts: 0, bytes: *bytes, created, used, paid: None }
    }
}

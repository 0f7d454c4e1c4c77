//! `lookback sessions list`: lists the sessions in a store, on request with their costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::transcript::Millis;
use lookback_replay::prices::money;
use lookback_replay::receipt::{Paid, Receipt};
use lookback_store::{LogInfo, LogName, Store, StoreError};
use serde::Serialize;

use super::calls::usual_price;
use super::paid::PaidLine;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::{input, json, output};

const LEGEND: &str = "\
paid: the input of the calls with a usage report, at the prices of the session's model, or else of `anthropic-5m`
everything: about what these calls would have cost if they had sent the whole history (simulated)";

/// Lists the sessions. `costs` is whether their logs are read for the costs that providers reported.
pub(super) fn run(store: &Arc<dyn Store>, costs: bool, json: bool) -> Result<ExitCode, Failure> {
    let mut logs = block_on(store.list(""))?;
    let is_damaged = super::warn_of_damaged(&**store, &logs)?;
    logs.retain(|log| log.records > 0);
    let code = ExitCode::from(u8::from(is_damaged));
    let mut listed: BTreeMap<_, _> =
        logs.iter().filter(|log| !log.name.is_derived()).map(|log| (log.name.clone(), Listed::from(log))).collect();
    // A session may have facts but no messages.
    for (session, log) in super::with_facts(&logs) {
        let only_facts = LogInfo::new(session.clone(), 0, 0).created(log.created).used(log.used);
        let facts = super::facts(store, &session)?;
        listed.entry(session.clone()).or_insert_with(|| Listed::from(&only_facts)).facts = facts;
    }
    let mut total = Paid::default();
    if costs {
        let bar = output::progress(listed.len() as u64, "sessions");
        for session in listed.values_mut() {
            let paid = paid(&**store, &session.session)?;
            (session.cost, session.paid) = (Some(paid), PaidLine::new(&paid));
            total = total + paid;
            bar.inc(1);
        }
        bar.finish_and_clear();
    }
    if json {
        for session in listed.values() {
            output::json_line(session)?;
        }
        return Ok(code);
    }
    let row = |session: &Listed| {
        let [entries, facts, bytes] = [session.entries, session.facts, session.bytes].map(output::number);
        let [created, used] = [session.created, session.used].map(super::minute);
        let (paid, everything) = session.cost.map_or_else(Default::default, |paid| costs_of(&paid));
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
        let says = lookback_inspector::paid(&total);
        output::line(&says.unwrap_or_else(|| "No provider has reported the usage of a call.".to_owned()))?;
        output::message(&format!("\n{LEGEND}"));
    }
    Ok(code)
}

/// Returns the costs that providers reported for the calls of a session.
fn paid(store: &dyn Store, session: &LogName) -> Result<Paid, Failure> {
    let counter = input::settings(None).counter;
    let receipt = block_on(Receipt::load(store, session, &*counter, &usual_price(store, session)?));
    match receipt {
        Ok(receipt) => Ok(receipt.total.paid),
        // The session is listed all the same.
        Err(error @ (StoreError::Damaged { .. } | StoreError::Newer { .. })) => {
            output::warning(&error.to_string());
            Ok(Paid::default())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns a reported cost and the estimate for sending everything, for people.
fn costs_of(paid: &Paid) -> (String, String) {
    let none = || "-".to_owned();
    let cost = if paid.calls > 0 { money(paid.cost) } else { none() };
    (cost, paid.everything().map_or_else(none, |estimate| money(estimate.cost)))
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
    #[serde(skip)]
    cost: Option<Paid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid: Option<PaidLine>,
}

impl From<&LogInfo> for Listed {
    fn from(log: &LogInfo) -> Self {
        let LogInfo { name, records, bytes, created, used, .. } = log;
        let (session, created, used) = (name.clone(), *created, *used);
        Listed { session, entries: *records, facts: 0, bytes: *bytes, created, used, cost: None, paid: None }
    }
}

//! `lookback sessions list`: lists the sessions in a store, on request with their costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::transcript::Millis;
use lookback_replay::prices::money;
use lookback_replay::receipt::{Estimate, Paid, Receipt};
use lookback_store::{LogInfo, LogName, Store};
use serde::Serialize;

use super::calls::usual_price;
use super::paid::PaidLine;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::{input, json, output};

const LEGEND: &str = "\
paid: the input of the calls with a usage report, at the prices of the session's model, or else of `anthropic-5m`
everything: what these calls would have cost with the whole history; about, if something was cut (simulated)";

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
    let mut sum = Costs::default();
    if costs {
        let bar = output::progress(listed.len() as u64, "sessions");
        for session in listed.values_mut() {
            match paid(&**store, &session.session) {
                Ok(paid) => {
                    (session.costs, session.paid) = (Costs::new(&paid), PaidLine::new(&paid));
                    sum.add(session.costs);
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
        let Costs { paid, everything, .. } = session.costs;
        let [paid, everything] =
            [paid, everything].map(|cost| if session.costs.calls > 0 { money(cost) } else { "-".to_owned() });
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
        output::line(&sum.sentence())?;
        output::message(&format!("\n{LEGEND}"));
    }
    Ok(code)
}

/// Returns the costs that the provider reported for the calls of a session.
fn paid(store: &dyn Store, session: &LogName) -> Result<Paid, Failure> {
    let counter = input::settings(None).counter;
    let price = usual_price(store, session)?;
    Ok(block_on(Receipt::load(store, session, &*counter, &price))?.total.paid)
}

/// The costs of the calls with a usage report, in US dollars.
#[derive(Clone, Copy, Default)]
struct Costs {
    calls: u64,
    paid: f64,
    /// About what these calls would have cost if they had sent everything.
    everything: f64,
    /// The squares of twice the standard errors of the estimates. Not a number if one is unknown.
    error_squared: f64,
    /// Whether something was cut, so that the cost of everything is an estimate.
    is_estimate: bool,
}

impl Costs {
    fn new(paid: &Paid) -> Costs {
        let exact = Costs { calls: paid.calls, paid: paid.cost, everything: paid.cost, ..Costs::default() };
        paid.everything().map_or(exact, |Estimate { cost, error }| {
            let error = error.unwrap_or(f64::NAN);
            Costs { everything: cost, error_squared: error * error, is_estimate: true, ..exact }
        })
    }

    /// Adds the costs of another session. Errors of different sessions are independent, so their squares add up.
    fn add(&mut self, other: Costs) {
        self.calls += other.calls;
        self.paid += other.paid;
        self.everything += other.everything;
        self.error_squared += other.error_squared;
        self.is_estimate |= other.is_estimate;
    }

    fn sentence(&self) -> String {
        if self.calls == 0 {
            return "No provider has reported the usage of a call.".to_owned();
        }
        let calls = output::counted(self.calls, "call", "calls");
        let error = self.error_squared.sqrt();
        let error = if error.is_finite() { format!(" ± {}", money(error)) } else { String::new() };
        let everything = format!("; everything would have cost about {}{error} (simulated)", money(self.everything));
        let everything = if self.is_estimate { everything } else { String::new() };
        format!("Paid {} for the input of {calls}, by the providers' reports{everything}.", money(self.paid))
    }
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
    costs: Costs,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid: Option<PaidLine>,
}

impl From<&LogInfo> for Listed {
    fn from(log: &LogInfo) -> Self {
        let LogInfo { name, records, bytes, created, used, .. } = log;
        let (session, created, used) = (name.clone(), *created, *used);
        Listed {
            session,
            entries: *records,
            facts: 0,
            bytes: *bytes,
            created,
            used,
            costs: Costs::default(),
            paid: None,
        }
    }
}

//! `lookback store`: counts, verifies, vacuums and copies a store.

use crate::exit::ExitCode;
use std::path::PathBuf;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_location::Location;
use lookback_session::{Fault, verify};
use lookback_store::{Durability, LogName, Store};
use lookback_store::{Tenant, copy, every_namespace};
use serde::Serialize;

use super::sessions::warn_of_damaged;
use crate::args::{StoreArg, StoreCommand};
use crate::failure::Failure;
use crate::output;
use crate::store::{self, Opening};

pub(crate) fn run(command: StoreCommand) -> Result<ExitCode, Failure> {
    match command {
        StoreCommand::Stats { store, json } => return stats(&*open(&store)?, json),
        StoreCommand::Verify { store, json } => return check(&*open(&store)?, json),
        StoreCommand::Vacuum { store } => {
            block_on(open(&store)?.vacuum())?;
            output::message("vacuumed");
        }
        StoreCommand::Migrate { from, to, encrypt, decrypt } => migrate(from, to, encrypt, decrypt)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn open(place: &StoreArg) -> Result<Arc<dyn Store>, Failure> {
    store::open(&place.location()?, Opening::Existing)
}

/// The contents of a namespace: sessions, logs, entries and bytes.
#[derive(Serialize)]
struct Stats {
    /// The tenants, from the outermost inward. Empty for the store itself.
    tenants: Vec<Tenant>,
    sessions: u64,
    logs: u64,
    entries: u64,
    bytes: u64,
}

/// Counts the contents of every namespace.
fn count(store: &dyn Store) -> Result<Vec<Stats>, Failure> {
    let mut all = Vec::new();
    for (tenants, scoped) in block_on(every_namespace(store))? {
        let logs = block_on(scoped.as_deref().unwrap_or(store).list(""))?;
        all.push(Stats {
            tenants,
            sessions: logs.iter().filter(|log| !log.name.is_derived()).count() as u64,
            logs: logs.len() as u64,
            entries: logs.iter().map(|log| log.records).sum(),
            bytes: logs.iter().map(|log| log.bytes).sum(),
        });
    }
    Ok(all)
}

/// Prints the contents of every namespace, and warns of logs that cannot be counted.
fn stats(store: &dyn Store, json: bool) -> Result<ExitCode, Failure> {
    let mut is_damaged = false;
    for (_, scoped) in block_on(every_namespace(store))? {
        let store = scoped.as_deref().unwrap_or(store);
        is_damaged |= warn_of_damaged(store, &block_on(store.list(""))?)?;
    }
    for what in block_on(store.orphans())? {
        output::warning(&what);
        is_damaged = true;
    }
    for of in count(store)? {
        if json {
            output::json_line(&of)?;
            continue;
        }
        let sessions = output::counted(of.sessions, "session", "sessions");
        let entries = output::counted(of.entries, "entry", "entries");
        let logs = output::counted(of.logs, "log", "logs");
        output::result(&format!("{}{sessions}, {entries} in {logs}, {} bytes\n", whose(&of.tenants), of.bytes))?;
    }
    Ok(ExitCode::from(u8::from(is_damaged)))
}

/// Returns the beginning of a line about a tenant. Empty for the store itself.
fn whose(tenants: &[Tenant]) -> String {
    let names: Vec<String> = tenants.iter().map(|tenant| output::plain(tenant.as_str())).collect();
    if names.is_empty() { String::new() } else { format!("tenant {}: ", names.join(" / ")) }
}

fn check(store: &dyn Store, json: bool) -> Result<ExitCode, Failure> {
    let entries = count(store)?.iter().map(|of| of.entries).sum();
    let bar = output::progress(entries, "entries");
    let verified = block_on(verify(store, |entries| bar.inc(entries)))?;
    bar.finish_and_clear();
    let (logs, entries, bytes) = (verified.logs, verified.records, verified.bytes);
    let faults: Vec<Wrong> = verified.faults.into_iter().map(Wrong::from).collect();
    let code = if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) };
    if json {
        output::json_line(&Checked { logs, entries, bytes, faults })?;
        return Ok(code);
    }
    for fault in &faults {
        output::result(&format!("{}\n", output::plain(&format!("{}{}", whose(&fault.tenants), fault.error))))?;
    }
    let (entries, logs) = (output::counted(entries, "entry", "entries"), output::counted(logs, "log", "logs"));
    output::message(&format!("read {entries} of {logs}: {}", output::counted(faults.len() as u64, "fault", "faults")));
    Ok(code)
}

/// The output of `verify`.
#[derive(Serialize)]
struct Checked {
    logs: u64,
    entries: u64,
    bytes: u64,
    faults: Vec<Wrong>,
}

#[derive(Serialize)]
struct Wrong {
    tenants: Vec<Tenant>,
    /// The log with the fault. `None` if the fault is not in a log.
    log: Option<LogName>,
    error: String,
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Log { tenants, log, error } => Wrong { tenants, log: Some(log), error },
            Fault::NoSession { tenants, log } => {
                let error = format!("`{log}` has no session");
                Wrong { tenants, log: Some(log), error }
            }
            Fault::Store { error } => Wrong { tenants: Vec::new(), log: None, error },
            other => Wrong { tenants: Vec::new(), log: None, error: format!("{other:?}") },
        }
    }
}

fn migrate(from: PathBuf, to: PathBuf, encrypt: bool, decrypt: bool) -> Result<(), Failure> {
    if encrypt || decrypt {
        store::need_keys()?;
    }
    let [from, to] = [from, to].map(|place| StoreArg::new(Some(place)).location());
    let open = |place: &Location, opening, is_plain| {
        if is_plain { store::open_plain(place, opening) } else { store::open(place, opening) }
    };
    let from = open(&from?, Opening::Existing, encrypt)?;
    let to = open(&to?, Opening::Made(Durability::Disk), decrypt)?;
    let entries = count(&*from)?.iter().map(|of| of.entries).sum();
    let bar = output::progress(entries, "entries");
    let copied = block_on(copy(&*from, &*to, |entries| bar.inc(entries)))?;
    bar.finish_and_clear();
    let entries = output::counted(copied.records - copied.known, "entry", "entries");
    let logs = output::counted(copied.logs, "log", "logs");
    output::message(&format!("copied {entries} of {logs}; {} were already there", copied.known));
    Ok(())
}

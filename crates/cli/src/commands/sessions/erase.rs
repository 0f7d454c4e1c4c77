//! `lookback sessions erase`: erases old messages or certain entries, in sessions that are kept.

use crate::exit::ExitCode;
use std::ops::Range;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_engine::transcript::Position;
use lookback_session::adapter;
use lookback_session::{ErasedContents, OldContents};
use lookback_session::{Error, Session};
use lookback_store::{LogName, Store};
use lookback_store::{Tenant, every_namespace};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

pub(super) fn run(
    store: &Arc<dyn Store>,
    named: &[LogName],
    old: &OldContents,
    yes: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let mut erased = Vec::new();
    let mut has_failed = false;
    for (tenants, scoped) in block_on(every_namespace(&**store))? {
        // Sessions named on the command line are never those of a tenant.
        if !named.is_empty() && !tenants.is_empty() {
            continue;
        }
        let store = scoped.unwrap_or_else(|| store.clone());
        let logs = if named.is_empty() { own(&*store)? } else { named.to_vec() };
        for session in logs {
            match block_on(erase_session(&store, &session, old, yes)) {
                Ok(contents) => {
                    warn_of_kept(&tenants, &session, &contents);
                    has_failed |= contents.needed > 0;
                    if contents.bytes > 0 {
                        erased.push(Erased { tenants: tenants.clone(), session, contents });
                    }
                }
                // A session that fails must not keep old contents of the others.
                Err(error) => {
                    output::warning(&format!("{session}: {error}"));
                    has_failed = true;
                }
            }
        }
    }
    if json {
        erased.iter().try_for_each(output::json_line)?;
    } else if !erased.is_empty() {
        let row = |session: &Erased| {
            let names: Vec<&str> = session.tenants.iter().map(Tenant::as_str).collect();
            let [messages, bytes] = [session.contents.messages, session.contents.bytes].map(output::number);
            [output::plain(session.session.as_str()), output::plain(&names.join(" / ")), messages, bytes]
        };
        let header = ["session", "tenant", "messages", "bytes"];
        output::line(&output::text_of(&output::table(header, &[0, 1], erased.iter().map(row))))?;
    }
    let messages = erased.iter().map(|session| session.contents.messages).sum();
    let messages = output::counted(messages, "message", "messages");
    output::message(&match (yes, erased.is_empty()) {
        (true, _) => format!("erased {messages}"),
        (false, false) => format!("{messages} would be erased; erase with --yes"),
        (false, true) => format!("{messages} would be erased"),
    });
    Ok(ExitCode::from(u8::from(has_failed)))
}

async fn erase_session(
    store: &Arc<dyn Store>,
    session: &LogName,
    old: &OldContents,
    yes: bool,
) -> Result<ErasedContents, Error> {
    let mut session = Session::open(store.clone(), session.as_str(), Settings::default()).await?;
    if yes { session.erase(old).await } else { adapter::erasable(&mut session, old).await }
}

/// Warns of messages that are kept although they were requested, or may be old.
fn warn_of_kept(tenants: &[Tenant], session: &LogName, contents: &ErasedContents) {
    if contents.undated > 0 {
        let messages = output::counted(contents.undated, "message has no date", "messages have no date");
        // No option can name the session of a tenant.
        let hint = if tenants.is_empty() {
            let entries: Vec<String> = contents.undated_entries.iter().map(as_named).collect();
            format!("; erase with --entry {}", entries.join(","))
        } else {
            String::new()
        };
        output::warning(&format!("{session}: {messages}, and may be old{hint}"));
    }
    if contents.needed > 0 {
        let entries = output::counted(contents.needed, "entry is kept", "entries are kept");
        let why = "the next call needs the newest message, the current task, an open round and the system prompt";
        output::warning(&format!("{session}: {entries}: {why}"));
    }
}

/// Returns a range of entries in the form of `--entry`.
fn as_named(entries: &Range<Position>) -> String {
    let last = entries.end.saturating_sub(1);
    if last == entries.start { last.to_string() } else { format!("{}-{last}", entries.start) }
}

/// Returns the sessions of a namespace.
fn own(store: &dyn Store) -> Result<Vec<LogName>, Failure> {
    let logs = block_on(store.list(""))?.into_iter().map(|log| log.name);
    Ok(logs.filter(|name| !name.is_derived()).collect())
}

/// A line of `sessions erase`.
#[derive(Serialize)]
struct Erased {
    /// The tenants, from the outermost inward. Empty for the store itself.
    tenants: Vec<Tenant>,
    session: LogName,
    #[serde(flatten)]
    contents: ErasedContents,
}

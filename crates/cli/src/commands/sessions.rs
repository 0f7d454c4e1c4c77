//! `lookback sessions`: reads and deletes the sessions in a store.

mod calls;
mod diff;
mod erase;
mod import;
mod list;
mod paid;
mod prune;
mod window;

use crate::exit::ExitCode;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::Settings;
use lookback_engine::transcript::{Millis, Origin};
use lookback_facts::{Facts, Memory, Scope};
use lookback_session::adapter;
use lookback_session::{Error, Session};
use lookback_session::{HistoryEntry, OldContents};
use lookback_store::search::Query;
use lookback_store::{Derived, LogInfo, LogName, Retention, purge};
use lookback_store::{Durability, Store, StoreError};
use lookback_wire::dialect::{Dialect, Preamble};
use serde_json::value::RawValue;

use crate::args::{SessionsCommand, StoreArg};
use crate::atomic_file::AtomicFile;
use crate::failure::Failure;
use crate::pages::{self, Shown};
use crate::store::{self, Opening};
use crate::{input, json, output};

pub(crate) fn run(command: SessionsCommand) -> Result<ExitCode, Failure> {
    match command {
        SessionsCommand::List { costs, store, json } => return list::run(&open(&store)?, costs, json),
        SessionsCommand::Show { name, store, json } => show(&name, &store, json)?,
        SessionsCommand::Window { name, call, explain, json, store } => {
            window::run(&name, call, explain, json, &store)?;
        }
        SessionsCommand::Diff { name, before, after, store, json } => diff::run(&name, before, after, &store, json)?,
        SessionsCommand::Calls { name, prices, store, json } => calls::run(&name, prices.as_deref(), &store, json)?,
        SessionsCommand::Export { name, html: Some(file), no_contents, prices, store, .. } => {
            page(&name, &file, !no_contents, &prices, &store)?;
        }
        SessionsCommand::Export { name, current, store, .. } => export(&name, current, &store)?,
        SessionsCommand::Search { query, session, within, limit, store, json } => {
            let (place, store) = (&store, open(&store)?);
            let log = session.map(|name| known(&*store, &name, place)).transpose()?;
            let query = Query::new(&query).within(within.into());
            return search(&*store, query, log.as_ref(), limit, json);
        }
        SessionsCommand::Prune { unused_for, keep, yes, store, json } => {
            let retention = Retention::default().unused_since(unused_for).keep(keep);
            prune::run(&*open(&store)?, &retention, yes, json)?;
        }
        SessionsCommand::Erase { names, older_than, summarized, entry, keep_derived, yes, store: place, json } => {
            if !entry.is_empty() && names.len() > 1 {
                return Err(Failure::SeveralErased { count: names.len() });
            }
            let store = open(&place)?;
            let named = names.iter().map(|name| known(&*store, name, &place)).collect::<Result<Vec<_>, _>>()?;
            let old = OldContents::default().before(older_than).summarized(summarized);
            let old = old.entries(entry).keep_derived(keep_derived);
            return erase::run(&store, &named, &old, yes, json);
        }
        SessionsCommand::Import { files, dialect, store } => {
            let location = store.location()?;
            let opened = store::open(&location, Opening::Made(Durability::Disk))?;
            import::run(&files, dialect.name.0, &opened, &location.to_string())?;
        }
        SessionsCommand::Delete { all: true, store, .. } => {
            let store = open(&store)?;
            let logs = block_on(store.list(""))?;
            let own = logs.iter().map(|log| &log.name).filter(|name| !name.is_derived()).cloned();
            let sessions = own.chain(with_facts(&logs).map(|(name, _)| name)).collect::<BTreeSet<_>>().len();
            block_on(store.clear())?;
            output::message(&format!("deleted {}", output::counted(sessions as u64, "session", "sessions")));
        }
        SessionsCommand::Delete { names, store: place, .. } => {
            let store = open(&place)?;
            let logs = names.iter().map(|name| known(&*store, name, &place)).collect::<Result<Vec<_>, _>>()?;
            for log in logs {
                block_on(purge(&*store, &log))?;
                output::message(&format!("deleted {log}"));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn open(place: &StoreArg) -> Result<Arc<dyn Store>, Failure> {
    store::open(&place.location()?, Opening::Existing)
}

/// The most names of sessions that an error offers.
const MOST_SIMILAR: usize = 3;

/// Returns the name of a session, which must exist.
pub(super) fn log(store: &dyn Store, name: &str, place: &StoreArg) -> Result<LogName, Failure> {
    let log: LogName = name.parse().map_err(Error::from)?;
    match block_on(store.head(&log, None)) {
        // A damaged log can still be deleted. Reading it returns an error.
        Ok(Some(_)) | Err(StoreError::Damaged { .. }) => Ok(log),
        Err(error) => Err(error.into()),
        Ok(None) => {
            // A gateway adds an account to the name that its client gave.
            let listed = block_on(store.list(&format!("{name}@")))?.into_iter().map(|log| log.name);
            let similar = listed.filter(|log| !log.is_derived()).take(MOST_SIMILAR).collect();
            Err(Failure::NoSession { name: name.to_owned(), store: place.location()?.to_string(), similar })
        }
    }
}

/// Returns the name of a session, which must exist or at least have facts.
pub(super) fn known(store: &dyn Store, name: &str, place: &StoreArg) -> Result<LogName, Failure> {
    let facts = name.parse::<LogName>().map_err(Error::from)?.facts_of();
    match block_on(store.head(&facts, None)) {
        Ok(Some(_)) | Err(StoreError::Damaged { .. }) => Ok(name.parse().map_err(Error::from)?),
        Ok(None) => log(store, name, place),
        Err(error) => Err(error.into()),
    }
}

/// Opens a session to read it. The session must exist or at least have facts.
fn existing(name: &str, place: &StoreArg) -> Result<Session, Failure> {
    let store = open(place)?;
    known(&*store, name, place)?;
    Ok(block_on(Session::open(store, name, Settings::default()))?)
}

/// Warns of each log in a list that cannot be read, and returns whether there are any. Such logs are listed without
/// records.
pub(super) fn warn_of_damaged(store: &dyn Store, logs: &[LogInfo]) -> Result<bool, Failure> {
    let mut any = false;
    for log in logs.iter().filter(|log| log.records == 0) {
        match block_on(store.info(&log.name)) {
            Err(error) if error.is_log_specific() => {
                output::warning(&error.to_string());
                any = true;
            }
            info => drop(info?),
        }
    }
    Ok(any)
}

/// Returns the sessions that have facts, sorted by name, with the log of their facts.
pub(super) fn with_facts(logs: &[LogInfo]) -> impl Iterator<Item = (LogName, &LogInfo)> {
    logs.iter().filter(|log| log.records > 0).filter_map(|log| match log.name.derived() {
        Some((Derived::Facts, session)) => Some((session.parse().ok()?, log)),
        _ => None,
    })
}

/// Returns the number of current facts of a session, without shared facts.
pub(super) fn facts(store: &Arc<dyn Store>, session: &LogName) -> Result<u64, Failure> {
    let memory = block_on(Memory::open(store.clone(), session.as_str()))?;
    let mut facts = Facts::new(Scope::Session);
    block_on(memory.entries(Scope::Session))?.iter().for_each(|entry| facts.apply(entry));
    Ok(facts.len() as u64)
}

/// Returns a time to the minute, in UTC so that the output is the same everywhere.
pub(super) fn minute(time: Option<Millis>) -> String {
    json::timestamp(time).map_or("-".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}

fn show(name: &str, place: &StoreArg, json: bool) -> Result<(), Failure> {
    let mut session = existing(name, place)?;
    if json {
        for entry in block_on(adapter::entries(&mut session))? {
            output::json_line(&entry)?;
        }
        return Ok(());
    }
    let history = block_on(session.history())?;
    let row = |entry: &HistoryEntry| {
        let message = &entry.arrival.message;
        let is_result = message.tool_results().next().is_some();
        let role = if is_result { "tool".to_owned() } else { format!("{:?}", message.role()).to_lowercase() };
        let text: String = message.text().split_whitespace().collect::<Vec<_>>().join(" ").chars().take(72).collect();
        let shown = if entry.shown { "yes" } else { "-" };
        [
            entry.position.to_string(),
            shown.to_owned(),
            role,
            output::number(entry.arrival.size.tokens),
            output::plain(&text),
        ]
    };
    // The first column is the position in the log, as in `recall --entry` and in search results.
    let header = ["entry", "in window", "role", "tokens", "text"];
    let table = output::table(header, &[1, 2, 4], history.iter().map(row));
    output::line(&output::text_of(&table))?;
    let stats = session.stats();
    let (messages, window) = (output::number(stats.messages), stats.window.size);
    let gone = erased(&session, &history);
    let gone = if gone == 0 { String::new() } else { format!(", {} of them erased", output::number(gone)) };
    output::line(&format!(
        "\n{messages} messages{gone}; the window holds {} of them, {} tokens",
        output::number(window.messages),
        output::number(window.tokens)
    ))?;
    let facts = facts(&open(place)?, session.name())?;
    if facts > 0 {
        let facts = output::counted(facts, "fact", "facts");
        let (name, at) = (output::quoted(name), store::option(place));
        output::message(&format!("{facts}: lookback facts list --session {name}{at}"));
    }
    Ok(())
}

/// Returns the number of messages of the conversation that were erased.
fn erased(session: &Session, history: &[HistoryEntry]) -> u64 {
    let left = history.iter().filter(|entry| entry.arrival.origin != Origin::Lookback).count();
    session.stats().messages.saturating_sub(left as u64)
}

fn export(name: &str, current: bool, place: &StoreArg) -> Result<(), Failure> {
    let mut session = existing(name, place)?;
    let history = block_on(session.history())?;
    let left = if current { Vec::new() } else { block_on(adapter::left_branches(&mut session))? };
    let gone = erased(&session, &history);
    if gone > 0 {
        output::warning(&format!(
            "{} erased, and cannot be exported",
            output::counted(gone, "message was", "messages were")
        ));
    }
    let preamble = session.view().preamble().cloned().unwrap_or_default();
    if left.is_empty() && preamble.system.is_none() && preamble.tools.is_none() {
        return messages(&history)?
            .iter()
            .try_for_each(|message| Ok(output::line(&input::on_one_line(message.get()))?));
    }
    // A replayed session takes the name of its recording again, so that replaying the export gives the same result.
    let id = name.strip_prefix("replay/").unwrap_or(name);
    if !history.is_empty() || left.is_empty() {
        output::line(&transcript(id, &preamble, &history)?)?;
    }
    for (number, branch) in (1_u64..).zip(&left) {
        output::line(&transcript(&format!("{id}/left-{number}"), &branch.preamble, &branch.messages)?)?;
    }
    if !left.is_empty() {
        output::message(&format!(
            "with {} that the conversation has left; --current leaves them out",
            output::counted(left.len() as u64, "branch", "branches")
        ));
    }
    Ok(())
}

/// Returns the messages of a history as they arrived, each with its time.
fn messages(history: &[HistoryEntry]) -> Result<Vec<Box<RawValue>>, Failure> {
    let wires = history.iter().filter_map(|entry| Some((entry.arrival.message.wire()?, entry.arrival.time)));
    let elements = wires.flat_map(|(wire, time)| wire.elements().into_iter().map(move |raw| (raw, time)));
    elements.map(|(raw, time)| recorded(raw, time)).collect()
}

/// Returns a history as one line of a recording, with the system prompt and the tools for all of its messages.
fn transcript(id: &str, preamble: &Preamble, history: &[HistoryEntry]) -> Result<String, Failure> {
    let wire = history.iter().find_map(|entry| entry.arrival.message.wire());
    let dialect = wire.map_or(Dialect::default(), |wire| wire.dialect);
    let messages = messages(history)?;
    let messages: Vec<&RawValue> = messages.iter().map(AsRef::as_ref).collect();
    Ok(input::on_one_line(&input::conversation(id, None, dialect, preamble, &messages)?))
}

/// Writes a session as a page.
fn page(name: &str, file: &Path, has_contents: bool, prices: &str, place: &StoreArg) -> Result<(), Failure> {
    let price = input::price(prices)?;
    let store = open(place)?;
    let log = log(&*store, name, place)?;
    let page = AtomicFile::begin(file)?;
    // The same counter as that of a replay without --model.
    let settings = input::settings(None);
    let shown = Shown::read(&*store, &log, &*settings.counter, &price, None, has_contents)?.with_facts(store, &log)?;
    page.finish(&pages::html(name, &shown, &[], &price, has_contents))?;
    output::message(&format!("wrote {}", output::plain(&file.display().to_string())));
    Ok(())
}

/// Returns a message with its arrival time, which a replay needs to know when the prompt cache expired.
fn recorded(raw: &RawValue, time: Option<Millis>) -> Result<Box<RawValue>, Failure> {
    match (raw.get().strip_suffix('}'), json::timestamp(time)) {
        (Some(open), Some(time)) => {
            RawValue::from_string(format!("{open},\"time\":\"{time}\"}}")).map_err(Failure::Json)
        }
        (Some(_) | None, _) => Ok(raw.to_owned()),
    }
}

fn search(
    store: &dyn Store,
    query: Query,
    log: Option<&LogName>,
    limit: usize,
    json: bool,
) -> Result<ExitCode, Failure> {
    let found = block_on(lookback_store::messages::search(store, log, query, limit))?;
    if json {
        for hit in &found {
            output::json_line(hit)?;
        }
    } else if found.is_empty() {
        output::message("nothing found");
    } else {
        let row = |hit: &lookback_store::messages::SearchHit| {
            [output::plain(hit.session.as_str()), hit.position.to_string(), output::plain(&hit.excerpt)]
        };
        output::line(&output::text_of(&output::table(["session", "entry", "text"], &[0, 2], found.iter().map(row))))?;
    }
    // A search in one session has already returned a damaged log as an error.
    let is_all = log.is_some() || !warn_of_damaged(store, &block_on(store.list(""))?)?;
    Ok(ExitCode::from(u8::from(found.is_empty() || !is_all)))
}

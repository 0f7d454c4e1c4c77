//! Records conversations from an agent's own log, with the whole results that hooks have shortened and without secrets.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use futures_lite::future::block_on;
use lookback_engine::transcript::Entry;
use lookback_recordings::Recording;
use lookback_session::{Batch, RecordedMessage, Session};
use lookback_store::{LogName, Store, entries};
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{Message, PartRef};
use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::agents::{Hooked, NO_ERROR};
use super::project::Project;
use super::{secrets, switch};
use crate::failure::Failure;
use crate::{input, location};

/// How long a log must stay the same before it is whole.
const SETTLES: Duration = Duration::from_millis(400);
/// The most times that a log is read, if it keeps growing. The next hook reads the rest.
const MOST_READS: usize = 5;

/// The most times that a process waits for another one that records the same log.
const MOST_WAITS: usize = 50;

/// What was recorded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Messages that were added.
    pub(super) messages: u64,
    /// Secrets that were left out of them.
    pub(super) secrets: usize,
    /// Compactions by the agent in the whole log.
    pub(super) compactions: usize,
}

/// Records the conversations of a log. Returns `None` if other processes do so all the time.
pub(super) fn record(
    store: &Arc<dyn Store>,
    project: &Project,
    agent: &dyn Hooked,
    session: &str,
    log: &Path,
) -> Result<Option<Recorded>, Failure> {
    let begun = SystemTime::now();
    let one = if agent.has_one_log() { session } else { "" };
    let Some(_lock) = lock(log, one)? else { return Ok(None) };
    let mut sum = Recorded::default();
    let mut size = None;
    // Some agents write their last message after they have started the hook.
    for _ in 0..MOST_READS {
        let fault = |error| Failure::Unreadable { place: log.display().to_string(), error };
        let now = fs::metadata(log).map_err(fault)?.len();
        if size.replace(now) == Some(now) || switch::was_forgotten(project, begun) {
            break;
        }
        let recorded = read(store, project, agent, session, log)?;
        sum.messages += recorded.messages;
        sum.secrets += recorded.secrets;
        sum.compactions = recorded.compactions;
        thread::sleep(SETTLES);
    }
    Ok(Some(sum))
}

/// Records the conversations of a log as it is now.
fn read(
    store: &Arc<dyn Store>,
    project: &Project,
    agent: &dyn Hooked,
    session: &str,
    log: &Path,
) -> Result<Recorded, Failure> {
    let mut sum = Recorded::default();
    for recording in input::recorded(log, None)?.recordings {
        if agent.has_one_log() && recording.id != session {
            continue;
        }
        sum.compactions += recording.compactions.len();
        let recorded = conversation(store, project, agent, recording)?;
        sum.messages += recorded.messages;
        sum.secrets += recorded.secrets;
    }
    Ok(sum)
}

/// Locks a log, or one of its conversations, against other processes that record it, until the file is dropped.
fn lock(log: &Path, session: &str) -> Result<Option<File>, Failure> {
    let Some(folder) = location::user_folder().map(|folder| folder.join("locks")) else { return Ok(None) };
    crate::store::make_private(&folder)?;
    let name = [log.as_os_str().as_encoded_bytes(), session.as_bytes()].concat();
    let name = format!("{:016x}", xxh3_64(&name));
    let file = File::create(folder.join(name))?;
    for _ in 0..MOST_WAITS {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            // The other one may have read the log before the last message was written.
            Err(fs::TryLockError::WouldBlock) => thread::sleep(SETTLES),
            Err(fs::TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Appends the messages that a conversation's session lacks. If the agent has changed its history, the session begins a
/// branch, and keeps the messages so far.
fn conversation(
    store: &Arc<dyn Store>,
    project: &Project,
    agent: &dyn Hooked,
    recording: Recording,
) -> Result<Recorded, Failure> {
    let Some(name) = project.session(agent.slug(), &recording.id) else { return Ok(Recorded::default()) };
    let failed = |error| Failure::Import { session: name.to_string(), error };
    let settings = input::repair_only(recording.dialect);
    let mut session = block_on(Session::open(store.clone(), name.as_str(), settings)).map_err(failed)?;
    let known = block_on(session.history()).map_err(failed)?;
    let mut found = Recorded::default();
    let mut messages = Vec::new();
    for recorded in recording.messages {
        let (cleaned, secrets) = cleaned(&**store, project, recording.dialect, &recorded.message)?;
        let mut secrets = Some(secrets);
        let recorded = |message| (RecordedMessage::new(message, recorded.time), secrets.take().unwrap_or_default());
        messages.extend(cleaned.into_iter().map(recorded));
    }
    let is_beginning = known.len() <= messages.len()
        && known.iter().zip(&messages).all(|(known, (new, _))| known.arrival.message.digest() == new.message.digest());
    let new = if is_beginning { messages.split_off(known.len()) } else { messages };
    if new.is_empty() {
        return Ok(found);
    }
    (found.messages, found.secrets) = (new.len() as u64, new.iter().map(|(_, secrets)| secrets).sum());
    if is_beginning {
        let batch = Batch::from_iter(new.into_iter().map(|(message, _)| message));
        block_on(session.append(batch)).map_err(failed)?;
    } else {
        let history = new.into_iter().map(|(recorded, _)| recorded.message).collect();
        block_on(session.sync(history)).map_err(failed)?;
    }
    Ok(found)
}

/// Returns a message with the whole results that hooks have shortened, and without secrets, and the number of these.
fn cleaned(
    store: &dyn Store,
    project: &Project,
    dialect: Dialect,
    message: &Message,
) -> Result<(Vec<Message>, usize), Failure> {
    let whole = wholes(store, project, message)?;
    let Some(wire) = message.wire() else { return Ok((vec![message.clone()], 0)) };
    let mut secrets = 0;
    let mut elements = Vec::new();
    for raw in wire.elements() {
        let mut value: Value = serde_json::from_str(raw.get())?;
        for (shortened, whole) in &whole {
            replace(&mut value, shortened, whole);
        }
        secrets += secrets::leave_out(&mut value);
        elements.push(RawValue::from_string(value.to_string())?);
    }
    if secrets == 0 && whole.is_empty() {
        return Ok((vec![message.clone()], 0));
    }
    let elements: Vec<&RawValue> = elements.iter().map(AsRef::as_ref).collect();
    // Only texts were replaced by texts, so this is a message as before.
    let messages = dialect.decode_list(&elements).map_err(|(_, error)| std::io::Error::other(error))?;
    Ok((messages, secrets))
}

/// Returns the shortened texts of a message's results, each with the whole text that the handle in it leads to.
fn wholes(store: &dyn Store, project: &Project, message: &Message) -> Result<Vec<(String, String)>, Failure> {
    let mut found = Vec::new();
    let prefix = project.prefix();
    for (_, result) in message.tool_results() {
        for text in result.content.iter().filter_map(|item| item.text()) {
            let Some((head, entry, log)) = handle(text, &prefix) else { continue };
            let kept = block_on(entries::read(store, &log, entry..entry.saturating_add(1)))?.pop();
            let Some(Entry::Message(arrival)) = kept else { continue };
            let whole = arrival.message.parts().find_map(|part| match part {
                PartRef::ToolResult(kept) => kept.content.first()?.text(),
                _ => None,
            });
            // The handle comes from a log, and could be of another result.
            let head = head.strip_prefix(NO_ERROR).unwrap_or(head).trim_end_matches('\n');
            let (head, _) = secrets::without(head);
            let whole = whole.filter(|whole| whole.starts_with(&head));
            found.extend(whole.map(|whole| (text.to_owned(), whole.to_owned())));
        }
    }
    Ok(found)
}

/// Returns the head of a shortened text, and the entry and the session to which the handle after it leads.
fn handle<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, u64, LogName)> {
    text.match_indices("[... ").find_map(|(at, _)| {
        let (head, marker) = text.split_at_checked(at)?;
        let (place, _) = marker.lines().next()?.split_once("; entry ")?.1.split_once(" has them")?;
        let (entry, log) = place.split_once(" of ").filter(|(_, log)| log.starts_with(prefix))?;
        Some((head, entry.parse().ok()?, log.parse().ok()?))
    })
}

/// Replaces a text wherever a value has it.
fn replace(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, from, to)),
        Value::Object(members) => members.values_mut().for_each(|member| replace(member, from, to)),
        _ => {}
    }
}

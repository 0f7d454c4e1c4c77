//! Hooks of coding agents: an agent starts `lookback hook` at its events. Long results are shortened and kept whole, the
//! model is told the facts of the project, and the conversation is recorded from the agent's own log.
//!
//! Whatever fails, the agent goes on as without a hook. The failure is in the journal, which `lookback doctor` reads.

pub(crate) use self::facts::forget_told;

pub(crate) mod agents;
mod bounds;
pub(crate) mod event;
mod facts;
pub(crate) mod journal;
pub(crate) mod project;
mod record;
mod results;
mod secrets;
pub(crate) mod shown;
pub(crate) mod switch;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_location::Location;
use lookback_store::{Durability, Store};
use serde_json::Value;

use self::agents::Hooked;
use self::event::{Event, What};
use self::journal::{Journal, Line};
use self::project::Project;
use crate::failure::Failure;
use crate::location;
use crate::store::{self, Opening};

/// An answer comes within this time, or the agent goes on without one.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// The most bytes of an event. A larger one passes as it is.
const LARGEST: u64 = 64 << 20;

/// The settings of a hook.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The store.
    pub(crate) place: Location,
    /// The store as it was named, if it was.
    pub(crate) store: Option<PathBuf>,
    /// The most tokens of facts at once.
    pub(crate) facts: u64,
    /// The days for which a session is kept after its last use.
    pub(crate) days: u32,
    /// The most megabytes of all that hooks have kept.
    pub(crate) megabytes: u64,
}

/// Answers the event on standard input. Returns the text for standard output; `None` to let everything pass.
pub(crate) fn answer(agent: &'static dyn Hooked, settings: &Settings) -> Option<String> {
    let (send, receive) = mpsc::channel();
    let of_thread = settings.clone();
    // A thread that hangs ends with the process.
    let started = thread::Builder::new().spawn(move || {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(LARGEST).read_to_string(&mut text);
        // What is no text is no event.
        let answered = read.map_or(Ok(None), |_| handle(agent, &of_thread, &text));
        // Nobody waits any more.
        let _ = send.send(answered);
    });
    let answered = match started {
        Ok(_) => receive.recv_timeout(PATIENCE),
        Err(error) => Ok(Err(error.into())),
    };
    match answered {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => {
            Journal::of_user().write(&Line::failed(agent.slug(), &failure.to_string()));
            None
        }
        Err(mpsc::RecvTimeoutError::Timeout) => {
            Journal::of_user().write(&Line::failed(agent.slug(), "the store did not answer in time"));
            None
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Journal::of_user().write(&Line::failed(agent.slug(), "the hook ended unexpectedly; this is a bug"));
            None
        }
    }
}

/// Handles an event, and returns the answer.
fn handle(agent: &dyn Hooked, settings: &Settings, text: &str) -> Result<Option<String>, Failure> {
    // What an agent sends is data: an unknown event is none of ours.
    let Ok(input) = serde_json::from_str::<Value>(text) else { return Ok(None) };
    let Some(event) = agent.event(&input) else { return Ok(None) };
    let Event { session, folder, places, log, what } = event;
    let is_kept_out = places.iter().any(|place| Project::of(place).is_none());
    let Some(project) = Project::of(&folder).filter(|_| !is_kept_out) else { return Ok(None) };
    if switch::is_off(agent.slug(), &session) {
        return Ok(None);
    }
    match what {
        What::Result(result) => {
            let shortened = results::shorten(|| open(settings), &project, &result)?;
            Ok(shortened.map(|shortened| {
                let line = Line::shortened(agent.slug(), &project, &session, &result.tool, &shortened);
                Journal::of_user().write(&line);
                agent.with_result(&input, &result.pointer, &shortened.text)
            }))
        }
        What::Begins { forgot } => {
            let sheet = facts::at_begin(&open(settings)?, &project, &session, forgot, settings.facts)?;
            Ok(sheet.map(|sheet| agent.with_context(&input, &sheet)))
        }
        What::Recalls(arguments) => {
            let text = facts::recall(&open(settings)?, &project, arguments)?;
            Ok(Some(agent.with_context(&input, &text)))
        }
        What::Forgot => {
            facts::forgot(&project, &session);
            Ok(None)
        }
        What::Asks => {
            let sheet = facts::at_prompt(&open(settings)?, &project, &session, settings.facts)?;
            Ok(sheet.map(|sheet| agent.with_context(&input, &sheet)))
        }
        What::Pauses => {
            if let Some(log) = log {
                record_later(agent, settings, &project, &session, &log)?;
            }
            Ok(None)
        }
    }
}

/// Deletes everything that hooks have kept in the user's store, and their files beside it. Returns the number of logs.
pub(crate) fn forget_all() -> Result<u64, Failure> {
    let mut deleted = 0;
    if let Some(path) = location::user_store().filter(|path| path.exists()) {
        let store = store::open(&Location::Sqlite(path.clone()), Opening::Existing)?;
        let logs = block_on(store.list(""))?;
        let all = logs.len();
        let kept: Vec<_> = logs.into_iter().map(|log| log.name).filter(bounds::is_of_hooks).collect();
        block_on(store.delete(&kept))?;
        block_on(store.vacuum())?;
        deleted = kept.len() as u64;
        drop(store);
        if kept.len() == all {
            for end in ["", "-wal", "-shm"] {
                let mut file = path.clone().into_os_string();
                file.push(end);
                // A missing file is as good as a removed one.
                let _ = fs::remove_file(file);
            }
        }
    }
    if let Some(folder) = location::user_folder() {
        for name in ["told", "off", "locks", "forgotten"] {
            let _ = fs::remove_dir_all(folder.join(name));
        }
        for name in ["hooks.jsonl", "hooks.old.jsonl"] {
            let _ = fs::remove_file(folder.join(name));
        }
        // Whatever else is there stays.
        let _ = fs::remove_dir(folder);
    }
    Ok(deleted)
}

fn open(settings: &Settings) -> Result<Arc<dyn Store>, Failure> {
    // What a hook keeps can be read from the agent's log again, so it does not wait for the disk.
    store::open(&settings.place, Opening::Made(Durability::System))
}

/// Starts this program again to record a conversation, so that the agent need not wait.
fn record_later(
    agent: &dyn Hooked,
    settings: &Settings,
    project: &Project,
    session: &str,
    log: &Path,
) -> Result<(), Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["hook", agent.slug(), "--record"]).arg(log).arg(format!("--session={session}"));
    command.arg("--project").arg(&project.root);
    if let Some(store) = &settings.store {
        command.arg("--store").arg(store);
    }
    command.args(["--days", &settings.days.to_string(), "--megabytes", &settings.megabytes.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn()?;
    Ok(())
}

/// Records a conversation of an agent from its log, and deletes what is too old.
pub(crate) fn record(agent: &dyn Hooked, settings: &Settings, project: &Project, session: &str, log: &Path) {
    let journal = Journal::of_user();
    let recorded = open(settings).and_then(|store| {
        let recorded = record::record(&store, project, agent, session, log)?;
        bounds::keep_within(&store, settings)?;
        Ok(recorded)
    });
    match recorded {
        Ok(Some(recorded)) => {
            if agent.compacts_silently() {
                facts::compacted(project, session, recorded.compactions);
            }
            journal.write(&Line::recorded(agent.slug(), project, &recorded));
        }
        // Another process records this conversation.
        Ok(None) => {}
        Err(failure) => journal.write(&Line::failed(agent.slug(), &failure.to_string())),
    }
}

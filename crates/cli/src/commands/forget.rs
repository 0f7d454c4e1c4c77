//! `lookback forget`: removes what the hooks of agents have kept of a project.

use std::thread;
use std::time::Duration;

use futures_lite::future::block_on;
use lookback_store::{LogInfo, Store, StoreError};
use serde::Serialize;

use crate::args::ForgetArgs;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::hooks::journal::Journal;
use crate::hooks::project::Project;
use crate::hooks::{self, switch};
use crate::store::{self, Opening};
use crate::{location, output};

/// What was, or would be, deleted.
#[derive(Serialize)]
struct Forgotten {
    project: String,
    store: String,
    logs: usize,
    entries: u64,
    bytes: u64,
    deleted: bool,
}

pub(crate) fn run(args: &ForgetArgs) -> Result<ExitCode, Failure> {
    let project = Project::at(&location::from_home(args.project.clone()).map_err(location::NoLocation::from)?);
    let place = args.store.location()?.ok_or(Failure::NoDataFolder)?;
    let store = match store::open(&place, Opening::Existing) {
        Err(Failure::Store(StoreError::Missing { .. })) => None,
        opened => Some(opened?),
    };
    let logs = store.as_deref().map_or(Ok(Vec::new()), |store| kept(store, &project))?;
    let forgotten = Forgotten {
        project: project.name.clone(),
        store: place.to_string(),
        logs: logs.len(),
        entries: logs.iter().map(|log| log.records).sum(),
        bytes: logs.iter().map(|log| log.bytes).sum(),
        deleted: args.yes,
    };
    if args.yes {
        switch::stop_recording(&project)?;
        store.as_deref().map_or(Ok(()), |store| delete(store, &project))?;
        Journal::of_user().forget(&project)?;
        hooks::forget_told(&project)?;
    }
    if args.json {
        output::json_line(&forgotten)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Forgotten { project, store, logs, entries, bytes, .. } = &forgotten;
    let logs = output::counted(*logs as u64, "log", "logs");
    let (entries, kilobytes) = (output::counted(*entries, "entry", "entries"), output::number(bytes.div_ceil(1_000)));
    let [project, store] = [project, store].map(|text| output::plain(text));
    output::line(&match (forgotten.logs, args.yes) {
        (0, _) => format!("nothing is kept of {project} in {store}"),
        (_, true) => {
            format!("deleted {logs} with {entries} ({kilobytes} kB) of {project} from {store}; nothing is left")
        }
        (_, false) => format!("{logs} with {entries} ({kilobytes} kB) of {project} in {store}; delete with --yes"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Deletes the logs of a project, also those that a hook in the background writes meanwhile.
fn delete(store: &dyn Store, project: &Project) -> Result<(), Failure> {
    /// How often, and after which time, a hook in the background may write again.
    const TRIES: usize = 10;
    const PAUSE: Duration = Duration::from_millis(500);
    for _ in 0..TRIES {
        let names: Vec<_> = kept(store, project)?.into_iter().map(|log| log.name).collect();
        block_on(store.delete(&names))?;
        thread::sleep(PAUSE);
        if kept(store, project)?.is_empty() {
            block_on(store.vacuum())?;
            return Ok(());
        }
    }
    Err(Failure::NotForgotten { left: kept(store, project)?.len() })
}

/// Returns the logs of a project: its sessions, what is derived from them, and its facts.
fn kept(store: &dyn Store, project: &Project) -> Result<Vec<LogInfo>, Failure> {
    let mut logs = block_on(store.list(""))?;
    let is_of_project = |of: &str| of == project.workspace() || of.starts_with(&project.prefix());
    logs.retain(|log| match log.name.derived() {
        Some((_, of)) => is_of_project(of),
        None => is_of_project(log.name.as_str()),
    });
    Ok(logs)
}

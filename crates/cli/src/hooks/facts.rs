//! Tells the model the facts of the project: all at the beginning and after it has forgotten them, later what changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_facts::sheet::changes;
use lookback_facts::{Fact, FactId, Memory, SheetOptions, recall_below, tools};
use lookback_store::Store;
use lookback_tokens::Estimate;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::project::Project;
use crate::failure::Failure;
use crate::location;

/// Returns the facts for a conversation that begins, or goes on. If the model still has what it was told, only what has
/// changed since. `None` if there is nothing to tell.
pub(super) fn at_begin(
    store: &Arc<dyn Store>,
    project: &Project,
    session: &str,
    forgot: bool,
    budget: u64,
) -> Result<Option<String>, Failure> {
    let told = Told::of(project, session);
    if !forgot && told.read().is_some() {
        return at_prompt(store, project, session, budget);
    }
    let Some(memory) = memory(store, project)? else { return Ok(None) };
    let sheet = block_on(memory.sheet(&SheetOptions::default().budget(budget), &Estimate::default()))?;
    told.write(&block_on(memory.ids())?)?;
    Ok(Some(sheet.text).filter(|text| !text.is_empty()))
}

/// Answers a call of the tool `recall`, as the MCP server for a project does.
pub(super) fn recall(
    store: &Arc<dyn Store>,
    project: &Project,
    mut arguments: Map<String, Value>,
) -> Result<String, Failure> {
    let session = arguments.remove("session");
    if let (None, 1, Some(Value::String(query))) = (&session, arguments.len(), arguments.get("query")) {
        return Ok(block_on(recall_below(&**store, &project.prefix(), query))?);
    }
    let named = session.as_ref().and_then(Value::as_str).filter(|session| session.starts_with(&project.prefix()));
    let session = match named {
        Some(session) => session.to_owned(),
        None => project.results().map(|log| log.to_string()).unwrap_or_default(),
    };
    let memory = block_on(Memory::open_in(store.clone(), &session, &project.name))?;
    Ok(block_on(tools::call(&memory, tools::RECALL, &Value::Object(arguments).to_string())).text)
}

/// Forgets what the model was told, so that it is told everything again.
pub(super) fn forgot(project: &Project, session: &str) {
    if let Some(path) = Told::of(project, session).path {
        // If it was told nothing, there is no file.
        let _ = fs::remove_file(path);
    }
}

/// Forgets what the model was told, if the log has more compactions than before.
pub(super) fn compacted(project: &Project, session: &str, compactions: usize) {
    let told = Told::of(project, session);
    let Some(mut list) = told.list() else { return };
    if list.compactions < compactions {
        (list.facts, list.compactions) = (None, compactions);
        // Without the file, the facts are told once too often.
        let _ = told.write_list(&list);
    }
}

/// Returns what has changed of the facts since the model was told them. `None` if nothing has.
pub(super) fn at_prompt(
    store: &Arc<dyn Store>,
    project: &Project,
    session: &str,
    budget: u64,
) -> Result<Option<String>, Failure> {
    let told = Told::of(project, session);
    let Some(before) = told.read() else { return at_begin(store, project, session, true, budget) };
    let Some(memory) = memory(store, project)? else { return Ok(None) };
    let now = block_on(memory.ids())?;
    if before == now {
        return Ok(None);
    }
    let facts = block_on(memory.facts())?;
    let new: Vec<Fact> = facts.into_iter().filter(|fact| !before.contains(&fact.id)).collect();
    let gone: Vec<FactId> = before.difference(&now).copied().collect();
    let sheet = changes(&new, &gone, &SheetOptions::default().budget(budget), &Estimate::default());
    told.write(&now)?;
    Ok(Some(sheet.text).filter(|text| !text.is_empty()))
}

/// Opens the memory of a project: the facts that all its agents share.
fn memory(store: &Arc<dyn Store>, project: &Project) -> Result<Option<Memory>, Failure> {
    let Some(log) = project.results() else { return Ok(None) };
    Ok(Some(block_on(Memory::open_in(store.clone(), log.as_str(), &project.name))?))
}

/// The facts that the model of a conversation was told.
struct Told {
    /// `None` if the system has no folder for it.
    path: Option<PathBuf>,
}

/// The contents of the file.
#[derive(Serialize, Deserialize)]
struct List {
    /// The facts. `None` if the model has forgotten them.
    facts: Option<Vec<String>>,
    /// How often the agent has compacted its history, by its log, if only that says so.
    compactions: usize,
}

impl Told {
    fn of(project: &Project, session: &str) -> Told {
        let digest = xxh3_64(format!("{}\n{session}", project.name).as_bytes());
        Told { path: location::user_folder().map(|folder| folder.join("told").join(format!("{digest:016x}.json"))) }
    }

    fn list(&self) -> Option<List> {
        let text = fs::read_to_string(self.path.as_ref()?).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Returns the facts; `None` if nothing was told yet.
    fn read(&self) -> Option<BTreeSet<FactId>> {
        Some(self.list()?.facts?.iter().filter_map(|name| name.parse().ok()).collect())
    }

    fn write(&self, facts: &BTreeSet<FactId>) -> Result<(), Failure> {
        let compactions = self.list().map_or(0, |list| list.compactions);
        self.write_list(&List { facts: Some(facts.iter().map(FactId::to_string).collect()), compactions })
    }

    fn write_list(&self, list: &List) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent() {
            crate::store::make_private(folder)?;
        }
        fs::write(path, serde_json::to_string(list)?)?;
        Ok(())
    }
}

/// Removes what was told in conversations that were last used before a time.
pub(super) fn forget_old(before: std::time::SystemTime) {
    let Some(folder) = location::user_folder().map(|folder| folder.join("told")) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_old = entry.metadata().and_then(|of| of.modified()).is_ok_and(|used| used < before);
        if is_old {
            // Another process may have removed it.
            let _ = fs::remove_file(entry.path());
        }
    }
}

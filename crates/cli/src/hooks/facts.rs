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
use crate::atomic_file::AtomicFile;
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
    let memory = memory(store, project)?;
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
    let session = arguments.remove("session").filter(|session| !session.is_null());
    if let (None, 1, Some(Value::String(query))) = (&session, arguments.len(), arguments.get("query")) {
        return Ok(block_on(recall_below(&**store, &project.prefix(), query))?);
    }
    let session = match session {
        None => project.results(&**store)?.to_string(),
        Some(Value::String(session)) if session.starts_with(&project.prefix()) => session,
        Some(session) => return Ok(format!("there is no session {session} of this project")),
    };
    let memory = block_on(Memory::open_in(store.clone(), &session, &project.workspace()))?;
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
    let memory = memory(store, project)?;
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
fn memory(store: &Arc<dyn Store>, project: &Project) -> Result<Memory, Failure> {
    Ok(block_on(Memory::open_in(store.clone(), &project.memory(), &project.workspace()))?)
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

/// Returns the folder with what was told in the conversations of a project.
fn folder(project: &Project) -> Option<PathBuf> {
    location::user_folder().map(|folder| folder.join("told").join(&project.name))
}

/// Removes what was told in all conversations of a project.
pub(crate) fn forget_told(project: &Project) -> Result<(), Failure> {
    match folder(project).map(fs::remove_dir_all) {
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

impl Told {
    fn of(project: &Project, session: &str) -> Told {
        let digest = xxh3_64(session.as_bytes());
        Told { path: folder(project).map(|folder| folder.join(format!("{digest:016x}.json"))) }
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
        AtomicFile::begin_private(path)?.finish(&serde_json::to_string(list)?)
    }
}

/// Removes the files of conversations that were last used before a time.
pub(super) fn forget_old(before: std::time::SystemTime) {
    let Some(folder) = location::user_folder() else { return };
    let files = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let told = files(folder.join("told")).flat_map(files);
    for file in
        told.chain(files(folder.join("off"))).chain(files(folder.join("locks"))).chain(files(folder.join("forgotten")))
    {
        let is_old = fs::metadata(&file).and_then(|of| of.modified()).is_ok_and(|used| used < before);
        if is_old {
            // Another process may have removed it.
            let _ = fs::remove_file(file);
        }
    }
}

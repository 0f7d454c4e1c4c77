//! Tells the model the facts of the project: all at the beginning and after it has forgotten them, later what changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_facts::sheet::changes;
use lookback_facts::{Fact, FactId, Memory, SheetOptions};
use lookback_store::Store;
use lookback_tokens::Estimate;
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

/// Returns what has changed of the facts since the model was told them. `None` if nothing has.
pub(super) fn at_prompt(
    store: &Arc<dyn Store>,
    project: &Project,
    session: &str,
    budget: u64,
) -> Result<Option<String>, Failure> {
    let told = Told::of(project, session);
    let Some(memory) = memory(store, project)? else { return Ok(None) };
    let (before, now) = (told.read().unwrap_or_default(), block_on(memory.ids())?);
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

impl Told {
    fn of(project: &Project, session: &str) -> Told {
        let digest = xxh3_64(format!("{}\n{session}", project.name).as_bytes());
        Told { path: location::user_folder().map(|folder| folder.join("told").join(format!("{digest:016x}.json"))) }
    }

    /// Returns the facts; `None` if nothing was told yet.
    fn read(&self) -> Option<BTreeSet<FactId>> {
        let text = fs::read_to_string(self.path.as_ref()?).ok()?;
        let names: Vec<String> = serde_json::from_str(&text).ok()?;
        Some(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    fn write(&self, facts: &BTreeSet<FactId>) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent() {
            crate::store::make_private(folder)?;
        }
        let names: Vec<String> = facts.iter().map(FactId::to_string).collect();
        fs::write(path, serde_json::to_string(&names)?)?;
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

//! Fact sheets as text: of a session, and of the shared facts.

use lookback_facts::{Facts, Memory, MemoryError, Scope, Sheet, SheetOptions, sheet};
use lookback_store::LogName;
use lookback_tokens::Estimate;

use super::Server;

/// The maximum length of a fact sheet in tokens. It is large, because a sheet is read on demand and not with each
/// request.
const BUDGET: u64 = 8_000;

/// Returns the fact sheet of a session, with shared facts. `None` if there is no such session.
pub(super) async fn find(server: &Server, session: &LogName) -> Result<Option<String>, MemoryError> {
    let store = server.memory.store();
    let is_there = session == server.memory.session()
        || store.head(session, None).await?.is_some()
        || store.head(&session.facts_of(), None).await?.is_some();
    if !is_there {
        return Ok(None);
    }
    let memory = server.memory_of(session).await?;
    Ok(Some(text(memory.sheet(&options(), &Estimate::default()).await?)))
}

/// Returns the fact sheet of the facts that the sessions of a workspace share.
pub(super) async fn shared(memory: &Memory) -> Result<String, MemoryError> {
    let mut facts = Facts::new(Scope::Shared);
    memory.entries(Scope::Shared).await?.iter().for_each(|entry| facts.apply(entry));
    Ok(text(sheet(&[&facts], &options(), &Estimate::default())))
}

fn options() -> SheetOptions {
    SheetOptions::default().budget(BUDGET)
}

fn text(sheet: Sheet) -> String {
    if sheet.text.is_empty() { "Nothing is remembered here yet.".to_owned() } else { sheet.text }
}

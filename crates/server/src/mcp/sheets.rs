//! What is remembered, as text: the fact sheet of a session, and that of what sessions share.

use lookback::LogName;
use lookback::memory::{Facts, Memory, MemoryError, Scope, Sheet, SheetOptions, sheet};
use lookback::tokens::Estimate;

use super::Server;

/// The most tokens of a sheet: it is read when somebody asks for it, not with each request.
const BUDGET: u64 = 8_000;

/// The sheet of a session, with what it shares. `None`: there is no such session.
pub(super) async fn of(server: &Server, session: &LogName) -> Result<Option<String>, MemoryError> {
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

/// The sheet of what the sessions of a workspace share.
pub(super) async fn shared(memory: &Memory) -> Result<String, MemoryError> {
    let mut facts = Facts::new(Scope::Shared);
    memory.entries(Scope::Shared).await?.iter().for_each(|entry| facts.apply(entry));
    Ok(text(sheet(&[&facts], &options(), &Estimate::default())))
}

fn options() -> SheetOptions {
    SheetOptions { budget: BUDGET, ..SheetOptions::default() }
}

fn text(sheet: Sheet) -> String {
    if sheet.text.is_empty() { "Nothing is remembered here yet.".to_owned() } else { sheet.text }
}

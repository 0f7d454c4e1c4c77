//! `lookback facts`: reads and writes facts.

use crate::exit::ExitCode;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_facts as memory;
use lookback_facts::{
    Counts, Effect, Export, Fact, FactEntry, FactEvent, FactId, FactKind, Judgment, KbFolder, Memory, MemoryError,
    Refused, Scope, SheetOptions, Source, Speaker, Statement,
};
use lookback_store::search::Query;
use lookback_store::{Durability, FileStore, MemoryStore, Store, StoreError};

use super::sessions;
use crate::args::{AddArgs, FactsCommand, Place, Whose, WhoseExactly};
use crate::failure::Failure;
use crate::store::{self, Opening};
use crate::{input, json, output};

/// The session name for commands that name no session.
const NO_SESSION: &str = "command line";

pub(crate) fn run(command: FactsCommand) -> Result<ExitCode, Failure> {
    match command {
        FactsCommand::List { whose, shared, kind, query, within, json } => {
            let query = query.map(|query| Query::new(&query).within(within.into()));
            return list(&whose, shared, kind, query, json);
        }
        FactsCommand::Add(args) => add(args)?,
        FactsCommand::Resolve { id, with, whose, json } => {
            block_on(existing_with(id, &whose)?.resolve(id, &with, person()))?;
            done("resolved", id, &whose, json)?;
        }
        FactsCommand::Forget { ids, whose, json } => {
            // Check all facts before the first is forgotten, so that a mistake changes nothing.
            let memories = ids.iter().map(|id| standing(*id, &whose)).collect::<Result<Vec<_>, _>>()?;
            for (id, memory) in ids.into_iter().zip(memories) {
                block_on(memory.forget(id, person()))?;
                done("forgot", id, &whose, json)?;
            }
        }
        FactsCommand::History { id, whose, json } => history(id, &whose, json)?,
        FactsCommand::Sheet { whose, budget, model, json } => sheet(&whose, budget, model.as_deref(), json)?,
        FactsCommand::Export { whose: WhoseExactly { session, shared, place } } => {
            let text = block_on(memory::export(&existing(session.as_deref(), &place)?, scope(shared)))?;
            output::result(&text)?;
        }
        FactsCommand::Import { file, session, shared, dry_run, place, json } => {
            let options = ImportOptions { dry_run, json };
            return if file.is_dir() {
                if session.is_some() || shared {
                    return Err(Failure::FolderOfSessions(input::place(&file)));
                }
                import_folder(&file, &place, options)
            } else {
                import_export(&file, session.as_deref(), shared, &place, options)
            };
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports a change of a fact. A shared fact belongs to the workspace, even if a session is named.
fn done(what: &str, id: FactId, whose: &Whose, json: bool) -> Result<(), Failure> {
    let workspace = (id.scope == Scope::Shared).then(|| whose.place.workspace());
    if json {
        let done = serde_json::json!({"id": id, "done": what, "workspace": workspace});
        return Ok(output::line(&done.to_string())?);
    }
    let whom =
        workspace.map_or_else(String::new, |workspace| format!(" for all sessions of the workspace {workspace}"));
    output::message(&format!("{what} {id}{whom}"));
    Ok(())
}

fn person() -> Source {
    Source::new(Speaker::Person)
}

fn scope(shared: bool) -> Scope {
    if shared { Scope::Shared } else { Scope::Session }
}

/// Opens the memory of a session. The session and the store must exist.
fn existing(session: Option<&str>, place: &Place) -> Result<Memory, Failure> {
    let store = sessions::open(&place.store())?;
    if let Some(name) = session {
        sessions::known(&*store, name, &place.store())?;
    }
    memory(store, session, place)
}

/// Opens the memory that contains a fact.
fn existing_with(id: FactId, whose: &Whose) -> Result<Memory, Failure> {
    if id.scope == Scope::Session && whose.session.is_none() {
        return Err(Failure::WhoseFact { id });
    }
    existing(whose.session.as_deref(), &whose.place)
}

/// Opens the target store of an import. A dry run does not create it.
fn target(place: &Place, options: ImportOptions) -> Result<Arc<dyn Store>, Failure> {
    if !options.dry_run {
        return store::open(&place.store().location()?, Opening::Made(Durability::Disk));
    }
    match sessions::open(&place.store()) {
        Err(Failure::Store(StoreError::Missing { .. }) | Failure::KbFolder(_)) => Ok(Arc::new(MemoryStore::new())),
        opened => opened,
    }
}

/// Opens the memory that contains a fact, which must be current.
fn standing(id: FactId, whose: &Whose) -> Result<Memory, Failure> {
    let memory = existing_with(id, whose)?;
    match block_on(memory.get(id))? {
        Some(_) => Ok(memory),
        None => Err(MemoryError::from(Refused::Gone { id }).into()),
    }
}

fn memory(store: Arc<dyn Store>, session: Option<&str>, place: &Place) -> Result<Memory, Failure> {
    Ok(block_on(Memory::open_in(store, session.unwrap_or(NO_SESSION), &place.workspace()))?)
}

fn list(
    whose: &Whose,
    shared: bool,
    kind: Option<FactKind>,
    query: Option<Query>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let memory = existing(whose.session.as_deref(), &whose.place)?;
    let is_search = query.is_some();
    let mut facts = match query {
        Some(query) => block_on(memory.search(query, usize::MAX))?,
        None => block_on(memory.facts())?,
    };
    let is_listed = |scope| match scope {
        Scope::Session => whose.session.is_some(),
        _ => shared || whose.session.is_none(),
    };
    facts.retain(|fact| is_listed(fact.id.scope) && kind.is_none_or(|kind| fact.statement.kind == kind));
    if json {
        for fact in &facts {
            output::json_line(&json::Fact::from(fact))?;
        }
    } else if facts.is_empty() {
        output::message(if is_search { "nothing found" } else { "no facts" });
    } else {
        let header = ["fact", "kind", "trust", "confidence", "confirmed", "stated (UTC)", "text"];
        output::line(&output::text_of(&output::table(header, &[0, 1, 2, 5, 6], facts.iter().map(fact_row))))?;
    }
    if whose.session.is_none() && !shared && !json {
        tell_others(memory.store())?;
    }
    Ok(ExitCode::from(u8::from(is_search && facts.is_empty())))
}

/// Names the sessions that have facts of their own.
fn tell_others(store: &Arc<dyn Store>) -> Result<(), Failure> {
    const NAMED: usize = 5;
    let logs = block_on(store.list(""))?;
    let mut others = Vec::new();
    for (session, _) in sessions::with_facts(&logs) {
        let count = sessions::facts(store, &session)?;
        if count > 0 {
            others.push((session, count));
        }
    }
    let total = others.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return Ok(());
    }
    let mut named: Vec<_> = others.iter().take(NAMED).map(|(session, count)| format!("{session} ({count})")).collect();
    if others.len() > NAMED {
        named.push(format!("{} more", others.len() - NAMED));
    }
    let facts = output::counted(total, "fact", "facts");
    output::message(&format!("sessions have {facts} of their own: {}; --session NAME lists them", named.join(", ")));
    Ok(())
}

fn fact_row(fact: &Fact) -> [String; 7] {
    let Statement { kind, text, about, .. } = &fact.statement;
    let about = about.as_ref().map_or_else(String::new, |about| format!("{about}: "));
    [
        fact.id.to_string(),
        kind.to_string(),
        fact.trust.to_string(),
        format!("{:.2}", fact.confidence.value()),
        output::number(fact.confirmations),
        sessions::minute(fact.said),
        short(&format!("{about}{text}")),
    ]
}

/// Returns a text on one line of at most 72 characters.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().nth(72).is_none() {
        return output::plain(&line);
    }
    output::plain(&line.chars().take(69).collect::<String>()) + "..."
}

fn add(args: AddArgs) -> Result<(), Failure> {
    let AddArgs { kind, text, about, confidence, tags, supersedes, whose, json } = args;
    let store = store::open(&whose.place.store().location()?, Opening::Made(Durability::Disk))?;
    let memory = memory(store, whose.session.as_deref(), &whose.place)?;
    let mut statement = Statement::new(kind, text, person());
    (statement.about, statement.confidence) = (about, confidence);
    (statement.tags, statement.supersedes) = (tags, supersedes);
    let stated = block_on(memory.state(scope(whose.shared), statement))?;
    if json {
        return output::json_line(&stated);
    }
    output::line(&stated.id.to_string())?;
    match stated.judgment {
        Judgment::Again { id } => output::note(&format!("{id} says the same, and is confirmed")),
        Judgment::New { supersedes, disputes } => {
            for old in supersedes {
                output::note(&format!("supersedes {old}"));
            }
            if let Some(other) = disputes {
                output::note(&format!("disputes {other}, which has a higher trust; both facts are kept"));
            }
        }
        _ => {}
    }
    Ok(())
}

fn history(id: FactId, whose: &Whose, json: bool) -> Result<(), Failure> {
    let events = block_on(existing_with(id, whose)?.history(id))?;
    if events.is_empty() {
        return Err(Failure::NoFact { id, store: whose.place.store().location()?.to_string() });
    }
    if json {
        for event in &events {
            output::json_line(&json::Event::from(event))?;
        }
        return Ok(());
    }
    let header = ["fact", "what", "by", "time (UTC)", "text"];
    let rows = events.iter().map(event_row);
    Ok(output::line(&output::text_of(&output::table(header, &[0, 1, 2, 3, 4], rows)))?)
}

fn event_row(event: &FactEvent) -> [String; 5] {
    let own = FactId { scope: event.scope, position: event.position };
    let (id, what, source, time, text) = match &event.entry {
        FactEntry::Stated(statement) => {
            let Statement { source, time, text, supersedes, .. } = statement;
            let old: Vec<_> = supersedes.iter().map(FactId::to_string).collect();
            let what =
                if old.is_empty() { "stated".to_owned() } else { format!("stated, supersedes {}", old.join(", ")) };
            (own, what, Some(source), *time, text.as_str())
        }
        FactEntry::Confirmed { id, source, time, .. } => (*id, "confirmed".to_owned(), Some(source), *time, ""),
        FactEntry::Resolved { id, with, source, time } => {
            (*id, "resolved".to_owned(), Some(source), *time, with.as_str())
        }
        FactEntry::Forgotten { id, why, source, time } => {
            (*id, "forgotten".to_owned(), Some(source), *time, why.as_deref().unwrap_or_default())
        }
        FactEntry::Extracted { .. } => (own, "extracted".to_owned(), None, None, ""),
        _ => (own, "unknown".to_owned(), None, None, ""),
    };
    let by = source.map_or_else(String::new, |source| match &source.by {
        Speaker::Person => "person".to_owned(),
        Speaker::Model => "model".to_owned(),
        Speaker::Tool(name) => short(name),
        _ => "unknown".to_owned(),
    });
    [id.to_string(), what, by, sessions::minute(time), short(text)]
}

fn sheet(whose: &Whose, budget: u64, model: Option<&str>, json: bool) -> Result<(), Failure> {
    let memory = existing(whose.session.as_deref(), &whose.place)?;
    let counter = input::settings(model).counter;
    let sheet = block_on(memory.sheet(&SheetOptions::default().budget(budget), &*counter))?;
    if sheet.is_short() {
        output::warning("corrections, constraints or blockers are left out; raise --budget to show them");
    }
    if json {
        output::json_line(&sheet)?;
    } else if sheet.text.is_empty() {
        output::message(if sheet.left_out.is_empty() { "no facts" } else { "no fact fits the budget" });
    } else {
        output::line(&sheet.text)?;
    }
    Ok(())
}

/// The options of an import that affect how it runs and reports.
#[derive(Clone, Copy)]
struct ImportOptions {
    dry_run: bool,
    json: bool,
}

impl ImportOptions {
    fn effect(self) -> Effect {
        if self.dry_run { Effect::DryRun } else { Effect::Write }
    }
}

fn import_export(
    file: &std::path::Path,
    session: Option<&str>,
    shared: bool,
    place: &Place,
    options: ImportOptions,
) -> Result<ExitCode, Failure> {
    let from = || input::place(file);
    if session.is_none() && !shared {
        // A missing file is the more useful error. Standard input is not read, so that nobody types input in vain.
        if file != "-" {
            input::text(file)?;
        }
        return Err(Failure::WhoseFacts(from()));
    }
    let export = Export::read(&input::text(file)?).map_err(|fault| Failure::Export { place: from(), fault })?;
    if export.scope().is_none() {
        return Err(Failure::NoFacts(from()));
    }
    let memory = memory(target(place, options)?, session, place)?;
    let report = block_on(memory::import(&memory, scope(shared), &export, options.effect()))?;
    if options.json {
        output::json_line(&report)?;
    } else {
        let restored = if report.restored { ", with their identifiers and history" } else { "" };
        output::line(&format!("{}{restored}", counted(&report.counts, options)))?;
        for refused in &report.refused {
            output::warning(&format!("{}: line {}: {}", from(), refused.line, refused.reason));
        }
    }
    Ok(ExitCode::from(u8::from(!report.refused.is_empty())))
}

fn import_folder(folder: &std::path::Path, place: &Place, options: ImportOptions) -> Result<ExitCode, Failure> {
    // A store of Lookback that contains nothing from KB Labs gets an error of its own.
    let found = KbFolder::read(folder).map_err(|error| match FileStore::open_existing(folder) {
        Ok(_) => Failure::OwnStore(folder.to_owned()),
        Err(_) => error.into(),
    })?;
    let report = block_on(found.import(target(place, options)?, &place.workspace(), options.effect()))?;
    if options.json {
        output::json_line(&report)?;
    } else {
        output::line(&counted(&report.counts, options))?;
        let talks = output::counted(report.conversations, "conversation", "conversations");
        let messages = output::counted(report.messages, "message", "messages");
        let passed = match report.skipped {
            0 => String::new(),
            count => format!("; skipped {} whose session already has messages", output::number(count)),
        };
        output::line(&format!("{talks} with {messages}{passed}"))?;
        for damaged in &report.damaged {
            output::warning(&format!("{}: {}", damaged.path, damaged.reason));
        }
    }
    Ok(ExitCode::from(u8::from(!report.damaged.is_empty())))
}

/// Returns a line such as `3 facts: 2 new, 1 already known`. Refused facts are not counted.
fn counted(counts: &Counts, options: ImportOptions) -> String {
    let Counts { new, confirmed, superseded, disputed, known, outdated, .. } = *counts;
    let mut parts = vec![format!("{} new", output::number(new))];
    for (count, what) in [
        (superseded, "superseded"),
        (disputed, "disputed"),
        (confirmed, "confirmed"),
        (known, "already known"),
        (outdated, "outdated"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", output::number(count)));
        }
    }
    let dry_run = if options.dry_run { "dry run, nothing is written: " } else { "" };
    let total = new + confirmed + known + outdated;
    format!("{dry_run}{}: {}", output::counted(total, "fact", "facts"), parts.join(", "))
}

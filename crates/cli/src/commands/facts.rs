//! `lookback facts`: what is known from before, as people read and write it.

use std::process::ExitCode;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback::memory::{
    self, Counts, Effect, Event, Export, Fact, FactEntry, FactId, FactKind, Judgment, KbError, KbImported, Memory,
    MemoryError, Refused, Scope, SheetOptions, Source, Speaker, Statement,
};
use lookback::{Durability, FileStore, MemoryStore, Store, StoreError};

use super::sessions;
use crate::args::{AddArgs, FactsCommand, ModelArg, Place, Whose, WhoseExactly};
use crate::failure::Failure;
use crate::store::{self, Opening};
use crate::{input, json, output};

/// The session of whoever types a command that is about no session.
const NO_SESSION: &str = "command line";

pub(crate) fn run(command: FactsCommand) -> Result<ExitCode, Failure> {
    match command {
        FactsCommand::List { whose, shared, kind, query, json } => {
            return list(&whose, shared, kind, query.as_deref(), json);
        }
        FactsCommand::Add(args) => add(args)?,
        FactsCommand::Resolve { id, with, whose, json } => {
            block_on(existing_with(id, &whose)?.resolve(id, &with, person()))?;
            done("resolved", id, &whose, json)?;
        }
        FactsCommand::Forget { ids, whose, json } => {
            // All or none, as far as can be told before.
            let memories = ids.iter().map(|id| standing(*id, &whose)).collect::<Result<Vec<_>, _>>()?;
            for (id, memory) in ids.into_iter().zip(memories) {
                block_on(memory.forget(id, person()))?;
                done("forgot", id, &whose, json)?;
            }
        }
        FactsCommand::History { id, whose, json } => history(id, &whose, json)?,
        FactsCommand::Sheet { whose, budget, model, json } => sheet(&whose, budget, &model, json)?,
        FactsCommand::Export { whose: WhoseExactly { session, shared, place } } => {
            let text = block_on(memory::export(&existing(session.as_deref(), &place)?, scope(shared)))?;
            output::result(&text)?;
        }
        FactsCommand::Import { file, session, shared, dry_run, place, json } => {
            let told = Told { dry_run, json };
            return if file.is_dir() {
                if session.is_some() || shared {
                    return Err(Failure::FolderOfSessions(input::place(&file)));
                }
                import_folder(&file, &place, told)
            } else {
                import_export(&file, session.as_deref(), shared, &place, told)
            };
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what was done to a fact, and for whom: a shared one is no session's, whichever is named.
fn done(what: &str, id: FactId, whose: &Whose, json: bool) -> Result<(), Failure> {
    let workspace = Some(&whose.place.workspace).filter(|_| id.scope == Scope::Shared);
    if json {
        let done = serde_json::json!({"id": id, "done": what, "workspace": workspace});
        return Ok(output::line(&done.to_string())?);
    }
    let whom = workspace.map_or_else(String::new, |workspace| format!(", for all sessions of {workspace}"));
    output::tell(&format!("{what} {id}{whom}"));
    Ok(())
}

fn person() -> Source {
    Source::of(Speaker::Person)
}

fn scope(shared: bool) -> Scope {
    if shared { Scope::Shared } else { Scope::Session }
}

/// What a session knows that must be there, in a store that must be there.
fn existing(session: Option<&str>, place: &Place) -> Result<Memory, Failure> {
    let store = sessions::open(&place.store)?;
    if let Some(name) = session {
        sessions::known(&*store, name, &place.store)?;
    }
    memory(store, session, place)
}

/// The same, for a fact that names its scope.
fn existing_with(id: FactId, whose: &Whose) -> Result<Memory, Failure> {
    if id.scope == Scope::Session && whose.session.is_none() {
        return Err(Failure::WhoseFact { id });
    }
    existing(whose.session.as_deref(), &whose.place)
}

/// The store that an import is written to; one that is only told of makes none.
fn target(place: &Place, told: Told) -> Result<Arc<dyn Store>, Failure> {
    if !told.dry_run {
        return store::open(&place.store.path, Opening::Made(Durability::Disk));
    }
    match sessions::open(&place.store) {
        Err(Failure::Store(StoreError::Missing { .. }) | Failure::KbFolder(_)) => Ok(Arc::new(MemoryStore::new())),
        opened => opened,
    }
}

/// The same, for a fact that must stand.
fn standing(id: FactId, whose: &Whose) -> Result<Memory, Failure> {
    let memory = existing_with(id, whose)?;
    match block_on(memory.get(id))? {
        Some(_) => Ok(memory),
        None => Err(MemoryError::from(Refused::Gone { id }).into()),
    }
}

fn memory(store: Arc<dyn Store>, session: Option<&str>, place: &Place) -> Result<Memory, Failure> {
    Ok(block_on(Memory::open_in(store, session.unwrap_or(NO_SESSION), &place.workspace))?)
}

fn list(
    whose: &Whose,
    shared: bool,
    kind: Option<FactKind>,
    query: Option<&str>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let memory = existing(whose.session.as_deref(), &whose.place)?;
    let mut facts = match query {
        Some(query) => block_on(memory.search(query, usize::MAX))?,
        None => block_on(memory.facts())?,
    };
    let wanted = |scope| match scope {
        Scope::Session => whose.session.is_some(),
        Scope::Shared => shared || whose.session.is_none(),
    };
    facts.retain(|fact| wanted(fact.id.scope) && kind.is_none_or(|kind| fact.statement.kind == kind));
    if json {
        for fact in &facts {
            output::line(&serde_json::to_string(&json::Fact::from(fact)).unwrap_or_default())?;
        }
    } else if facts.is_empty() {
        output::tell(if query.is_some() { "nothing found" } else { "no facts" });
    } else {
        let header = ["fact", "kind", "trust", "sure", "confirmed", "said (UTC)", "text"];
        output::line(&output::text_of(&output::table(header, &[0, 1, 2, 5, 6], facts.iter().map(row))))?;
    }
    if whose.session.is_none() && !shared && !json {
        tell_others(memory.store())?;
    }
    Ok(ExitCode::from(u8::from(query.is_some() && facts.is_empty())))
}

/// Says which sessions have facts of their own, so that nobody need know their names.
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
    let facts = many(total, "fact", "facts");
    output::tell(&format!("sessions have {facts} of their own: {}; --session NAME lists them", named.join(", ")));
    Ok(())
}

fn row(fact: &Fact) -> [String; 7] {
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

/// As much of a text as a line takes.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().nth(72).is_none() {
        return output::plain(&line);
    }
    output::plain(&line.chars().take(69).collect::<String>()) + "..."
}

fn add(args: AddArgs) -> Result<(), Failure> {
    let AddArgs { kind, text, about, confidence, tags, supersedes, whose, json } = args;
    let store = store::open(&whose.place.store.path, Opening::Made(Durability::Disk))?;
    let memory = memory(store, whose.session.as_deref(), &whose.place)?;
    let statement = Statement { about, confidence, tags, supersedes, ..Statement::new(kind, text, person()) };
    let stated = block_on(memory.state(scope(whose.shared), statement))?;
    if json {
        return Ok(output::line(&serde_json::to_string(&stated).unwrap_or_default())?);
    }
    output::line(&stated.id.to_string())?;
    match stated.judgment {
        Judgment::Again { id } => output::note(&format!("{id} says the same, and is confirmed")),
        Judgment::New { supersedes, disputes } => {
            for old in supersedes {
                output::note(&format!("takes the place of {old}"));
            }
            if let Some(other) = disputes {
                output::note(&format!("disputes {other}, which may be relied on further: both stand"));
            }
        }
    }
    Ok(())
}

fn history(id: FactId, whose: &Whose, json: bool) -> Result<(), Failure> {
    let events = block_on(existing_with(id, whose)?.history(id))?;
    if events.is_empty() {
        return Err(Failure::NoFact { id, store: whose.place.store.path.display().to_string() });
    }
    if json {
        for event in &events {
            output::line(&serde_json::to_string(&json::Event::from(event)).unwrap_or_default())?;
        }
        return Ok(());
    }
    let header = ["fact", "what", "by", "time (UTC)", "text"];
    let rows = events.iter().map(told);
    Ok(output::line(&output::text_of(&output::table(header, &[0, 1, 2, 3, 4], rows)))?)
}

fn told(event: &Event) -> [String; 5] {
    let own = FactId { scope: event.scope, position: event.position };
    let (id, what, source, time, text) = match &event.entry {
        FactEntry::Stated(statement) => {
            let Statement { source, time, text, supersedes, .. } = statement;
            let old: Vec<_> = supersedes.iter().map(FactId::to_string).collect();
            let what = if old.is_empty() { "stated".to_owned() } else { format!("took over from {}", old.join(", ")) };
            (own, what, Some(source), *time, text.as_str())
        }
        FactEntry::Confirmed { id, source, time, .. } => (*id, "confirmed".to_owned(), Some(source), *time, ""),
        FactEntry::Resolved { id, with, source, time } => {
            (*id, "resolved".to_owned(), Some(source), *time, with.as_str())
        }
        FactEntry::Forgotten { id, why, source, time } => {
            (*id, "forgotten".to_owned(), Some(source), *time, why.as_deref().unwrap_or_default())
        }
        FactEntry::Drawn { .. } => (own, "drawn".to_owned(), None, None, ""),
    };
    let by = source.map_or_else(String::new, |source| match &source.by {
        Speaker::Person => "person".to_owned(),
        Speaker::Model => "model".to_owned(),
        Speaker::Tool(name) => short(name),
    });
    [id.to_string(), what, by, sessions::minute(time), short(text)]
}

fn sheet(whose: &Whose, budget: u64, model: &ModelArg, json: bool) -> Result<(), Failure> {
    let memory = existing(whose.session.as_deref(), &whose.place)?;
    let (counter, _) = input::model(model.name.as_deref());
    let sheet = block_on(memory.sheet(&SheetOptions { budget, ..SheetOptions::default() }, &*counter))?;
    if sheet.is_short() {
        output::warning("corrections, constraints or blockers are left out; give it a larger --budget");
    }
    if json {
        output::line(&serde_json::to_string(&sheet).unwrap_or_default())?;
    } else if sheet.text.is_empty() {
        output::tell(if sheet.left_out.is_empty() { "no facts" } else { "no fact fits the budget" });
    } else {
        output::line(&sheet.text)?;
    }
    Ok(())
}

/// How an import is told.
#[derive(Clone, Copy)]
struct Told {
    dry_run: bool,
    json: bool,
}

impl Told {
    fn effect(self) -> Effect {
        if self.dry_run { Effect::Told } else { Effect::Written }
    }
}

fn import_export(
    file: &std::path::Path,
    session: Option<&str>,
    shared: bool,
    place: &Place,
    told: Told,
) -> Result<ExitCode, Failure> {
    let from = || input::place(file);
    if session.is_none() && !shared {
        // Whether it is there comes first; from standard input nothing need be typed to be told this.
        if file != "-" {
            input::text(file)?;
        }
        return Err(Failure::WhoseFacts(from()));
    }
    let export = Export::read(&input::text(file)?).map_err(|fault| Failure::Export { place: from(), fault })?;
    if export.scope().is_none() {
        return Err(Failure::NoFacts(from()));
    }
    let memory = memory(target(place, told)?, session, place)?;
    let report = block_on(memory::import(&memory, scope(shared), &export, told.effect()))?;
    if told.json {
        output::line(&serde_json::to_string(&report).unwrap_or_default())?;
    } else {
        let restored = if report.restored { ", with their identifiers and all that happened to them" } else { "" };
        output::line(&format!("{}{restored}", counted(&report.counts, told)))?;
        for refused in &report.refused {
            output::warning(&format!("{}: line {}: {}", from(), refused.line, refused.reason));
        }
    }
    Ok(ExitCode::from(u8::from(!report.refused.is_empty())))
}

fn import_folder(folder: &std::path::Path, place: &Place, told: Told) -> Result<ExitCode, Failure> {
    refuse_own(folder)?;
    let store = target(place, told)?;
    let report = block_on(memory::import_kb(store, &place.workspace, folder, told.effect()))?;
    if told.json {
        output::line(&serde_json::to_string(&report).unwrap_or_default())?;
    } else {
        output::line(&counted(&report.counts, told))?;
        let talks = many(report.conversations, "conversation", "conversations");
        let messages = many(report.messages, "message", "messages");
        let passed = match report.passed_over {
            0 => String::new(),
            count => format!("; {} left out, since there are messages already", output::number(count)),
        };
        output::line(&format!("{talks} of {messages}{passed}"))?;
        for damaged in &report.damaged {
            output::warning(&format!("{}: {}", damaged.path, damaged.reason));
        }
    }
    Ok(ExitCode::from(u8::from(!report.damaged.is_empty())))
}

/// Refuses a store of ours in which nothing is KB Labs': its `memory.json` would be read as one without facts.
fn refuse_own(folder: &std::path::Path) -> Result<(), Failure> {
    if FileStore::open_existing(folder).is_err() {
        return Ok(());
    }
    let found = block_on(memory::import_kb(Arc::new(MemoryStore::new()), Memory::WORKSPACE, folder, Effect::Told));
    let is_theirs = match found {
        Err(error) => !matches!(error, KbError::Nothing { .. }),
        Ok(found) => found != KbImported { files: found.files, ..KbImported::default() },
    };
    if is_theirs { Ok(()) } else { Err(Failure::OwnStore(folder.to_owned())) }
}

/// `3 facts: 2 new, 1 known`, of all that were not refused.
fn counted(counts: &Counts, told: Told) -> String {
    let Counts { new, confirmed, superseded, disputed, known, outdated } = *counts;
    let mut parts = vec![format!("{} new", output::number(new))];
    for (count, what) in [
        (superseded, "superseded"),
        (disputed, "disputed"),
        (confirmed, "confirmed"),
        (known, "known already"),
        (outdated, "outdated"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", output::number(count)));
        }
    }
    let would = if told.dry_run { "nothing is written; it would be " } else { "" };
    let total = new + confirmed + known + outdated;
    format!("{would}{}: {}", many(total, "fact", "facts"), parts.join(", "))
}

fn many(count: u64, one: &str, more: &str) -> String {
    format!("{} {}", output::number(count), if count == 1 { one } else { more })
}

//! Carries out a call, and writes the answer for the model.

use lookback_engine::transcript::Millis;
use lookback_tokens::Estimate;

use super::arguments::{Arguments, Wrong};
use super::definition::{Action, Definition};
use super::near::closest;
use crate::sheet::{line, quoted};
use crate::{
    Confidence, Fact, FactEntry, FactEvent, FactId, FactKind, Judgment, Memory, MemoryError, Recall, Refused, Scope,
    SheetOptions, Source, Speaker, Statement, recall,
};
use lookback_store::search::{BadTime, Query, Within};

/// The most tokens of all facts together.
const SHEET: u64 = 8_000;
/// The most characters of a fact's history, and of the facts that a search finds.
const LONGEST: usize = 16_000;
/// How many facts are shown if the requested fact is not current.
const NEAR: usize = 3;
/// How many facts a search returns by default.
const FOUND: u64 = 10;

/// The reason why a call was not carried out.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The reason, in words for the model.
    Message(String),
    /// An error of the memory.
    Memory(MemoryError),
}

impl From<Wrong> for Trouble {
    fn from(wrong: Wrong) -> Self {
        Trouble::Message(wrong.to_string())
    }
}

impl<E: Into<MemoryError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Trouble::Memory(error.into())
    }
}

pub(super) async fn answer(memory: &Memory, name: &str, arguments: &str) -> Result<String, Trouble> {
    let tool = Definition::find(name).ok_or_else(|| no_tool(name))?;
    let given = Arguments::read(tool, arguments)?;
    let done = match tool.action {
        Action::StateFinding => finding(memory, &given).await,
        Action::Block => blocker(memory, &given).await,
        Action::State(kind) => state(memory, statement(kind, &given)).await,
        Action::Get => get(memory, &given).await,
        Action::Forget => forget(memory, &given).await,
        Action::Search => search(memory, &given).await,
        Action::Recall => recalled(memory, &given).await,
    };
    match done {
        Err(Trouble::Memory(MemoryError::Refused(Refused::Gone { id }))) => Err(gone(memory, id).await?),
        done => done,
    }
}

fn no_tool(name: &str) -> Trouble {
    let name: String = name.chars().take(40).collect();
    let known: Vec<_> = Definition::ALL.iter().map(|tool| tool.name).collect();
    Trouble::Message(format!("there is no tool {}; the tools are {}", quoted(&name), known.join(", ")))
}

/// Explains that a fact is not current, and shows facts near it.
async fn gone(memory: &Memory, id: FactId) -> Result<Trouble, Trouble> {
    let mut facts: Vec<Fact> = memory.facts().await?.into_iter().filter(|fact| fact.id.scope == id.scope).collect();
    facts.sort_by_key(|fact| fact.id.position.abs_diff(id.position));
    facts.truncate(NEAR);
    let mut text = Refused::Gone { id }.to_string();
    text.push_str(match (facts.is_empty(), id.scope) {
        (false, _) => ". The nearest are:",
        (true, Scope::Session) => ". This session has no facts",
        (true, Scope::Shared) => ". The workspace has no facts",
    });
    for fact in &facts {
        text.push('\n');
        text.push_str(&line(fact));
    }
    Ok(Trouble::Message(text))
}

/// Returns the model's statement of a fact.
fn statement(kind: FactKind, given: &Arguments) -> Statement {
    let tags = given.texts("tags").iter().map(String::as_str).chain(given.text("taskId"));
    Statement {
        about: given.text("about").map(str::to_owned),
        tags: tags.map(str::to_owned).collect(),
        supersedes: [given.ids("supersedes"), given.ids("invalidates")].concat(),
        ..Statement::new(kind, given.text("content").unwrap_or_default(), Source::new(Speaker::Model))
    }
}

/// Returns the tool that a source names.
fn tool(source: &str) -> Option<&str> {
    source.strip_prefix("tool:").map(str::trim).filter(|name| !name.is_empty())
}

async fn finding(memory: &Memory, given: &Arguments) -> Result<String, Trouble> {
    let sources = given.texts("sources");
    let by = match given.text("source") {
        Some("model") => Speaker::Model,
        Some(source) => Speaker::Tool(tool(source).ok_or(Wrong::Source)?.to_owned()),
        // If any tool is among the sources, the finding has no more trust than a tool.
        None => {
            sources.iter().find_map(|source| tool(source)).map_or(Speaker::Model, |it| Speaker::Tool(it.to_owned()))
        }
    };
    let mut statement = statement(FactKind::Finding, given);
    statement.confidence = Confidence::new(given.share("confidence").unwrap_or_default());
    statement.source.by = by;
    statement.tags.extend(sources.iter().cloned());
    state(memory, statement).await
}

async fn blocker(memory: &Memory, given: &Arguments) -> Result<String, Trouble> {
    match (given.has("content"), given.id("resolves"), given.text("with")) {
        (true, None, None) => state(memory, statement(FactKind::Blocker, given)).await,
        (false, Some(id), Some(with)) => {
            memory.resolve(id, with, Source::new(Speaker::Model)).await?;
            Ok(format!("{id} is resolved."))
        }
        (false, Some(_), None) => Err(Wrong::Combination("`with` is missing: say what resolved the blocker").into()),
        (false, None, _) => {
            Err(Wrong::Combination("give `content` to state a new blocker, or `resolves` and `with` to end one").into())
        }
        (true, ..) => {
            Err(Wrong::Combination("`content` states a new blocker and `resolves` ends one: make two calls").into())
        }
    }
}

/// Writes a fact, and reports its effect on others.
async fn state(memory: &Memory, statement: Statement) -> Result<String, Trouble> {
    let stated = memory.remember(statement).await?;
    let id = stated.id;
    let (supersedes, disputes) = match stated.judgment {
        Judgment::Again { .. } => return Ok(format!("{id} already says so; it is now confirmed.")),
        Judgment::New { supersedes, disputes } => (supersedes, disputes),
    };
    let mut text = format!("{id} is remembered.");
    if supersedes.is_empty()
        && disputes.is_none()
        && let Some(near) = near(memory, id).await
    {
        text.push_str(&format!(
            "\nIt is similar to a current fact: {}\nDoes it replace {old}? \
             If so, state it again with `supersedes`: [\"{old}\"]. If not, keep both.",
            line(&near),
            old = near.id
        ));
    }
    for old in supersedes {
        let said = memory.statement(old).await?.map_or_else(String::new, |old| format!(": {}", quoted(&old.text)));
        text.push_str(&format!("\nIt replaces {old}{said}"));
    }
    if let Some(fact) = match disputes {
        Some(other) => memory.get(other).await?,
        None => None,
    } {
        text.push_str("\nIt contradicts a fact of higher trust, so both are kept. Find out which is true: ");
        text.push_str(&line(&fact));
    }
    Ok(text)
}

/// Returns a fact that says almost the same as a new one, and that the new one's speaker may replace. It is only a
/// suggestion, so an error of the store means that there is none.
async fn near(memory: &Memory, id: FactId) -> Option<Fact> {
    let mut known = memory.caught_up().await.ok()?;
    let facts = known.facts(id.scope);
    let new = facts.get(id)?;
    let worth = new.statement.trust();
    let others = facts.iter().rev().filter(|fact| fact.id != id && fact.trust <= worth);
    closest(&new.statement, others).cloned()
}

async fn get(memory: &Memory, given: &Arguments) -> Result<String, Trouble> {
    let Some(id) = given.id("id") else {
        let all = SheetOptions { budget: SHEET, surer_than: Confidence::new(0.0) };
        let sheet = memory.sheet(&all, &Estimate::default()).await?;
        return Ok(if sheet.text.is_empty() { "Nothing is remembered yet.".to_owned() } else { sheet.text });
    };
    let history = memory.history(id).await?;
    if history.is_empty() {
        return Err(Refused::Gone { id }.into());
    }
    let now = memory.get(id).await?.map_or_else(|| format!("{id} is no longer current."), |fact| line(&fact));
    let events: Vec<_> = history.iter().rev().map(|event| describe(id.scope, event)).collect();
    Ok(format!("{now}\nIts history, the newest first:\n{}", bounded(events)))
}

/// Describes an event in one line.
fn describe(scope: Scope, event: &FactEvent) -> String {
    let by = |source: &Source| match &source.by {
        Speaker::Person => "a person".to_owned(),
        Speaker::Model => "the model".to_owned(),
        Speaker::Tool(name) => format!("the tool {}", quoted(name)),
    };
    match &event.entry {
        FactEntry::Stated(statement) => {
            let id = FactId { scope, position: event.position };
            let (text, kind, by) = (quoted(&statement.text), statement.kind, by(&statement.source));
            let old: Vec<_> = statement.supersedes.iter().map(FactId::to_string).collect();
            let over = if old.is_empty() { String::new() } else { format!(", replacing {}", old.join(", ")) };
            format!("{id} stated as a {kind} by {by}{over}: {text}")
        }
        FactEntry::Confirmed { id, source, .. } => format!("{id} confirmed by {}", by(source)),
        FactEntry::Resolved { id, with, source, .. } => format!("{id} resolved by {}: {}", by(source), quoted(with)),
        FactEntry::Forgotten { id, why, source, .. } => {
            let why = why.as_ref().map_or_else(String::new, |why| format!(": {}", quoted(why)));
            format!("{id} forgotten by {}{why}", by(source))
        }
        FactEntry::Extracted { .. } => String::new(),
    }
}

async fn forget(memory: &Memory, given: &Arguments) -> Result<String, Trouble> {
    let Some(id) = given.id("id") else { return Err(Wrong::Empty { name: "id" }.into()) };
    let source = Source::new(Speaker::Model);
    match given.text("reason") {
        Some(why) => memory.forget_because(id, why, source).await?,
        None => memory.forget(id, source).await?,
    }
    Ok(format!("{id} is forgotten; memory_get still shows its history."))
}

async fn search(memory: &Memory, given: &Arguments) -> Result<String, Trouble> {
    let most = usize::try_from(given.count("limit").unwrap_or(FOUND)).unwrap_or(usize::MAX);
    let query = Query::new(given.text("query").unwrap_or_default()).within(within(given)?);
    let mut found = memory.search(query, most.saturating_add(1)).await?;
    if found.is_empty() {
        return Ok("No fact has any of these words. Use others, or search the conversation with recall.".to_owned());
    }
    let more = found.len() > most;
    found.truncate(most);
    let mut text = bounded(found.iter().map(line).collect());
    if more {
        text.push_str("\nThere are more: raise `limit`.");
    }
    Ok(text)
}

async fn recalled(memory: &Memory, given: &Arguments) -> Result<String, Trouble> {
    let (offset, limit) = (given.count("offset").unwrap_or_default(), given.count("limit"));
    let (entry, from, to) = (given.count("entry"), given.count("from"), given.count("to"));
    let asked = match (given.text("query"), entry, from.or(to)) {
        (Some(query), None, None) => Recall::Query { query: query.to_owned(), within: within(given)?, offset, limit },
        (Some(_), Some(_), None) if within(given)? != Within::default() => {
            let what = "`speaker`, `since` and `until` limit a search; leave them out, or leave out `entry`";
            return Err(Wrong::Combination(what).into());
        }
        (query, Some(entry), None) => Recall::Entry { entry, query: query.map(str::to_owned), offset, limit },
        (None, None, Some(_)) if offset > 0 => {
            return Err(Wrong::Combination(
                "`offset` works only with `entry` or `query`; to continue, give a later `from`",
            )
            .into());
        }
        (None, None, Some(from)) if to.is_some_and(|to| to < from) => {
            return Err(Wrong::Combination("`to` is less than `from`; give the smaller number as `from`").into());
        }
        (None, None, Some(from)) => Recall::Range { from, to: to.unwrap_or(from), limit },
        (None, None, None) => {
            let what =
                "give one of `query` (words to find), `entry` (one message, also with `query`), or `from` and `to`";
            return Err(Wrong::Combination(what).into());
        }
        _ => return Err(Wrong::Combination("give `from` and `to` without `query` and `entry`").into()),
    };
    Ok(recall(&**memory.store(), memory.session(), &asked).await?.to_string().trim_end().to_owned())
}

/// Reads the limits of a search.
fn within(given: &Arguments) -> Result<Within, Wrong> {
    let time = |name, read: fn(&str) -> Result<Millis, BadTime>| {
        let text: Option<&str> = given.text(name);
        text.map(read).transpose().map_err(|_| Wrong::Time { name })
    };
    let (since, until) = (time("since", Within::first)?, time("until", Within::last)?);
    Ok(Within::default().speaker(given.text("speaker").map(str::to_owned)).since(since).until(until))
}

/// Joins as many lines as fit, and states how many are left out.
fn bounded(lines: Vec<String>) -> String {
    let mut room = LONGEST;
    let fits = |line: &&String| {
        let rest = room.checked_sub(line.chars().count());
        room = rest.unwrap_or(0);
        rest.is_some()
    };
    let shown: Vec<&str> = lines.iter().take_while(fits).map(String::as_str).collect();
    let gone = lines.len() - shown.len();
    let note = if gone > 0 { format!("\n[{gone} more left out]") } else { String::new() };
    shown.join("\n") + &note
}

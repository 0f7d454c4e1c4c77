//! Facts, their sheet and the tools for them, against the vectors of `corpus/memory/`, over every store; and the faults of other systems.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback::memory::{
    Confidence, FactEntry, Facts, Judgement, Kind, Memory, MemoryError, Recall, Scope, SheetOptions, Source, Speaker,
    Statement, Trust, recall, sheet, tools,
};
use lookback::message::{AssistantPart, Content, Media, MediaSource, Reasoning, UserPart};
use lookback::tokens::Estimate;
use lookback::{
    Dialect, Durability, MemoryStore, Message, Session, Settings, SqliteStore, Store, StoreError, ToolCall,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn vectors<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/memory").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let names: BTreeSet<_> = vectors.iter().map(|vector| vector["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), vectors.len(), "{file}: a name stands twice");
    vectors.into_iter().map(|vector| serde_json::from_value(vector).unwrap_or_else(|e| panic!("{file}: {e}"))).collect()
}

/// Both stores, empty.
fn stores() -> [(Arc<dyn Store>, Option<tempfile::TempDir>); 2] {
    let folder = tempfile::tempdir().unwrap();
    let kept = SqliteStore::open_with(folder.path().join("facts.db"), Durability::System).unwrap();
    [(Arc::new(MemoryStore::new()), None), (Arc::new(kept), Some(folder))]
}

fn memory(store: &Arc<dyn Store>, session: &str) -> Memory {
    block_on(Memory::open(store.clone(), session)).unwrap()
}

/// A statement as the vectors write it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    kind: Kind,
    text: String,
    about: Option<String>,
    #[serde(default)]
    by: By,
    confidence: Option<f64>,
    trust: Option<Trust>,
    #[serde(default)]
    supersedes: Vec<lookback::memory::FactId>,
    scope: Option<Scope>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum By {
    Person,
    #[default]
    Model,
    Tool,
}

impl By {
    fn source(self) -> Source {
        Source::of(match self {
            By::Person => Speaker::Person,
            By::Model => Speaker::Model,
            By::Tool => Speaker::Tool("grep".to_owned()),
        })
    }
}

impl Said {
    fn scope(&self) -> Scope {
        self.scope.unwrap_or(Scope::Session)
    }

    fn statement(&self) -> Statement {
        let Said { kind, text, about, by, confidence, trust, supersedes, .. } = self.clone();
        let confidence = confidence.map_or(Confidence::CERTAIN, Confidence::new);
        Statement { about, confidence, trust, supersedes, ..Statement::new(kind, text, by.source()) }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FactsVector {
    name: String,
    steps: Vec<Step>,
    /// What stands in the end.
    stands: Vec<String>,
    /// What stands for another session.
    elsewhere: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    state: Option<Said>,
    resolve: Option<lookback::memory::FactId>,
    with: Option<String>,
    forget: Option<lookback::memory::FactId>,
    #[serde(default)]
    by: By,
    gives: Option<String>,
    fails: Option<String>,
}

impl Step {
    async fn done(&self, memory: &Memory) -> Result<Option<String>, MemoryError> {
        if let Some(said) = &self.state {
            let stated = memory.state(said.scope(), said.statement()).await?;
            let mut text = stated.id.to_string();
            match stated.judgement {
                Judgement::Again { .. } => text.push_str(" again"),
                Judgement::New { supersedes, disputes } => {
                    text.push_str(" new");
                    if !supersedes.is_empty() {
                        let ids: Vec<_> = supersedes.iter().map(ToString::to_string).collect();
                        text.push_str(&format!(", supersedes {}", ids.join(" ")));
                    }
                    if let Some(id) = disputes {
                        text.push_str(&format!(", disputes {id}"));
                    }
                }
            }
            return Ok(Some(text));
        }
        if let Some(id) = self.resolve {
            memory.resolve(id, self.with.as_deref().unwrap(), self.by.source()).await?;
        }
        if let Some(id) = self.forget {
            memory.forget(id, self.by.source()).await?;
        }
        Ok(None)
    }
}

/// What stands, as a sheet with room for everything writes it, in the order in which it was stated.
fn stands(memory: &Memory) -> Vec<String> {
    let all = SheetOptions { budget: u64::MAX, surer_than: Confidence::new(0.0) };
    let sheet = block_on(memory.sheet(&all, &Estimate::default())).unwrap();
    let line = |fact: lookback::memory::Fact| {
        let line = sheet.text.lines().find(|line| line.starts_with(&format!("{} ", fact.id)));
        let confirmed =
            if fact.confirmations > 0 { format!(" (confirmed {})", fact.confirmations) } else { String::new() };
        format!("{}{confirmed}", line.unwrap_or_else(|| panic!("{} is not on the sheet", fact.id)))
    };
    let lines: Vec<_> = block_on(memory.facts()).unwrap().into_iter().map(line).collect();
    assert_eq!(lines.len(), sheet.shown.len());
    lines
}

#[test]
fn facts_stand_as_the_vectors_say() {
    for vector in vectors::<FactsVector>("facts.json") {
        for (store, _folder) in stores() {
            let memory = memory(&store, "one");
            for step in &vector.steps {
                match block_on(step.done(&memory)) {
                    Ok(given) => assert_eq!((given, None), (step.gives.clone(), step.fails.clone()), "{}", vector.name),
                    Err(error) => assert_eq!(Some(error.to_string()), step.fails, "{}", vector.name),
                }
            }
            assert_eq!(stands(&memory), vector.stands, "{}", vector.name);
            // Who reads the log anew knows the same.
            assert_eq!(stands(&self::memory(&store, "one")), vector.stands, "{}", vector.name);
            if let Some(elsewhere) = &vector.elsewhere {
                assert_eq!(stands(&self::memory(&store, "two")), *elsewhere, "{}", vector.name);
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SheetVector {
    name: String,
    facts: Vec<Said>,
    sheets: Vec<SheetOf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SheetOf {
    budget: u64,
    #[serde(default)]
    surer_than: f64,
    text: String,
    #[serde(default)]
    short: bool,
}

#[test]
fn sheets_are_written_as_the_vectors_say() {
    let mut wrong = Vec::new();
    for vector in vectors::<SheetVector>("sheet.json") {
        for (store, _folder) in stores() {
            let memory = memory(&store, "one");
            for said in &vector.facts {
                block_on(memory.state(said.scope(), said.statement())).unwrap();
            }
            for of in &vector.sheets {
                let options = SheetOptions { budget: of.budget, surer_than: Confidence::new(of.surer_than) };
                let sheet = block_on(memory.sheet(&options, &Estimate::default())).unwrap();
                assert!(sheet.tokens <= of.budget, "{}", vector.name);
                if (&sheet.text, sheet.is_short()) != (&of.text, of.short) {
                    wrong.push(format!(
                        "{} within {}: {:?}, short: {}",
                        vector.name,
                        of.budget,
                        sheet.text,
                        sheet.is_short()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsVector {
    name: String,
    #[serde(default)]
    facts: Vec<Said>,
    calls: Vec<Call>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    /// The arguments: a string is their text, anything else their JSON.
    with: Value,
    gives: Option<String>,
    fails: Option<String>,
}

#[test]
fn tools_answer_as_the_vectors_say() {
    let mut wrong = Vec::new();
    for vector in vectors::<ToolsVector>("tools.json") {
        for (store, _folder) in stores() {
            let memory = memory(&store, "one");
            for said in &vector.facts {
                block_on(memory.state(said.scope(), said.statement())).unwrap();
            }
            for call in &vector.calls {
                let arguments = call.with.as_str().map_or_else(|| call.with.to_string(), str::to_owned);
                let reply = block_on(tools::call(&memory, &call.tool, &arguments));
                let (gives, fails) = if reply.error { (None, Some(reply.text)) } else { (Some(reply.text), None) };
                if (&gives, &fails) != (&call.gives, &call.fails) {
                    wrong.push(format!("{}: {}: {gives:?} {fails:?}", vector.name, call.tool));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

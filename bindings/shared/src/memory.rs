//! A memory: facts that outlive the window and the session.

use std::path::Path;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_facts as memory;
use lookback_facts::{
    FactId, FactKind, Scope, SheetOptions, Source, Speaker, Statement as LibraryStatement, Trust, tools,
};
use lookback_store::Store;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::options::counter;
use crate::process::{self, Process};
use crate::{Failure, dialect};

/// The memory of one session: its own facts, and those that it shares with its workspace.
#[derive(Debug, Clone)]
pub struct Memory {
    memory: memory::Memory,
    process: Process,
}

/// A fact to be written, in the form of the packages' arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    kind: String,
    text: String,
    about: Option<String>,
    confidence: Option<f64>,
    by: Option<Value>,
    trust: Option<Trust>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    supersedes: Vec<String>,
    shared: Option<bool>,
}

impl Memory {
    /// Opens the memory of a session, in a workspace.
    ///
    /// # Errors
    /// Returns an error if a name is invalid, or if the store cannot be opened.
    pub fn open(session: &str, store: Option<&Path>, workspace: Option<&str>) -> Result<Memory, Failure> {
        Memory::in_store(process::store(store)?, session, workspace)
    }

    pub(crate) fn in_store(store: Arc<dyn Store>, session: &str, workspace: Option<&str>) -> Result<Memory, Failure> {
        let workspace = workspace.unwrap_or(memory::Memory::WORKSPACE);
        let memory = block_on(memory::Memory::open_in(store, session, workspace))?;
        Ok(Memory { memory, process: Process::this() })
    }

    fn here(&self) -> Result<&memory::Memory, Failure> {
        self.process.must_be_this("memory")?;
        Ok(&self.memory)
    }

    /// Writes a fact, or confirms an existing one with the same content. Returns its `id` and its judgment as JSON.
    ///
    /// # Errors
    /// Returns an error if the fact is invalid, if it names facts that it may not replace, or if the store fails.
    pub fn remember(&self, statement: &str) -> Result<String, Failure> {
        let wrong = |error: serde_json::Error| Failure::decode("fact", error);
        let (statement, scope) = serde_json::from_str::<Statement>(statement).map_err(wrong)?.read()?;
        Ok(json!(block_on(self.here()?.state(scope, statement))?).to_string())
    }

    /// Returns the current facts as JSON: the session's, then the shared ones.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn facts(&self) -> Result<String, Failure> {
        Ok(json!(block_on(self.here()?.facts())?).to_string())
    }

    /// Returns the current facts that contain any of these words as JSON, the best match first.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn search(&self, query: &str, limit: usize) -> Result<String, Failure> {
        Ok(json!(block_on(self.here()?.search(query, limit))?).to_string())
    }

    /// Marks a blocker as resolved, and records what resolved it.
    ///
    /// # Errors
    /// Returns an error if the fact is not a current blocker, or if the store fails.
    pub fn resolve(&self, id: &str, with: &str) -> Result<(), Failure> {
        Ok(block_on(self.here()?.resolve(fact(id)?, with, Source::new(Speaker::Person)))?)
    }

    /// Removes a fact from the fact sheet. Its history stays readable.
    ///
    /// # Errors
    /// Returns an error if the fact is not current, or if the store fails.
    pub fn forget(&self, id: &str, why: Option<&str>) -> Result<(), Failure> {
        let (memory, id, source) = (self.here()?, fact(id)?, Source::new(Speaker::Person));
        Ok(match why {
            Some(why) => block_on(memory.forget_because(id, why, source)),
            None => block_on(memory.forget(id, source)),
        }?)
    }

    /// Returns the history of a fact, of those that it replaced, and of those that replaced it, as JSON.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn history(&self, id: &str) -> Result<String, Failure> {
        Ok(json!(block_on(self.here()?.history(fact(id)?))?).to_string())
    }

    /// Returns the fact sheet as JSON: a text for the model within a token budget, and the facts that it shows and
    /// leaves out.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub fn sheet(&self, budget: Option<u64>, model: Option<&str>) -> Result<String, Failure> {
        let options = budget.map_or_else(SheetOptions::default, |budget| SheetOptions::default().budget(budget));
        let counter = counter(model);
        Ok(json!(block_on(self.here()?.sheet(&options, &*counter))?).to_string())
    }

    /// Returns the memory tools for a model, as JSON elements of a request's tool list.
    ///
    /// # Errors
    /// Returns an error if there is no dialect of this name.
    pub fn tools(&self, format: &str) -> Result<String, Failure> {
        let dialect = dialect(format)?;
        Ok(Value::from_iter(tools::tools().iter().map(|tool| tool.for_dialect(dialect))).to_string())
    }

    /// Runs a tool call of the model. Returns the text of the result, and whether it is an error, as JSON.
    ///
    /// # Errors
    /// Returns an error if the process was forked since the memory was opened.
    pub fn call(&self, tool: &str, arguments: &str) -> Result<String, Failure> {
        Ok(json!(block_on(tools::call(self.here()?, tool, arguments))).to_string())
    }
}

impl Statement {
    /// Returns the statement and its scope.
    fn read(self) -> Result<(LibraryStatement, Scope), Failure> {
        let kind: FactKind = self.kind.parse().map_err(|error| Failure::decode("kind", error))?;
        let by = match self.by {
            None => Speaker::Person,
            Some(by) => serde_json::from_value(by)
                .map_err(|_| Failure::decode("by", "not `person`, `model` or {\"tool\": NAME}"))?,
        };
        let mut statement = LibraryStatement::new(kind, self.text, Source::new(by));
        statement.about = self.about;
        statement.trust = self.trust;
        statement.tags = self.tags;
        statement.supersedes = self.supersedes.iter().map(|id| fact(id)).collect::<Result<_, _>>()?;
        if let Some(confidence) = self.confidence {
            if !(0.0..=1.0).contains(&confidence) {
                return Err(Failure::decode("confidence", "not a number from 0 to 1"));
            }
            statement = statement.confidence(confidence);
        }
        let scope = match self.shared {
            Some(true) => Scope::Shared,
            Some(false) => Scope::Session,
            None => kind.default_scope(),
        };
        Ok((statement, scope))
    }
}

fn fact(id: &str) -> Result<FactId, Failure> {
    id.parse().map_err(|error| Failure::decode("id", error))
}

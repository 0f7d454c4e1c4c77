//! Facts drawn from messages that leave the window, by a model behind the seam for summaries.
//!
//! What was drawn is written down in one piece with the messages that it was drawn from, so of two who draw from the same messages one
//! wins, and nothing is drawn twice. A drawn fact is the model's word at most; one that was drawn from a tool's output is a finding of the
//! tool's.

use std::sync::Arc;

use lookback_core::Message;
use lookback_core::tokens::TokenCounter;
use lookback_core::transcript::{Position, spans};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fact::{Confidence, FactKind, Scope, Source, Speaker, Statement};
use super::facts::{FactEntry, Facts};
use super::{Memory, MemoryError, Stated, TRIES};
use crate::session::now;
use crate::summarize::{Summarizer, SummarizerError, Task, passages, run};

/// The most tokens of one answer.
const BUDGET: u64 = 2_000;
/// A tool whose name is not known.
const UNKNOWN: &str = "unknown";
/// The most facts that are taken of one answer.
const MOST: usize = 32;

/// Why no facts were drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrawError {
    /// The model gave none that can be read.
    #[error("no facts were drawn from the messages that left the window")]
    Summarizer(#[from] SummarizerError),
    /// What it gave is not what was asked for.
    #[error("no facts were drawn: the answer of `{model}` is not an object of facts")]
    Answer {
        /// The model.
        model: String,
    },
    /// The memory failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

#[derive(Debug, Deserialize)]
struct Answer {
    facts: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct Drawn {
    kind: FactKind,
    text: String,
    #[serde(default)]
    about: Option<String>,
    #[serde(default)]
    confidence: Option<Confidence>,
    #[serde(default)]
    message: Option<u64>,
}

impl Memory {
    /// Draws facts from messages of this session, given with their positions in its log, and writes them down. Messages from which facts were
    /// drawn before are passed over; where none is left, no model is asked. Where others drew from some of them meanwhile, the facts from the
    /// rest are written.
    ///
    /// Which message a fact is from is the model's word. One from a message that holds a tool's result is a finding of low trust, as is one from
    /// nobody knows which, where any message holds a result. But a result may tell the model to name another message, and then what the tool said
    /// has the model's medium trust, and whichever kind it likes. It is never a person's word.
    ///
    /// # Errors
    /// Where the model gives no facts that can be read, or the store fails. Then nothing was written.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use std::sync::Arc;
    /// use lookback::memory::Memory;
    /// use lookback::summarize::Function;
    /// use lookback::tokens::Estimate;
    /// use lookback::{MemoryStore, Message};
    ///
    /// let memory = Memory::open(MemoryStore::new(), "chat-1").await?;
    /// let model = Function::new("small-model", |_| async {
    ///     Ok(r#"{"facts":[{"kind":"decision","text":"Postgres is used.","confidence":0.9,"message":1}]}"#.to_owned())
    /// });
    /// let left = [(7, Arc::new(Message::user("Let us use Postgres.")))];
    /// let drawn = memory.draw(&left, &model, &Estimate::default()).await?;
    /// assert_eq!(drawn.len(), 1);
    /// assert_eq!(memory.get(drawn[0].id).await?.unwrap().statement.source.message, Some(7));
    /// assert!(memory.draw(&left, &model, &Estimate::default()).await?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn draw(
        &self,
        messages: &[(Position, Arc<Message>)],
        summarizer: &dyn Summarizer,
        counter: &dyn TokenCounter,
    ) -> Result<Vec<Stated>, DrawError> {
        let mut messages = messages.to_vec();
        {
            let mut known = self.caught_up().await.map_err(MemoryError::from)?;
            let facts = known.of(Scope::Session);
            messages.retain(|(position, _)| !is_drawn(facts, *position));
        }
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let passages = passages(messages.iter().map(|(_, message)| &**message));
        let task = Task { schema: Some(schema()), ..Task::new(passages, BUDGET) };
        let text = run(summarizer, task, counter).await?.text;
        let statements = if text.is_empty() {
            Vec::new()
        } else {
            let answer: Answer =
                serde_json::from_str(&text).map_err(|_| DrawError::Answer { model: summarizer.model().to_owned() })?;
            // A fact that is not as it was asked for is left out, and the others stand.
            let drawn = answer.facts.into_iter().filter_map(|fact| serde_json::from_value::<Drawn>(fact).ok());
            drawn.take(MOST).map(|drawn| self.statement_of(drawn, &messages)).collect()
        };
        Ok(self.write_drawn(&messages, statements).await?)
    }

    fn statement_of(&self, drawn: Drawn, messages: &[(Position, Arc<Message>)]) -> Statement {
        let index = drawn.message.and_then(|number| usize::try_from(number.checked_sub(1)?).ok());
        let from = index.and_then(|index| messages.get(index));
        let tool = match from {
            Some((_, message)) => answered(message, messages),
            // It may be from any of them.
            None => messages.iter().any(|(_, message)| holds_result(message)).then(|| UNKNOWN.to_owned()),
        };
        let (by, kind) = match tool {
            // Whatever it was called: a page that was read must not crowd what a person wants off the sheet.
            Some(tool) => (Speaker::Tool(tool), FactKind::Finding),
            None => (Speaker::Model, drawn.kind),
        };
        let source =
            Source { by, session: Some(self.session().to_string()), message: from.map(|(position, _)| *position) };
        Statement {
            about: drawn.about.filter(|about| !about.trim().is_empty()),
            confidence: drawn.confidence.unwrap_or(Confidence::new(0.5)),
            time: now(),
            ..Statement::new(kind, drawn.text.trim(), source)
        }
    }

    /// Writes facts down with the messages that they are from, all or none; but none of those messages that others drew from meanwhile.
    async fn write_drawn(
        &self,
        messages: &[(Position, Arc<Message>)],
        statements: Vec<Statement>,
    ) -> Result<Vec<Stated>, MemoryError> {
        let mut known = self.known.lock().await;
        for _ in 0..TRIES {
            self.read_on(&mut known).await?;
            let facts = known.of(Scope::Session);
            let positions = messages.iter().map(|(position, _)| *position);
            let left: Vec<Position> = positions.filter(|position| !is_drawn(facts, *position)).collect();
            if left.is_empty() {
                return Ok(Vec::new());
            }
            let are_all_left = left.len() == messages.len();
            let is_left = |from: Option<Position>| from.map_or(are_all_left, |position| left.contains(&position));
            let mut draft = facts.clone();
            let (mut entries, mut stated) = (Vec::new(), Vec::new());
            for statement in statements.iter().filter(|statement| is_left(statement.source.message)) {
                // What cannot be a fact is left out.
                let Ok(judgment) = draft.judge(statement) else { continue };
                let (id, entry) = draft.entry(statement, &judgment);
                draft.apply(&entry);
                entries.push(entry);
                stated.push(Stated { id, judgment });
            }
            entries.push(FactEntry::Drawn { from: spans(left.iter().copied()) });
            if self.append(facts, &entries).await? {
                return Ok(stated);
            }
        }
        Err(self.overtaken(Scope::Session).into())
    }
}

fn is_drawn(facts: &Facts, position: Position) -> bool {
    facts.drawn().iter().any(|span| span.contains(&position))
}

/// Whether a tool speaks in a message, perhaps beside a person.
fn holds_result(message: &Message) -> bool {
    message.tool_results().next().is_some()
}

/// The tool whose result a message holds; `None` where it holds none.
fn answered(message: &Message, messages: &[(Position, Arc<Message>)]) -> Option<String> {
    let (_, result) = message.tool_results().next()?;
    let mut calls = messages.iter().flat_map(|(_, message)| message.tool_calls());
    let call = calls.find(|(_, call)| call.id == result.call_id);
    Some(call.map_or_else(|| UNKNOWN.to_owned(), |(_, call)| call.name.clone()))
}

/// What is asked for.
fn schema() -> Value {
    json!({
        "type": "object",
        "description": "What is worth knowing after the conversation: what is true, not what was done. State each fact once, and leave \
                        out what the conversation itself corrects.",
        "properties": {"facts": {"type": "array", "maxItems": MOST, "items": {
            "type": "object",
            "properties": {
                "kind": {"enum": FactKind::ALL.map(FactKind::name)},
                "text": {"type": "string", "maxLength": Statement::LONGEST, "description": "One sentence that can be understood on its own."},
                "about": {"type": "string", "maxLength": Statement::LONGEST_NAME, "description": "What the fact is about, as a name."},
                "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                "message": {"type": "integer", "minimum": 1, "description": "The number of the message that says it."},
            },
            "required": ["kind", "text", "confidence", "message"],
            "additionalProperties": false,
        }}},
        "required": ["facts"],
        "additionalProperties": false,
    })
}

//! Facts that a model extracts from messages that leave the window.
//!
//! The facts are written in the same append as the list of their messages. If two processes extract from the
//! same messages, one wins, and nothing is extracted twice. Such a fact has at most the model's trust. A fact from a tool
//! result is a finding by that tool.

use std::sync::Arc;

use lookback_engine::transcript::{Entry, Position, spans};
use lookback_tokens::TokenCounter;
use lookback_wire::message::Message;
use serde::Deserialize;
use serde_json::{Value, json};

use super::entry::FactEntry;
use super::fact::{Confidence, FactKind, Scope, Source, Speaker, Statement};
use super::facts::{Facts, NewEntry};
use super::{Memory, MemoryError, Stated, TRIES};
use lookback_store::entries::read_many;
use lookback_store::now;
use lookback_summarize::{Summarizer, SummarizerError, SummaryTask, passages, run};

/// The most tokens of one answer.
const BUDGET: u64 = 2_000;
/// The name used for a tool whose name is not known.
pub(super) const UNKNOWN: &str = "unknown";
/// The most facts that are taken from one answer.
const MOST: usize = 32;

/// A message that has left the window.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LeftMessage {
    /// Its position in the session's log.
    pub position: Position,
    /// The message.
    pub(crate) message: Arc<Message>,
}

impl LeftMessage {
    /// Creates a message with its position in the session's log.
    pub fn new(position: Position, message: impl Into<Arc<Message>>) -> Self {
        LeftMessage { position, message: message.into() }
    }
}

/// The errors of an extraction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// The model gave no usable answer.
    #[error("no facts were extracted from the messages that left the window")]
    Summarizer(#[from] SummarizerError),
    /// The answer does not follow the schema.
    #[error("no facts were extracted: the answer of `{model}` is not an object of facts")]
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

/// A fact in the model's answer.
#[derive(Debug, Deserialize)]
struct Extracted {
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
    /// Extracts facts from messages of this session, and writes them.
    ///
    /// Messages of earlier extractions are skipped. If none is left, the model is not asked. If another
    /// process has extracted from some of the messages in the meantime, only the facts from the rest are written.
    ///
    /// The model says which message a fact is from. A fact from a message with a tool result becomes a finding of low
    /// trust. So does a fact without a known message, if any of the messages has a tool result. But a tool result can
    /// tell the model to name another message. Then its text gets the model's medium trust, in any kind, but never a
    /// person's trust.
    ///
    /// # Errors
    /// Returns an error if the model gives no facts that can be read, or if the store fails. Then nothing was written.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use lookback_facts::{LeftMessage, Memory};
    /// use lookback_summarize::Function;
    /// use lookback_tokens::Estimate;
    /// use lookback_store::MemoryStore;
    /// use lookback_wire::message::Message;
    ///
    /// let memory = Memory::open(MemoryStore::new(), "chat-1").await?;
    /// let model = Function::new("small-model", |_| async {
    ///     Ok(r#"{"facts":[{"kind":"decision","text":"Postgres is used.","confidence":0.9,"message":1}]}"#.to_owned())
    /// });
    /// let left = [LeftMessage::new(7, Message::user("Let us use Postgres."))];
    /// let extracted = memory.extract(&left, &model, &Estimate::default()).await?;
    /// assert_eq!(extracted.len(), 1);
    /// assert_eq!(memory.get(extracted[0].id).await?.unwrap().statement.source.message, Some(7));
    /// assert!(memory.extract(&left, &model, &Estimate::default()).await?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn extract(
        &self,
        messages: &[LeftMessage],
        summarizer: &dyn Summarizer,
        counter: &dyn TokenCounter,
    ) -> Result<Vec<Stated>, ExtractError> {
        let mut messages = messages.to_vec();
        {
            let mut known = self.caught_up().await.map_err(MemoryError::from)?;
            let facts = known.facts(Scope::Session);
            messages.retain(|left| !is_extracted(facts, left.position));
        }
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let passages = passages(messages.iter().map(|left| &*left.message));
        let task = SummaryTask::new(passages, BUDGET).schema(schema());
        let text = run(summarizer, task, counter).await?.text;
        let statements = if text.is_empty() {
            Vec::new()
        } else {
            let answer: Answer = serde_json::from_str(&text)
                .map_err(|_| ExtractError::Answer { model: summarizer.model().to_owned() })?;
            // Facts that do not follow the schema are left out. The others are used.
            let extracted = answer.facts.into_iter().filter_map(|fact| serde_json::from_value::<Extracted>(fact).ok());
            extracted.take(MOST).map(|extracted| self.statement_of(extracted, &messages)).collect()
        };
        Ok(self.write_extracted(&messages, statements).await?)
    }

    fn statement_of(&self, extracted: Extracted, messages: &[LeftMessage]) -> Statement {
        let index = extracted.message.and_then(|number| usize::try_from(number.checked_sub(1)?).ok());
        let from = index.and_then(|index| messages.get(index));
        let tool = match from {
            Some(left) => answered(&left.message, messages),
            // The fact may be from any of the messages.
            None => messages.iter().any(|left| holds_result(&left.message)).then(|| UNKNOWN.to_owned()),
        };
        let (by, kind) = match tool {
            // Its kind is ignored: a page that a tool has read must not crowd a person's facts off the sheet.
            Some(tool) => (Speaker::Tool(tool), FactKind::Finding),
            None => (Speaker::Model, extracted.kind),
        };
        let session = Some(self.session().to_string());
        let source = Source { by, session, message: from.map(|left| left.position) };
        Statement {
            about: extracted.about.filter(|about| !about.trim().is_empty()),
            confidence: extracted.confidence.unwrap_or(Confidence::new(0.5)),
            time: now(),
            ..Statement::new(kind, extracted.text.trim(), source)
        }
    }

    /// Writes all facts together with the list of their messages, or nothing. Leaves out facts from messages that
    /// another process has extracted from in the meantime, or that were erased.
    async fn write_extracted(
        &self,
        messages: &[LeftMessage],
        statements: Vec<Statement>,
    ) -> Result<Vec<Stated>, MemoryError> {
        let mut known = self.known.lock().await;
        for _ in 0..TRIES {
            self.read_on(&mut known).await?;
            let facts = known.facts(Scope::Session);
            let positions = messages.iter().map(|left| left.position);
            let left: Vec<Position> = positions.filter(|position| !is_extracted(facts, *position)).collect();
            if left.is_empty() {
                return Ok(Vec::new());
            }
            let spans = spans(left.iter().copied());
            let entries = read_many(&*self.store, &self.session, &spans).await?;
            let is_erased = |position: &Position| {
                entries.iter().any(|(at, entry)| at == position && matches!(entry, Entry::Erased(_)))
            };
            let told: Vec<Position> = left.into_iter().filter(|position| !is_erased(position)).collect();
            let are_all_told = told.len() == messages.len();
            let is_told = |from: Option<Position>| from.map_or(are_all_told, |position| told.contains(&position));
            let mut draft = facts.clone();
            let (mut entries, mut stated) = (Vec::new(), Vec::new());
            for statement in statements.iter().filter(|statement| is_told(statement.source.message)) {
                // A statement that cannot be a fact is left out.
                let Ok(judgment) = draft.judge(statement) else { continue };
                let NewEntry { id, entry } = draft.entry(statement, &judgment);
                draft.apply(&entry);
                entries.push(entry);
                stated.push(Stated { id, judgment });
            }
            entries.push(FactEntry::Extracted { from: spans });
            if self.append(facts, &entries).await? {
                return Ok(stated);
            }
        }
        Err(self.overtaken(Scope::Session).into())
    }
}

fn is_extracted(facts: &Facts, position: Position) -> bool {
    facts.extracted().iter().any(|span| span.contains(&position))
}

/// Returns whether a message contains a tool result, perhaps next to a person's text.
fn holds_result(message: &Message) -> bool {
    message.tool_results().next().is_some()
}

/// Returns the tool whose result a message contains, or `None` if it contains no result.
fn answered(message: &Message, messages: &[LeftMessage]) -> Option<String> {
    let (_, result) = message.tool_results().next()?;
    let mut calls = messages.iter().flat_map(|left| left.message.tool_calls());
    let call = calls.find(|(_, call)| call.id == result.call_id);
    Some(call.map_or_else(|| UNKNOWN.to_owned(), |(_, call)| call.name.clone()))
}

/// Returns the schema of the answer.
fn schema() -> Value {
    json!({
        "type": "object",
        "description": "What is worth knowing after the conversation: what is true, not what was done. State each fact \
                        once, and leave out what the conversation itself corrects.",
        "properties": {"facts": {"type": "array", "maxItems": MOST, "items": {
            "type": "object",
            "properties": {
                "kind": {"enum": FactKind::ALL.map(FactKind::name)},
                "text": {
                    "type": "string",
                    "maxLength": Statement::LONGEST,
                    "description": "One sentence that can be understood on its own.",
                },
                "about": {
                    "type": "string",
                    "maxLength": Statement::LONGEST_NAME,
                    "description": "What the fact is about, as a name.",
                },
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

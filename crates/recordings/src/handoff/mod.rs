//! Conversations in the form in which an agent resumes them, one file per agent.
//!
//! To let another agent resume conversations, write a file with a type that implements [`Resume`], and add a line to
//! [`ALL`].

mod claude_code;
mod codex;
mod gemini_cli;
mod opencode;
mod pi;
mod qwen_code;

use std::path::{Path, PathBuf};

use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::Message;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::home::Home;
use crate::recording::HANDED_OVER;

const ALL: &[&dyn Resume] = &[
    &claude_code::ClaudeCode,
    &codex::Codex,
    &gemini_cli::GeminiCli,
    &opencode::Opencode,
    &pi::Pi,
    &qwen_code::QwenCode,
];

/// Returns how an agent resumes a conversation, or `None` if Lookback cannot write its logs.
///
/// ```
/// use lookback_recordings::{agents, resume};
///
/// assert!(resume("Codex").is_some());
/// assert!(agents().any(|agent| resume(agent).is_none()));
/// ```
#[doc(hidden)]
pub fn resume(agent: &str) -> Option<&'static dyn Resume> {
    ALL.iter().copied().find(|resume| resume.agent() == agent)
}

/// Returns the name of a conversation that is handed over, from a random UUID. It shows whose it is, so that its calls are
/// not counted again.
#[doc(hidden)]
pub fn handoff_id(random: &str) -> String {
    format!("{HANDED_OVER}{}", random.get(HANDED_OVER.len()..).unwrap_or_default())
}

/// An agent that resumes a conversation from a file.
#[doc(hidden)]
pub trait Resume: Sync {
    /// Returns the name of the agent.
    fn agent(&self) -> &'static str;

    /// Returns the dialect in which the messages must be.
    fn dialect(&self) -> Dialect;

    /// Returns whether the agent goes on with the model that the conversation names.
    fn wants_model(&self) -> bool {
        false
    }

    /// Writes the conversation in the agent's format.
    fn write(&self, handoff: &Handoff<'_>, home: &Home) -> Resumable;
}

/// A conversation to be written for an agent.
#[derive(Debug, Clone, Copy)]
#[doc(hidden)]
pub struct Handoff<'a> {
    /// A UUID, of [`handoff_id`].
    pub id: &'a str,
    /// The messages, decoded from `elements`.
    pub messages: &'a [Message],
    /// The messages as a valid request has them.
    pub elements: &'a [&'a RawValue],
    /// The folder in which the agent will run. It must be absolute.
    pub project: &'a Path,
    /// The model of the agent, perhaps behind the name of its provider, as in `anthropic/claude-opus-4-6`.
    pub model: Option<&'a str>,
    /// The time of the last message.
    pub time: Millis,
}

/// A conversation in the form in which an agent resumes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(hidden)]
pub struct Resumable {
    /// The place where the agent looks for it. `None` if it must be imported from any file.
    pub place: Option<PathBuf>,
    /// A small file that the agent wants there, too, unless it has it.
    pub marker: Option<(PathBuf, String)>,
    /// The contents of the file.
    pub text: String,
    /// The command that imports a file, which comes behind its words. Empty if the agent finds the file by itself.
    pub import: Vec<String>,
    /// The command that resumes the conversation in the project's folder.
    pub resume: Vec<String>,
}

impl Handoff<'_> {
    /// Returns the time of the message with this index, as if one came each second.
    fn time_of(&self, index: usize) -> jiff::Timestamp {
        let before = self.elements.len().saturating_sub(index + 1) as u64;
        let millis = self.time.saturating_sub(i64::try_from(before).unwrap_or(i64::MAX).saturating_mul(1000));
        jiff::Timestamp::from_millisecond(millis).unwrap_or_default()
    }

    /// Returns a time as agents write it in JSON, with milliseconds.
    fn written_time(&self, index: usize) -> String {
        format!("{:.3}", self.time_of(index))
    }

    /// Returns the time of the last message for the name of a file, such as `2026-11-29T10-15-00`.
    fn file_time(&self) -> String {
        self.time_of(self.elements.len()).strftime("%Y-%m-%dT%H-%M-%S").to_string()
    }

    /// Returns the name of the folder that Claude Code and Qwen Code make of a path.
    fn dashed(&self) -> String {
        let path = self.project.to_string_lossy();
        path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
    }

    /// Returns the provider and the name of the model.
    pub fn model(&self) -> (&str, &str) {
        let model = self.model.unwrap_or("unknown");
        if let Some(named) = model.split_once('/') {
            return named;
        }
        let beginnings = [("claude", "anthropic"), ("gemini", "google"), ("gpt", "openai"), ("o", "openai")];
        let provider = beginnings.iter().find(|(beginning, _)| model.starts_with(beginning));
        (provider.map_or("anthropic", |(_, provider)| provider), model)
    }

    /// Returns the first words of the person, as a title.
    fn title(&self) -> String {
        const LONGEST: usize = 80;
        let first = self.messages.iter().find(|message| message.opens_turn()).map(Message::text).unwrap_or_default();
        let words: String = first.split_whitespace().collect::<Vec<_>>().join(" ");
        words.chars().take(LONGEST).collect()
    }
}

/// Writes values as lines.
fn lines(values: impl IntoIterator<Item = Value>) -> String {
    values.into_iter().map(|value| format!("{value}\n")).collect()
}

/// Reads an element of a request, which is an object.
fn object(element: &RawValue) -> Map<String, Value> {
    serde_json::from_str(element.get()).unwrap_or_default()
}

/// Returns whether a member of an object is this text.
fn is(object: &Map<String, Value>, member: &str, text: &str) -> bool {
    object.get(member).and_then(Value::as_str) == Some(text)
}

/// Adds members to an object, or replaces them.
fn put<const N: usize>(object: &mut Map<String, Value>, members: [(&str, Value); N]) {
    object.extend(members.map(|(member, value)| (member.to_owned(), value)));
}

fn command(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

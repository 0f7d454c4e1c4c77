//! The formats of agents' logs and of frameworks' messages, one per file.
//!
//! To read another format, write a file with a type that implements [`Format`], and add a line to [`ALL`]. Nothing else
//! names a format. CONTRIBUTING has the steps.

mod claude_code;
mod cline;
mod codex;
mod copilot_cli;
mod cursor;
mod gemini_cli;
mod goose;
mod kimi;
mod langchain;
mod opencode;
mod parts;
mod pi;
mod pydantic_ai;
mod qwen_code;
mod tree;
mod vercel_ai;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lookback_content::json;
use serde_json::value::RawValue;

#[cfg(feature = "sqlite")]
use crate::database::Database;
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::{LeftOut, Reason};
use crate::object::Object;
use crate::recording::{Recording, side_chain};
use crate::values;

/// All formats. The first that recognizes a file reads it.
pub(crate) const ALL: &[&dyn Format] = &[
    &codex::Codex,
    &pi::Pi,
    &opencode::Opencode,
    &gemini_cli::GeminiCli,
    &qwen_code::QwenCode,
    &goose::Goose,
    &kimi::Kimi,
    &copilot_cli::CopilotCli,
    &cline::Cline,
    &cursor::Cursor,
    &claude_code::ClaudeCode,
    &vercel_ai::VercelAi,
    &langchain::LangChain,
    &pydantic_ai::PydanticAi,
];

/// Returns the format of a text, by its first values.
pub(crate) fn of(text: &str) -> Option<&'static dyn Format> {
    of_source(&Source::Values(&values::first(text, FIRST)))
}

/// Returns the format of a source.
pub(crate) fn of_source(source: &Source<'_>) -> Option<&'static dyn Format> {
    ALL.iter().copied().find(|format| format.recognize(source))
}

/// The number of values by which a format is recognized.
const FIRST: usize = 50;

/// A format of logs.
pub(crate) trait Format: Sync {
    /// Returns the name of the agent or library, as people write it.
    fn name(&self) -> &'static str;

    /// Returns the folders in which the agent keeps its logs. Libraries have none.
    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        let _ = home;
        Vec::new()
    }

    /// Returns whether a file in such a folder may be a log.
    fn is_log(&self, path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "jsonl")
    }

    /// Returns whether a source has this format, by the first of its values or by its tables.
    fn recognize(&self, source: &Source<'_>) -> bool;

    /// Reads the conversations of a source that has this format.
    ///
    /// # Errors
    /// Returns an error if the source as a whole cannot be read. A line that cannot be read is left out.
    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError>;
}

/// The contents of a file.
pub(crate) enum Source<'a> {
    /// JSON values, each with the number of its line: the lines of a file, the elements of a list, or one object.
    Values(&'a [(usize, &'a RawValue)]),
    /// An SQLite database.
    #[cfg(feature = "sqlite")]
    Database(&'a Database),
}

impl<'a> Source<'a> {
    /// Returns the values, or none if the source is a database.
    pub(crate) fn values(&self) -> &'a [(usize, &'a RawValue)] {
        match self {
            Source::Values(values) => values,
            #[cfg(feature = "sqlite")]
            Source::Database(_) => &[],
        }
    }

    /// Returns whether any of the first objects has a feature.
    pub(crate) fn any(&self, has: impl Fn(&Object<'_>) -> bool) -> bool {
        self.values().iter().take(FIRST).filter_map(|(_, value)| Object::read(value)).any(|object| has(&object))
    }
}

/// A conversation in a file of messages.
pub(crate) struct Conversation<'a> {
    pub(crate) id: String,
    /// The messages, each with the number of its line.
    pub(crate) messages: Vec<(usize, &'a RawValue)>,
    /// The object that contains the messages.
    pub(crate) beside: Option<Object<'a>>,
}

impl<'a> Source<'a> {
    /// Returns whether any of the first messages has a feature.
    pub(crate) fn any_message(&self, has: impl Fn(&Object<'_>) -> bool) -> bool {
        let any =
            |messages: Vec<&RawValue>| messages.into_iter().take(FIRST).filter_map(Object::read).any(|it| has(&it));
        self.values().iter().take(FIRST).any(|(_, value)| match list(value) {
            Some((messages, _)) => any(messages),
            None => any(vec![value]),
        })
    }

    /// Returns the conversations: objects with messages, lists of messages, or all messages of the file.
    pub(crate) fn conversations(&self, name: &str) -> Vec<Conversation<'a>> {
        let (mut found, mut loose) = (Vec::new(), Vec::new());
        for (line, value) in self.values() {
            let Some((messages, beside)) = list(value) else {
                loose.push((*line, *value));
                continue;
            };
            let id =
                |object: &Object<'_>| ["id", "thread_id", "session_id"].into_iter().find_map(|key| object.string(key));
            let id = beside.as_ref().and_then(id).unwrap_or_else(|| name.to_owned());
            let messages: Vec<_> = messages.into_iter().map(|message| (*line, message)).collect();
            // The history of a graph has its state after each step.
            if found.last().is_some_and(|last: &Conversation<'_>| begins(&last.messages, &messages)) {
                continue;
            }
            if found.last().is_some_and(|last| begins(&messages, &last.messages)) {
                found.pop();
            }
            found.push(Conversation { id, messages, beside });
        }
        if !loose.is_empty() {
            found.push(Conversation { id: name.to_owned(), messages: loose, beside: None });
        }
        found
    }
}

/// Returns whether a list begins with all messages of another one.
fn begins(list: &[(usize, &RawValue)], with: &[(usize, &RawValue)]) -> bool {
    list.len() >= with.len() && list.iter().zip(with).all(|((_, one), (_, other))| one.get() == other.get())
}

/// Returns the messages in a value: those of a list of lists, of a request, or of the state of a graph.
fn list(value: &RawValue) -> Option<(Vec<&RawValue>, Option<Object<'_>>)> {
    if let Some(messages) = json::array(value) {
        return Some((messages, None));
    }
    let object = Object::read(value)?;
    let within = |outer: &str| object.object(outer)?.list("messages");
    let messages = object.list("messages").or_else(|| within("values")).or_else(|| within("channel_values"));
    let messages = messages.or_else(|| within("state")).or_else(|| within("kwargs"))?;
    Some((messages, Some(object)))
}

/// The reading of a source: it takes the conversations, and what is left out of them.
pub(crate) struct Reading<'a> {
    /// The name of the file, for conversations that have none.
    pub(crate) name: &'a str,
    /// The place of the file, if it is one.
    path: Option<&'a Path>,
    pub(crate) left_out: LeftOut,
    pub(crate) recordings: Vec<Recording>,
    names: HashMap<String, usize>,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(name: &'a str, path: Option<&'a Path>, left_out: LeftOut) -> Self {
        Reading { name, path, left_out, recordings: Vec::new(), names: HashMap::new() }
    }

    /// Returns the name of the file's folder, for agents that keep the files of each task in a folder.
    pub(crate) fn task(&self) -> String {
        let folder = self.path.and_then(|path| path.parent()?.file_name()?.to_str());
        folder.unwrap_or(self.name).to_owned()
    }

    /// Returns the names of the folders that the file is in, the innermost last.
    pub(crate) fn folders(&self) -> Vec<&'a str> {
        let folder = self.path.and_then(Path::parent);
        folder.map(|folder| folder.iter().filter_map(|name| name.to_str()).collect()).unwrap_or_default()
    }

    /// Returns the line in a small file, by its path from the file's folder.
    pub(crate) fn beside(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.path?.parent()?.join(path)).ok()?;
        Some(text.trim().to_owned()).filter(|line| !line.is_empty())
    }

    pub(crate) fn leave_out(&mut self, line: usize, reason: Reason) {
        self.left_out.add(reason, line);
    }

    /// Adds a conversation, unless it has no messages. Messages that cannot be decoded are left out.
    pub(crate) fn push(&mut self, draft: Draft<'_>) -> Result<(), RecordingError> {
        let mut recording = draft.decode_log(&mut self.left_out)?;
        if recording.messages.is_empty() {
            return Ok(());
        }
        let count = self.names.entry(recording.id.clone()).or_default();
        *count += 1;
        if *count > 1 {
            recording.id = format!("{}-{count}", recording.id);
        }
        self.recordings.push(recording);
        Ok(())
    }
}

//! Chats of Gemini CLI: one object, or lines that add, replace and remove messages.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use lookback_content::json;
use lookback_wire::dialect::Dialect;
use serde_json::value::RawValue;

use super::{Format, Reading, Source};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

pub(super) struct GeminiCli;

impl Format for GeminiCli {
    fn name(&self) -> &'static str {
        "Gemini CLI"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        vec![home.below("GEMINI_CLI_HOME", "", ".gemini/tmp")]
    }

    fn is_log(&self, path: &Path) -> bool {
        let is_chat = path.components().any(|part| part.as_os_str() == "chats");
        is_chat && path.extension().is_some_and(|extension| extension == "jsonl" || extension == "json")
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        source.any(|line| {
            let is_answer = line.text("type") == "gemini" && line.has("id");
            is_answer || line.has_all(&["sessionId", "projectHash"]) || line.has_any(&["$set", "$rewindTo"])
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let mut chat = Chat::default();
        for (line, value) in source.values() {
            let Some(object) = Object::read(value) else { continue };
            chat.add(*line, &object, reading);
        }
        // A resumed chat leaves a second file, with nothing but the context.
        if chat.messages.iter().all(|message| message.is_context()) {
            return Ok(());
        }
        let mut draft = chat.draft(reading);
        draft.project = reading.beside("../.project_root");
        reading.push(draft)
    }
}

/// A message, in its newest version.
struct Message<'a> {
    line: usize,
    object: Object<'a>,
    /// Whether it is the summary with which a new history begins.
    is_summary: bool,
}

impl Message<'_> {
    fn is_context(&self) -> bool {
        let text = self.object.first("content").map(|part| part.text("text").into_owned()).unwrap_or_default();
        self.object.text("type") != "gemini" && text.starts_with("<session_context>")
    }
}

#[derive(Default)]
struct Chat<'a> {
    id: Option<String>,
    messages: Vec<Message<'a>>,
    places: HashMap<(String, bool), usize>,
    contents: HashMap<String, usize>,
    /// The identifiers of all calls.
    calls: HashSet<String>,
    undone: Vec<Message<'a>>,
    /// The messages that stand behind a summary, by the summary's place.
    kept: HashMap<usize, Vec<usize>>,
    /// A new history that was made before the results of the last calls came.
    pending: Option<(usize, Vec<&'a RawValue>, Vec<usize>)>,
}

impl<'a> Chat<'a> {
    fn add(&mut self, line: usize, object: &Object<'a>, reading: &mut Reading<'_>) {
        self.id = self.id.take().or_else(|| object.string("sessionId"));
        if let Some(set) = object.object("$set") {
            match set.list("messages") {
                Some(list) => self.replace(line, list),
                None => reading.leave_out(line, Reason::NoMessage),
            }
        } else if let Some(id) = object.str("$rewindTo") {
            self.rewind(&id, reading);
            reading.leave_out(line, Reason::NoMessage);
        } else if let Some(list) = object.list("messages") {
            list.into_iter().for_each(|value| self.message(line, value, false));
        } else if object.has("type") {
            self.message(line, object.whole(), false);
        } else {
            reading.leave_out(line, Reason::NoMessage);
        }
    }

    /// Adds a message, or a newer version of one.
    fn message(&mut self, line: usize, value: &'a RawValue, is_summary: bool) {
        let Some(object) = Object::read(value) else { return };
        let key = (object.text("id").into_owned(), object.text("type") == "gemini");
        let place = self.places.get(&key).copied().unwrap_or(self.messages.len());
        self.contents.insert(content(&object), place);
        self.calls.extend(object.objects("toolCalls").iter().map(|call| call.text("id").into_owned()));
        let message = Message { line, object, is_summary };
        match self.places.get(&key).and_then(|at| self.messages.get_mut(*at)) {
            Some(known) => *known = Message { line: known.line, is_summary: known.is_summary, ..message },
            None => {
                self.places.insert(key, self.messages.len());
                self.messages.push(message);
            }
        }
        if self.messages.last().is_some_and(|last| !responses(&last.object).is_empty()) {
            self.begin_window();
        }
    }

    /// Adds a new history that was waiting for results: its summary, and what else is new in it.
    fn begin_window(&mut self) {
        let Some((line, added, known)) = self.pending.take() else { return };
        self.kept.insert(self.messages.len(), known);
        let is_answer =
            |value: &RawValue| Object::read(value).is_some_and(|it| it.text("type") == "gemini" && !it.has("tokens"));
        for (index, value) in added.into_iter().enumerate() {
            // The client answers the summary in the model's name.
            if !(index == 1 && is_answer(value)) {
                self.message(line, value, index == 0);
            }
        }
    }

    /// Returns whether the last message has calls whose results are not there yet.
    fn waits(&self) -> bool {
        self.messages.last().is_some_and(|last| last.object.first("toolCalls").is_some())
    }

    /// Adds the messages of a new history that the old one does not have. If the new one leaves messages out, the first
    /// new one is their summary.
    fn replace(&mut self, line: usize, list: Vec<&'a RawValue>) {
        let mut ids = HashSet::new();
        let (mut added, mut known) = (Vec::new(), Vec::new());
        for value in list {
            let Some(object) = Object::read(value) else { continue };
            let id = object.text("id").into_owned();
            let place = self.places.get(&(id.clone(), object.text("type") == "gemini")).copied();
            let place = place.or_else(|| self.contents.get(&content(&object)).copied());
            // Resuming a chat repeats results under the identifiers of their calls.
            match place {
                Some(place) => known.push(place),
                None if !self.answers_known(&object) => added.push(value),
                None => {}
            }
            ids.insert(id);
        }
        let is_shorter = self.messages.iter().filter(|known| !ids.contains(&*known.object.text("id"))).count() > 1;
        if !is_shorter {
            return added.into_iter().for_each(|value| self.message(line, value, false));
        }
        if !added.is_empty() {
            self.pending = Some((line, added, known));
        }
        if !self.waits() {
            self.begin_window();
        }
    }

    fn answers_known(&self, object: &Object<'_>) -> bool {
        let results = responses(object);
        !results.is_empty() && results.iter().all(|id| self.calls.contains(id))
    }

    /// Removes the message with this identifier and all after it.
    fn rewind(&mut self, id: &str, reading: &mut Reading<'_>) {
        // An unknown identifier removes everything.
        let at = self.messages.iter().position(|message| message.object.text("id") == id).unwrap_or(0);
        for message in self.messages.split_off(at) {
            reading.leave_out(message.line, Reason::OtherBranch);
            self.undone.push(message);
        }
        self.places.retain(|_, place| *place < at);
    }

    fn draft(mut self, reading: &mut Reading<'_>) -> Draft<'a> {
        self.begin_window();
        let mut draft = Draft::new(self.id.unwrap_or_else(|| reading.name.to_owned()), Dialect::Gemini);
        let answered: HashSet<String> = self.messages.iter().flat_map(|message| responses(&message.object)).collect();
        let mut given = HashSet::new();
        let mut elements = Vec::new();
        for (place, message) in self.messages.iter().enumerate() {
            elements.push(draft.elements.len());
            let (line, time) = (message.line, message.object.time("timestamp"));
            match &*message.object.text("type") {
                "user" => {
                    let own = responses(&message.object);
                    if !own.is_empty() && own.iter().all(|id| given.contains(id)) {
                        reading.leave_out(line, Reason::Copy);
                        continue;
                    }
                    given.extend(own);
                    if message.is_summary {
                        draft.compactions.push(draft.elements.len());
                        let kept = self.kept.get(&place).into_iter().flatten();
                        draft.kept(kept.filter_map(|place| elements.get(*place).copied()).collect::<Vec<_>>());
                    }
                    if let Some(content) = user(&message.object) {
                        draft.raw(line, time, content);
                    }
                }
                "gemini" => {
                    let before = draft.elements.len();
                    if let Some(content) = model(&message.object) {
                        draft.raw(line, time, content);
                    }
                    if let Some(usage) = usage(&message.object) {
                        draft.used(draft.elements.len() > before, time, usage);
                    }
                    // Older versions have the results only here.
                    if let Some(content) = results(&message.object, &answered) {
                        draft.raw(line, time, content);
                    }
                }
                _ => reading.leave_out(line, Reason::NoMessage),
            }
        }
        for message in &self.undone {
            if let Some(usage) = usage(&message.object) {
                draft.used(false, message.object.time("timestamp"), usage);
            }
        }
        draft
    }
}

/// Returns the identifiers of the calls whose results a message has.
fn responses(object: &Object<'_>) -> Vec<String> {
    let parts = object.objects("content");
    let responses = parts.iter().filter_map(|part| part.object("functionResponse"));
    responses.map(|response| response.text("id").into_owned()).collect()
}

/// Returns what a message says, however its version writes it: its texts, calls and results. A new history repeats
/// messages under new identifiers.
fn content(object: &Object<'_>) -> String {
    let mut all = object.text("type").into_owned();
    all.push_str(&object.text("content"));
    for part in object.objects("content") {
        all.push_str(&part.text("text"));
        let named = ["functionCall", "functionResponse"].iter().filter_map(|kind| part.object(kind));
        named.for_each(|named| all.push_str(&format!("\n{}", named.text("id"))));
    }
    object.objects("toolCalls").iter().for_each(|call| all.push_str(&format!("\n{}", call.text("id"))));
    all
}

fn message(role: &str, parts: &[String]) -> Option<Box<RawValue>> {
    let parts = (!parts.is_empty()).then(|| parts.join(","))?;
    RawValue::from_string(format!(r#"{{"role":"{role}","parts":[{parts}]}}"#)).ok()
}

/// Returns the parts of a content: a string, a part or a list of parts.
fn parts(object: &Object<'_>) -> Vec<String> {
    let Some(content) = object.get("content") else { return Vec::new() };
    let part = |value: &RawValue| {
        let is_text = value.get().starts_with('"');
        if value.get() == "\"\"" || value.get() == "{}" {
            return None;
        }
        Some(if is_text { format!(r#"{{"text":{}}}"#, value.get()) } else { value.get().to_owned() })
    };
    match object.list("content") {
        Some(list) => list.into_iter().filter_map(part).collect(),
        None => part(content).into_iter().collect(),
    }
}

fn user(object: &Object<'_>) -> Option<Box<RawValue>> {
    message("user", &parts(object))
}

fn model(object: &Object<'_>) -> Option<Box<RawValue>> {
    let mut all = parts(object);
    let own = object.objects("content").into_iter().filter_map(|part| part.object("functionCall")?.string("id"));
    let own: HashSet<String> = own.collect();
    for call in object.objects("toolCalls").into_iter().filter(|call| !own.contains(&*call.text("id"))) {
        let (id, Some(name)) = (call.get("id").map_or("null", RawValue::get), call.get("name").map(RawValue::get))
        else {
            continue;
        };
        let args = call.get("args").map_or("{}", RawValue::get);
        all.push(format!(r#"{{"functionCall":{{"id":{id},"name":{name},"args":{args}}}}}"#));
    }
    message("model", &all)
}

/// Returns the results of a message's calls that no other message has.
fn results(object: &Object<'_>, answered: &HashSet<String>) -> Option<Box<RawValue>> {
    let mut all = Vec::new();
    for call in object.objects("toolCalls") {
        let Some(found) = call.get("result").filter(|_| !answered.contains(&*call.text("id"))) else { continue };
        match json::array(found) {
            Some(parts) => all.extend(parts.into_iter().map(|part| part.get().to_owned())),
            None if found.get().starts_with('{') => all.push(found.get().to_owned()),
            None => {
                let (id, name) = ["id", "name"].map(|key| call.get(key).map_or("null", RawValue::get)).into();
                let response = format!(r#"{{"id":{id},"name":{name},"response":{{"output":{}}}}}"#, found.get());
                all.push(format!(r#"{{"functionResponse":{response}}}"#));
            }
        }
    }
    message("user", &all)
}

fn usage(object: &Object<'_>) -> Option<RecordedUsage> {
    let tokens = object.object("tokens")?;
    let (input, output) =
        (tokens.tokens("input") + tokens.tokens("tool"), tokens.tokens("output") + tokens.tokens("thoughts"));
    Some(RecordedUsage::of_whole(input, tokens.tokens("cached"), 0, output, object.string("model")))
}

/// Reads the usage that Gemini reports with an answer.
pub(super) fn metadata(metadata: &Object<'_>, model: Option<String>) -> RecordedUsage {
    let input = metadata.tokens("promptTokenCount") + metadata.tokens("toolUsePromptTokenCount");
    let output = metadata.tokens("candidatesTokenCount") + metadata.tokens("thoughtsTokenCount");
    RecordedUsage::of_whole(input, metadata.tokens("cachedContentTokenCount"), 0, output, model)
}

//! Sessions of opencode: its database, and the files that `opencode export` writes.

use std::path::{Path, PathBuf};

use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{AssistantPart, ResultItem, UserPart};
use serde_json::value::RawValue;

use super::parts::{Block, call, media, result, words};
use super::{Format, Reading, Source, side_chain};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

pub(super) struct Opencode;

impl Format for Opencode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        home.data("opencode")
    }

    fn is_log(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("opencode") && name.ends_with(".db")
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        #[cfg(feature = "sqlite")]
        if let Source::Database(database) = source {
            return database.has("part", &["message_id", "data"]) && database.has("message", &["session_id", "data"]);
        }
        source.any(|export| {
            let is_message = |message: Object<'_>| message.has_all(&["info", "parts"]);
            export.has("info") && export.first("messages").is_some_and(is_message)
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        #[cfg(feature = "sqlite")]
        if let Source::Database(database) = source {
            return store::read(database, reading);
        }
        for (line, value) in source.values() {
            let Some(export) = Object::read(value) else { continue };
            let Some(info) = export.object("info") else { continue };
            let mut session = Session::new(info.string("id").unwrap_or_else(|| reading.name.to_owned()));
            session.draft.project = info.string("directory");
            session.belongs_to(info.string("parentID"));
            let undone = Undone::read(info.get("revert"));
            for message in export.objects("messages") {
                let Some(info) = message.object("info") else { continue };
                let id = info.text("id");
                let mut parts = message.objects("parts");
                parts.retain(|part| !undone.has_part(&id, &part.text("id")));
                session.message(*line, &id, &info, &parts, undone.has(&id), reading);
            }
            reading.push(session.draft)?;
        }
        Ok(())
    }
}

#[cfg(feature = "sqlite")]
mod store {
    use std::collections::HashMap;

    use super::*;
    use crate::database::{self, Database};
    use crate::error::RecordingFault;

    pub(super) fn read(database: &Database, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let fault = |error: String| RecordingFault::Database(error);
        let sessions =
            database.all("SELECT id, parent_id, directory, revert FROM session ORDER BY time_created, id", [], |row| {
                Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, database::json(row, 3)))
            });
        for (id, parent, directory, revert) in sessions.map_err(fault)? {
            let mut session = Session::new(id.clone());
            session.belongs_to(parent);
            session.draft.project = directory;
            let undone = Undone::read(revert.as_deref());
            let parts = database.all(
                "SELECT rowid, message_id, id, data FROM part WHERE session_id = ?1 ORDER BY id",
                [&id],
                |row| {
                    let (message, part) = (row.get::<_, String>(1)?, row.get::<_, String>(2)?);
                    Ok((database::number(row)?, message, part, database::json(row, 3)))
                },
            );
            let mut of_messages: HashMap<String, Vec<Box<RawValue>>> = HashMap::new();
            for (row, message, id, part) in parts.map_err(fault)? {
                if part.is_none() {
                    reading.leave_out(row, Reason::Damaged);
                }
                let part = part.filter(|_| !undone.has_part(&message, &id));
                of_messages.entry(message).or_default().extend(part);
            }
            let messages = database.all(
                "SELECT rowid, id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id",
                [&id],
                |row| Ok((database::number(row)?, row.get::<_, String>(1)?, database::json(row, 2))),
            );
            for (row, id, data) in messages.map_err(fault)? {
                let Some(info) = data.as_deref().and_then(Object::read) else {
                    reading.leave_out(row, Reason::Damaged);
                    continue;
                };
                let parts = of_messages.get(&id).map(Vec::as_slice).unwrap_or_default();
                let parts: Vec<_> = parts.iter().filter_map(|part| Object::read(part)).collect();
                session.message(row, &id, &info, &parts, undone.has(&id), reading);
            }
            reading.push(session.draft)?;
        }
        Ok(())
    }
}

/// The message, or the part of one, from which on the person has undone the session. Identifiers grow with time.
struct Undone(Option<(String, Option<String>)>);

impl Undone {
    fn read(revert: Option<&RawValue>) -> Undone {
        let revert = revert.and_then(Object::read);
        Undone(revert.and_then(|revert| Some((revert.string("messageID")?, revert.string("partID")))))
    }

    fn has(&self, message: &str) -> bool {
        self.0.as_ref().is_some_and(|(first, part)| message > first.as_str() || (message == first && part.is_none()))
    }

    fn has_part(&self, message: &str, part: &str) -> bool {
        let first = self.0.as_ref().filter(|(first, _)| message == first).and_then(|(_, part)| part.as_deref());
        first.is_some_and(|first| part >= first)
    }
}

struct Session {
    draft: Draft<'static>,
    /// The identifier of each message, with the index of its first element.
    places: Vec<(String, usize)>,
    /// The first message that the next summary leaves as it is.
    tail: Option<String>,
}

impl Session {
    fn new(id: String) -> Session {
        Session { draft: Draft::new(id, Dialect::Anthropic), places: Vec::new(), tail: None }
    }

    fn belongs_to(&mut self, parent: Option<String>) {
        if let Some(parent) = parent {
            self.draft.id = side_chain(&parent, &self.draft.id);
        }
    }

    fn message(
        &mut self,
        line: usize,
        id: &str,
        info: &Object<'_>,
        parts: &[Object<'_>],
        is_undone: bool,
        reading: &mut Reading<'_>,
    ) {
        let time = info.object("time").and_then(|time| time.time("created"));
        if is_undone {
            reading.leave_out(line, Reason::OtherBranch);
        }
        self.places.push((id.to_owned(), self.draft.elements.len()));
        self.tail = parts.iter().find_map(|part| part.string("tail_start_id")).or(self.tail.take());
        if info.text("role") == "user" {
            let said: Vec<UserPart> = parts.iter().filter_map(user).collect();
            if said.is_empty() {
                // The request for a summary.
                reading.leave_out(line, Reason::NoMessage);
            } else if !is_undone {
                self.draft.user(line, time, said);
            }
            return;
        }
        let is_summary = info.is("summary");
        // opencode sends a failed answer again only if the person stopped it and it has something.
        let is_stopped = info.object("error").is_some_and(|error| error.text("name") == "MessageAbortedError");
        let is_failed = info.has("error")
            && !(is_stopped && parts.iter().any(|part| !matches!(&*part.text("type"), "step-start" | "reasoning")));
        if is_failed && !is_undone {
            reading.leave_out(line, Reason::OtherBranch);
        }
        if is_summary && !is_undone && !is_failed {
            let texts: Vec<_> =
                parts.iter().filter(|part| part.text("type") == "text").map(|part| part.text("text")).collect();
            self.draft.summary(line, time, &texts.join("\n"));
            let tail = self.tail.take();
            let first = tail.and_then(|tail| self.places.iter().find(|(id, _)| *id >= tail)).map(|(_, first)| *first);
            self.draft.kept(first.into_iter().flat_map(|first| first..self.draft.elements.len()).collect::<Vec<_>>());
        }
        // Each step is a call of the model.
        let mut steps: Vec<Step> = Vec::new();
        for part in parts {
            if part.text("type") == "step-start" || steps.is_empty() {
                steps.push(Step::default());
            }
            if let Some(step) = steps.last_mut() {
                step.add(part);
            }
        }
        let model = info.string("modelID");
        let has_usage = steps.iter().any(|step| step.usage.is_some());
        for step in steps {
            let is_read = !is_undone && !is_summary && !is_failed;
            let before = self.draft.elements.len();
            if is_read {
                self.draft.assistant(line, time, step.said);
            }
            if let Some(usage) = step.usage {
                let usage = RecordedUsage { model: model.clone(), ..usage };
                self.draft.used(self.draft.elements.len() > before, time, usage);
            }
            if is_read {
                self.draft.user(line, step.ended.or(time), step.results);
            }
        }
        // A failed call has no step, but may have a usage.
        let usage = info.object("tokens").map(|reported| usage(&reported)).filter(|_| !has_usage);
        if let Some(usage) = usage.filter(|usage| usage.sent() > 0) {
            self.draft.used(false, time, RecordedUsage { model, ..usage });
        }
    }
}

#[derive(Default)]
struct Step {
    said: Vec<AssistantPart>,
    results: Vec<UserPart>,
    ended: Option<Millis>,
    usage: Option<RecordedUsage>,
}

impl Step {
    fn add(&mut self, part: &Object<'_>) {
        match &*part.text("type") {
            "text" => self.said.extend(words(&part.text("text")).map(AssistantPart::Text)),
            "tool" => {
                let (Some(state), id) = (part.object("state"), part.text("callID")) else { return };
                self.said.push(call(&id, &part.text("tool"), state.get("input")));
                self.ended = state.object("time").and_then(|time| time.time("end")).or(self.ended);
                let failure = state.str("error").filter(|_| state.text("status") == "error");
                let mut items: Vec<ResultItem> = failure
                    .clone()
                    .or(state.str("output"))
                    .and_then(|text| words(&text))
                    .map(ResultItem::Text)
                    .into_iter()
                    .collect();
                items.extend(state.objects("attachments").iter().filter_map(file).map(Block::result));
                if matches!(&*state.text("status"), "completed" | "error") {
                    self.results.push(result(&id, items, failure.is_some()));
                }
            }
            "step-finish" => self.usage = part.object("tokens").map(|reported| usage(&reported)),
            _ => {}
        }
    }
}

fn user(part: &Object<'_>) -> Option<UserPart> {
    match &*part.text("type") {
        "text" if !part.is("ignored") => words(&part.text("text")).map(UserPart::Text),
        "file" => file(part).map(Block::user),
        _ => None,
    }
}

/// Returns a picture. The text of other files is in a text part beside them.
fn file(part: &Object<'_>) -> Option<Block> {
    let (mime, url) = (part.str("mime")?, part.str("url")?);
    (mime.starts_with("image/") && url.starts_with("data:")).then(|| Block::Image(media(&url, Some(&mime))))
}

fn usage(reported: &Object<'_>) -> RecordedUsage {
    let mut usage = RecordedUsage::new(0);
    usage.input = reported.tokens("input");
    usage.output = reported.tokens("output") + reported.tokens("reasoning");
    if let Some(cache) = reported.object("cache") {
        (usage.cache_read, usage.cache_write) = (cache.tokens("read"), cache.tokens("write"));
    }
    usage
}

//! Sessions of Goose: its database, exports, and the lines of older versions.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{AssistantPart, ResultItem, UserPart};

use super::parts::{Block, call, media, reasoning, result, words};
use super::{Format, Reading, Source, side_chain};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

pub(super) struct Goose;

impl Format for Goose {
    fn name(&self) -> &'static str {
        "Goose"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        let data = home.below("XDG_DATA_HOME", ".local/share", "goose/sessions");
        vec![
            data,
            home.below("GOOSE_PATH_ROOT", ".goose", "data/sessions"),
            home.below("APPDATA", "AppData/Roaming", "Block/goose/data/sessions"),
        ]
    }

    fn is_log(&self, path: &Path) -> bool {
        // The sessions of older versions are also in the database.
        let has_database = path.with_file_name("sessions.db").exists();
        let is_lines = path.extension().is_some_and(|extension| extension == "jsonl");
        path.ends_with("sessions.db") || (is_lines && !has_database)
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        #[cfg(feature = "sqlite")]
        if let Source::Database(database) = source {
            return database.has("messages", &["session_id", "content_json"]) && database.has("sessions", &["id"]);
        }
        source.any(|line| {
            let is_header = line.has_all(&["description", "message_count"]) && !line.has("role");
            is_header || line.has_all(&["working_dir", "conversation"]) || is_message(line)
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        #[cfg(feature = "sqlite")]
        if let Source::Database(database) = source {
            return store::read(database, reading);
        }
        let mut session = Session::new(reading.name.to_owned());
        for (line, value) in source.values() {
            let Some(object) = Object::read(value) else { continue };
            if let Some(conversation) = object.get("conversation") {
                let mut session = Session::new(object.string("id").unwrap_or_else(|| reading.name.to_owned()));
                session.belongs_to(object.string("parent_session_id"));
                session.draft.project = object.string("working_dir");
                session.model = object.object("model_config").and_then(|config| config.string("model_name"));
                for message in lookback_content::json::array(conversation).unwrap_or_default() {
                    let Some(message) = Object::read(message) else { continue };
                    session.message(*line, &message, reading);
                }
                reading.push(session.draft)?;
            } else if object.has("role") {
                session.message(*line, &object, reading);
            } else {
                session.draft.project = object.string("working_dir").or(session.draft.project);
                reading.leave_out(*line, Reason::NoMessage);
            }
        }
        reading.push(session.draft)
    }
}

/// Returns whether an object is a message with a block that only Goose has.
fn is_message(line: &Object<'_>) -> bool {
    let is_own =
        |block: &Object<'_>| matches!(&*block.text("type"), "toolRequest" | "toolResponse" | "ToolUse" | "ToolResult");
    line.has_all(&["role", "created"]) && line.objects("content").iter().any(is_own)
}

#[cfg(feature = "sqlite")]
mod store {
    use serde_json::value::RawValue;

    use super::*;
    use crate::database::{self, Database};
    use crate::error::RecordingFault;

    pub(super) fn read(database: &Database, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let fault = |error: String| RecordingFault::Database(error);
        // Older versions lack some columns.
        let column = |table, name: &'static str| if database.has(table, &[name]) { name } else { "NULL" };
        let query = format!(
            "SELECT id, {}, {}, {} FROM sessions ORDER BY created_at, id",
            column("sessions", "working_dir"),
            column("sessions", "parent_session_id"),
            column("sessions", "model_config_json"),
        );
        let sessions = database
            .all(&query, [], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, database::json(row, 3))));
        let query = format!(
            "SELECT id, role, created_timestamp, content_json, {} FROM messages WHERE session_id = ?1 \
             ORDER BY created_timestamp, id",
            column("messages", "metadata_json"),
        );
        for (id, project, parent, config) in sessions.map_err(fault)? {
            let mut session = Session::new(id.clone());
            session.belongs_to(parent);
            session.draft.project = project;
            session.model = config.as_deref().and_then(Object::read).and_then(|config| config.string("model_name"));
            session.add_ledger(database, &id)?;
            let rows = database.all(&query, [&id], |row| {
                let (content, metadata) = (database::json(row, 3), database::json(row, 4));
                Ok((database::number(row)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?, content, metadata))
            });
            for (row, role, created, content, metadata) in rows.map_err(fault)? {
                let Some(content) = content else {
                    reading.leave_out(row, Reason::Damaged);
                    continue;
                };
                let metadata = metadata.as_deref().map_or("null", RawValue::get);
                let role = lookback_content::json::string(&role);
                let text = format!(
                    r#"{{"role":{role},"created":{created},"content":{},"metadata":{metadata}}}"#,
                    content.get()
                );
                let message = RawValue::from_string(text).ok();
                if let Some(message) = message.as_deref().and_then(Object::read) {
                    session.message(row, &message, reading);
                }
            }
            session.settle(None);
            reading.push(session.draft)?;
        }
        Ok(())
    }

    fn tokens(number: Option<i64>) -> u64 {
        number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
    }

    impl Session {
        /// Adds the usage of calls for summaries and names, which only the ledger has.
        fn add_ledger(&mut self, database: &Database, id: &str) -> Result<(), RecordingError> {
            if !database.has("usage_ledger", &["session_id", "is_compaction", "cache_read_tokens"]) {
                return Ok(());
            }
            let rows = database.all(
                "SELECT created_timestamp, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens \
                 FROM usage_ledger WHERE session_id = ?1 AND is_compaction = 1 ORDER BY rowid",
                [id],
                |row| {
                    let read = |column| row.get::<_, Option<i64>>(column).map(tokens);
                    let usage = RecordedUsage::of_whole(read(2)?, read(4)?, read(5)?, read(3)?, row.get(1)?);
                    Ok((row.get::<_, i64>(0)?.saturating_mul(1000), usage))
                },
            );
            self.ledger = rows.map_err(RecordingFault::Database)?.into();
            Ok(())
        }
    }
}

struct Session {
    draft: Draft<'static>,
    model: Option<String>,
    /// The usage of calls whose answers are not among the messages, in order.
    ledger: VecDeque<(Millis, RecordedUsage)>,
    /// The summary that the next message may show to be one.
    was_note: bool,
}

impl Session {
    fn new(id: String) -> Session {
        Session { draft: Draft::new(id, Dialect::Anthropic), model: None, ledger: VecDeque::new(), was_note: false }
    }

    fn belongs_to(&mut self, parent: Option<String>) {
        if let Some(parent) = parent {
            self.draft.id = side_chain(&parent, &self.draft.id);
        }
    }

    /// Adds the calls that the ledger has before this time, or all.
    fn settle(&mut self, until: Option<Millis>) {
        while let Some((time, usage)) = self.ledger.pop_front_if(|(time, _)| until.is_none_or(|until| *time < until)) {
            self.draft.used(false, Some(time), usage);
        }
    }

    fn message(&mut self, line: usize, message: &Object<'_>, reading: &mut Reading<'_>) {
        let time = message.time("created");
        self.settle(time);
        let metadata = message.object("metadata");
        let is_hidden = |key| metadata.as_ref().is_some_and(|data| data.get(key).is_some_and(|it| it.get() == "false"));
        let was_note = std::mem::replace(&mut self.was_note, false);
        let blocks = message.objects("content");
        let blocks: Vec<_> = blocks.iter().filter(|block| is_for_model(block)).collect();
        if message.text("role") == "user" {
            let said: Vec<UserPart> = blocks.iter().filter_map(|block| user(block)).collect();
            if said.is_empty() {
                return reading.leave_out(line, Reason::NoMessage);
            }
            // Goose hides the messages before a summary from the model. They were seen before.
            self.was_note = is_hidden("userVisible");
            self.draft.user(line, time, said);
            return;
        }
        let is_continuation = |text: &str| {
            text.starts_with("Your context was compacted")
                || text.starts_with("The previous message contains a summary that was prepared because")
        };
        // The first databases say nothing of who sees a message.
        if (was_note || metadata.is_none()) && blocks.first().is_some_and(|block| is_continuation(&block.text("text")))
        {
            self.draft.compactions.extend(self.draft.elements.len().checked_sub(1));
            // Goose wrote this in the model's name. It answers no call.
            return reading.leave_out(line, Reason::NoMessage);
        }
        let said: Vec<AssistantPart> = blocks.iter().filter_map(|block| assistant(block)).collect();
        if said.is_empty() {
            reading.leave_out(line, Reason::NoMessage);
        }
        let before = self.draft.elements.len();
        self.draft.assistant(line, time, said);
        let Some(metadata) = metadata else { return };
        if let Some(reported) = metadata.object("usage").filter(|reported| !reported.is("isCompaction")) {
            let model =
                metadata.object("inference").and_then(|it| it.string("resolvedModel").or(it.string("requestedModel")));
            let usage = RecordedUsage { model: model.or_else(|| self.model.clone()), ..usage(&reported) };
            self.draft.used(self.draft.elements.len() > before, time, usage);
        }
    }
}

/// Returns whether a block is for the model. Some tools return each output twice: for the model, and for the person.
fn is_for_model(block: &Object<'_>) -> bool {
    let audience = block.object("annotations").and_then(|annotations| annotations.list("audience"));
    audience.is_none_or(|audience| audience.iter().any(|reader| reader.get() == "\"assistant\""))
}

fn user(block: &Object<'_>) -> Option<UserPart> {
    match &*block.text("type") {
        "toolResponse" => {
            let outcome = block.object("toolResult")?;
            let id = block.text("id");
            if outcome.text("status") == "error" {
                let text = words(&outcome.text("error")).map(ResultItem::Text);
                return Some(result(&id, text.into_iter().collect(), true));
            }
            // Older versions have the list of items here.
            let items = outcome.object("value").map(|value| value.objects("content"));
            let items = items.unwrap_or_else(|| outcome.objects("value"));
            let items = items.iter().filter(|item| is_for_model(item)).filter_map(item).map(Block::result).collect();
            let is_error = outcome.object("value").is_some_and(|value| value.is("isError"));
            Some(result(&id, items, is_error))
        }
        // The first versions, which were written in Python.
        "ToolResult" => {
            let items = words(&block.text("output")).map(ResultItem::Text).into_iter().collect();
            Some(result(&block.text("tool_use_id"), items, block.is("is_error")))
        }
        _ => item(block).map(Block::user),
    }
}

/// Reads an item of MCP.
fn item(item: &Object<'_>) -> Option<Block> {
    match &*item.text("type") {
        "text" | "Text" => words(&item.text("text")).map(Block::Text),
        "image" => Some(Block::Image(media(&item.str("data")?, item.str("mimeType").as_deref()))),
        "resource" => words(&item.object("resource")?.text("text")).map(Block::Text),
        _ => None,
    }
}

fn assistant(block: &Object<'_>) -> Option<AssistantPart> {
    match &*block.text("type") {
        "text" | "Text" => words(&block.text("text")).map(AssistantPart::Text),
        "ToolUse" => Some(call(&block.text("id"), &block.text("name"), block.get("parameters"))),
        "thinking" => reasoning(&block.text("thinking"), block.str("signature").as_deref()),
        "toolRequest" => {
            let outcome = block.object("toolCall")?;
            let Some(value) = outcome.object("value") else {
                return Some(call(&block.text("id"), "unparseable_tool_call", None));
            };
            Some(call(&block.text("id"), &value.text("name"), value.get("arguments")))
        }
        _ => None,
    }
}

fn usage(reported: &Object<'_>) -> RecordedUsage {
    let (read, write) = (reported.tokens("cacheReadTokens"), reported.tokens("cacheWriteTokens"));
    RecordedUsage::of_whole(reported.tokens("inputTokens"), read, write, reported.tokens("outputTokens"), None)
}

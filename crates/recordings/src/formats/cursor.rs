//! Conversations of Cursor: the databases of its editor and its command line, and the transcripts beside them.

// Without databases, only the transcripts are read.
#![cfg_attr(not(feature = "sqlite"), allow(dead_code))]

use std::path::{Path, PathBuf};

use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{AssistantPart, ResultItem, UserPart};

use super::parts::{Block, blocks, call, media, reasoning, result, words};
use super::{Format, Reading, Source};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::Object;

pub(super) struct Cursor;

impl Format for Cursor {
    fn name(&self) -> &'static str {
        "Cursor"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        let mut folders = home.config("Cursor/User/globalStorage");
        folders.push(home.join(".cursor/chats"));
        folders
    }

    /// The transcripts have no results, and all their conversations are in the databases.
    fn is_log(&self, path: &Path) -> bool {
        path.ends_with("state.vscdb") || path.ends_with("store.db")
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        #[cfg(feature = "sqlite")]
        if let Source::Database(database) = source {
            return store::is_editor(database) || store::is_command_line(database);
        }
        source.any(|line| {
            let is_bare = !line.has_any(&["type", "uuid", "sessionId", "timestamp"]);
            let is_message = line.has("role") && line.object("message").is_some_and(|message| message.has("content"));
            (is_bare && is_message) || (line.text("type") == "turn_ended" && line.has("status"))
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        #[cfg(feature = "sqlite")]
        if let Source::Database(database) = source {
            return if store::is_editor(database) {
                store::read_editor(database, reading)
            } else {
                store::read_command_line(database, reading)
            };
        }
        let mut draft = Draft::new(reading.name, Dialect::Anthropic);
        for (line, value) in source.values() {
            let Some(object) = Object::read(value) else { continue };
            let Some(message) = object.object("message").filter(|_| object.has("role")) else {
                reading.leave_out(*line, Reason::NoMessage);
                continue;
            };
            if object.text("role") == "user" {
                let content = message.get("content").map(|content| blocks(content, |_| None)).unwrap_or_default();
                draft.user(*line, None, content.into_iter().map(Block::user).collect());
                continue;
            }
            // A transcript has no identifiers, and no results.
            let part = |(index, block): (usize, &Object<'_>)| match &*block.text("type") {
                "text" => words(&block.text("text")).map(AssistantPart::Text),
                "tool_use" => Some(call(&format!("call_{line}_{index}"), &block.text("name"), block.get("input"))),
                _ => None,
            };
            draft.assistant(*line, None, message.objects("content").iter().enumerate().filter_map(part).collect());
        }
        reading.push(draft)
    }
}

/// Adds a message as Cursor sends it, which is like that of the Vercel AI SDK, version 4.
fn add(draft: &mut Draft<'_>, line: usize, message: &Object<'_>) {
    let content = message.get("content");
    let about = message.object("providerOptions").and_then(|options| options.object("cursor"));
    match &*message.text("role") {
        "system" => draft.system_message(line, None, &message.text("content")),
        "user" => {
            let said = content.map(|content| blocks(content, picture)).unwrap_or_default();
            let is_summary = about.is_some_and(|about| about.is("isSummary")) || message.is("isSummary");
            if is_summary && !said.is_empty() {
                draft.compactions.push(draft.elements.len());
            }
            draft.user(line, None, said.into_iter().map(Block::user).collect());
        }
        "assistant" => {
            let mut model = None;
            let part = |block: Object<'_>| match &*block.text("type") {
                "text" => words(&block.text("text")).map(AssistantPart::Text),
                "reasoning" => {
                    let of = block.object("providerOptions").and_then(|options| options.object("cursor"));
                    model = of.and_then(|of| of.string("modelName")).or(model.take());
                    reasoning(&block.text("text"), block.str("signature").as_deref())
                }
                "tool-call" => Some(call(&block.text("toolCallId"), &block.text("toolName"), block.get("args"))),
                _ => None,
            };
            let text = message.str("content").and_then(|text| words(&text)).map(AssistantPart::Text);
            let said = message.objects("content").into_iter().filter_map(part).chain(text).collect();
            draft.assistant(line, None, said);
            if let Some(model) = model {
                *draft.models.entry(model).or_default() += 1;
            }
        }
        "tool" => {
            let outcome = about.and_then(|about| about.object("highLevelToolCallResult"));
            let failed = outcome.is_some_and(|outcome| outcome.is("isError"));
            let results = message.objects("content").into_iter().filter(|block| block.text("type") == "tool-result");
            let results = results.map(|block| {
                let items = block.list("experimental_content").is_some_and(|items| !items.is_empty());
                let items = block.get(if items { "experimental_content" } else { "result" });
                let items = items.map(|items| blocks(items, picture)).unwrap_or_default();
                result(&block.text("toolCallId"), items.into_iter().map(Block::result).collect(), failed)
            });
            draft.user(line, None, results.collect());
        }
        _ => {}
    }
}

fn picture(block: &Object<'_>) -> Option<Block> {
    let data = block.str("image").or(block.str("data")).filter(|_| block.text("type") == "image")?;
    Some(Block::Image(media(&data, block.str("mimeType").as_deref().or(Some("image/png")))))
}

/// The bubbles of the editor, of which each has a step of the model.
#[derive(Default)]
struct Bubbles {
    said: Vec<AssistantPart>,
    results: Vec<UserPart>,
    line: usize,
    time: Option<Millis>,
}

impl Bubbles {
    fn close(&mut self, draft: &mut Draft<'_>) {
        draft.assistant(self.line, self.time, std::mem::take(&mut self.said));
        draft.user(self.line, self.time, std::mem::take(&mut self.results));
    }

    fn add(&mut self, draft: &mut Draft<'_>, line: usize, bubble: &Object<'_>) {
        let (text, time) = (words(&bubble.text("text")), bubble.time("createdAt"));
        if let Some(model) = bubble.object("modelInfo").and_then(|info| info.string("modelName")) {
            *draft.models.entry(model).or_default() += 1;
        }
        if bubble.tokens("type") == 1 {
            self.close(draft);
            return draft.user(line, time, text.map(UserPart::Text).into_iter().collect());
        }
        let tool = bubble.object("toolFormerData").filter(|tool| tool.has("name"));
        // Text and thinking behind results belong to the next call of the model.
        if !self.results.is_empty() && tool.is_none() {
            self.close(draft);
        }
        if self.said.is_empty() {
            (self.line, self.time) = (line, time);
        }
        self.said.extend(text.map(AssistantPart::Text));
        let Some(tool) = tool else { return };
        let id = tool.text("toolCallId");
        self.said.push(call(&id, &tool.text("name"), tool.get("rawArgs").or(tool.get("params"))));
        let failed = tool.object("additionalData").is_some_and(|data| data.text("status") == "error");
        let failed = failed || tool.text("status") == "error";
        if tool.has("result") || failed {
            let items = tool.get("result").and_then(|value| words(&super::parts::text(value))).map(ResultItem::Text);
            self.results.push(result(&id, items.into_iter().collect(), failed));
        }
    }
}

#[cfg(feature = "sqlite")]
mod store {
    use std::collections::HashMap;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use serde_json::value::RawValue;

    use super::super::side_chain;
    use super::*;
    use crate::database::{self, Database};
    use crate::error::RecordingFault;

    pub(super) fn is_editor(database: &Database) -> bool {
        database.has("cursorDiskKV", &["key", "value"])
    }

    pub(super) fn is_command_line(database: &Database) -> bool {
        database.has("blobs", &["id", "data"]) && database.has("meta", &["key", "value"])
    }

    /// Reads a conversation of the command line. Its messages are those that the newest state names, in that order.
    pub(super) fn read_command_line(database: &Database, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let meta = database.all("SELECT value FROM meta WHERE key = '0'", [], |row| row.get::<_, String>(0));
        let meta = meta.map_err(RecordingFault::Database)?.into_iter().find_map(|text| unhex(&text));
        let meta = meta.and_then(|bytes| RawValue::from_string(String::from_utf8(bytes).ok()?).ok());
        let meta = meta.as_deref().and_then(Object::read);
        let mut draft = Draft::new(reading.task(), Dialect::Anthropic);
        draft.project = reading
            .beside("meta.json")
            .and_then(|text| Object::read(&RawValue::from_string(text).ok()?)?.string("cwd"));
        if let Some(meta) = &meta {
            draft.models.extend(meta.string("lastUsedModel").map(|model| (model, 0)));
            draft.id = meta.string("agentId").unwrap_or(draft.id);
            let root = meta.string("latestRootBlobId").unwrap_or_default();
            let blob = |id: &str| -> Option<Vec<u8>> {
                let found = database.all("SELECT data FROM blobs WHERE id = ?1", [id], database::bytes);
                found.ok()?.into_iter().next()
            };
            add_state(&mut draft, &blob(&root).unwrap_or_default(), blob, reading);
        }
        reading.push(draft)
    }

    /// Adds the messages of a state: first those that summaries replaced, then those that the model sees now.
    fn add_state(
        draft: &mut Draft<'_>,
        state: &[u8],
        blob: impl Fn(&str) -> Option<Vec<u8>>,
        reading: &mut Reading<'_>,
    ) -> bool {
        const MESSAGES: u64 = 1;
        const ARCHIVES: [u64; 2] = [11, 13];
        let fields = fields(state);
        let of = |number: u64| fields.iter().filter(move |(field, _)| *field == number).map(|(_, bytes)| *bytes);
        let archived = ARCHIVES.into_iter().flat_map(of).filter_map(|id| blob(&hex(id)));
        let archived: Vec<Vec<u8>> = archived.collect();
        let old = archived.iter().flat_map(|archive| self::fields(archive)).filter(|(field, _)| *field == MESSAGES);
        let mut is_complete = true;
        let mut known = std::collections::HashSet::new();
        for (line, id) in (1..).zip(old.map(|(_, id)| id).chain(of(MESSAGES))) {
            if !known.insert(id) {
                continue;
            }
            let message = blob(&hex(id)).and_then(|bytes| RawValue::from_string(String::from_utf8(bytes).ok()?).ok());
            match message.as_deref().and_then(Object::read) {
                Some(message) => add(draft, line, &message),
                None => {
                    reading.leave_out(line, Reason::Damaged);
                    is_complete = false;
                }
            }
        }
        is_complete
    }

    /// Reads the conversations of the editor.
    pub(super) fn read_editor(database: &Database, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let composers = database.all(
            "SELECT rowid, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' \
             AND value IS NOT NULL",
            [],
            |row| Ok((database::number(row)?, database::json(row, 1))),
        );
        for (row, value) in composers.map_err(RecordingFault::Database)? {
            let Some(composer) = value.as_deref().and_then(Object::read) else {
                reading.leave_out(row, Reason::Damaged);
                continue;
            };
            let Some(id) = composer.string("composerId") else { continue };
            let parent = composer.object("subagentInfo").and_then(|info| info.string("parentComposerId"));
            let name = parent.map_or(id.clone(), |parent| side_chain(&parent, &id));
            let mut draft = Draft::new(name, Dialect::Anthropic);
            let place = composer.object("workspaceIdentifier").and_then(|place| place.object("uri"));
            draft.project = place.and_then(|uri| uri.string("fsPath"));
            let model = composer.object("modelConfig").and_then(|config| config.string("modelName"));
            draft.models.extend(model.filter(|model| model != "default").map(|model| (model, 0)));
            let begun = composer.time("createdAt");
            let before = draft.elements.len();
            if !has_state(database, &composer, &mut draft) {
                draft.elements.truncate(before);
                draft.compactions.clear();
                add_bubbles(database, &composer, &id, &mut draft, reading)?;
            }
            // Messages of a state have no times.
            if let Some(first) = draft.elements.first_mut() {
                first.time = first.time.or(begun);
            }
            reading.push(draft)?;
        }
        Ok(())
    }

    /// Adds the messages of a state, which newer versions keep beside the bubbles. Returns whether it was complete.
    fn has_state(database: &Database, composer: &Object<'_>, draft: &mut Draft<'_>) -> bool {
        let state = composer.string("conversationState").unwrap_or_default();
        let Some(state) = state.strip_prefix('~').and_then(|text| STANDARD.decode(text).ok()) else { return false };
        let blob = |id: &str| -> Option<Vec<u8>> {
            let key = format!("agentKv:blob:{id}");
            let found = database.all("SELECT value FROM cursorDiskKV WHERE key = ?1", [key], database::bytes);
            found.ok()?.into_iter().next()
        };
        let mut reading = Reading::new("", None, crate::left_out::LeftOut::default());
        add_state(draft, &state, blob, &mut reading) && !draft.elements.is_empty()
    }

    fn add_bubbles(
        database: &Database,
        composer: &Object<'_>,
        id: &str,
        draft: &mut Draft<'_>,
        reading: &mut Reading<'_>,
    ) -> Result<(), RecordingError> {
        let rows = database.all(
            "SELECT rowid, key, value FROM cursorDiskKV WHERE key >= ?1 AND key < ?2 AND value IS NOT NULL",
            [format!("bubbleId:{id}:"), format!("bubbleId:{id};")],
            |row| Ok((database::number(row)?, row.get::<_, String>(1)?, database::json(row, 2))),
        );
        let mut of_bubbles = HashMap::new();
        for (row, key, value) in rows.map_err(RecordingFault::Database)? {
            match (key.rsplit_once(':'), value) {
                (Some((_, bubble)), Some(value)) => drop(of_bubbles.insert(bubble.to_owned(), (row, value))),
                _ => reading.leave_out(row, Reason::Damaged),
            }
        }
        let mut bubbles = Bubbles::default();
        let headers = composer.objects("fullConversationHeadersOnly");
        for (row, value) in headers.iter().filter_map(|header| of_bubbles.get(&*header.text("bubbleId"))) {
            if let Some(bubble) = Object::read(value) {
                bubbles.add(draft, *row, &bubble);
            }
        }
        // The first versions kept the bubbles in the conversation.
        if headers.is_empty() {
            composer.objects("conversation").iter().for_each(|bubble| bubbles.add(draft, 1, bubble));
        }
        bubbles.close(draft);
        Ok(())
    }

    /// Returns the fields of a message of Protocol Buffers that are bytes, with their numbers.
    fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
        let mut fields = Vec::new();
        while let Some(tag) = varint(&mut message) {
            let length = match tag & 7 {
                0 => {
                    varint(&mut message);
                    continue;
                }
                1 => Some(8),
                2 => varint(&mut message).and_then(|length| usize::try_from(length).ok()),
                5 => Some(4),
                _ => None,
            };
            let Some((bytes, rest)) = length.and_then(|length| message.split_at_checked(length)) else { break };
            if tag & 7 == 2 {
                fields.push((tag >> 3, bytes));
            }
            message = rest;
        }
        fields
    }

    fn varint(bytes: &mut &[u8]) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn unhex(text: &str) -> Option<Vec<u8>> {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let pairs = text.as_bytes().chunks_exact(2);
        pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
    }
}

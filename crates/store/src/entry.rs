//! Makes a record from a session's entry: its body, and the text, time and speaker that searches use.

use lookback_engine::transcript::{Arrival, Entry, Label, Position};
use lookback_wire::message::PartRef;
use lookback_wire::{dialect::Dialect, message::Role};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{LogName, Record, StoreError};

impl Record {
    /// Makes the record of an entry at this position. `label` is the label in effect there.
    ///
    /// # Errors
    /// Returns an error if the entry cannot be written as JSON.
    pub fn from_entry(
        log: &LogName,
        position: Position,
        entry: &Entry,
        label: Option<&Label>,
    ) -> Result<Record, StoreError> {
        let body = serde_json::to_string(entry).map_err(|error| StoreError::unwritable(log, position, error))?;
        Ok(Record::from_parsed(entry, body, label))
    }

    /// Makes the record of a body that was read, equal to the one that was first appended. `label` is the label in
    /// effect, which the entry may change.
    pub(crate) fn from_body(log: &LogName, body: String, label: &mut Label) -> Record {
        if log.is_derived() {
            return Record::new(body);
        }
        match serde_json::from_str(&body) {
            Ok(entry) => Record::from_read(entry, body, label),
            Err(_) => Record::new(body),
        }
    }

    /// Does the same as [`Record::from_body`] for a body that is already parsed.
    pub(crate) fn from_read(entry: Entry, body: String, label: &mut Label) -> Record {
        let record = Record::from_parsed(&entry, body, Some(label));
        match entry {
            Entry::Label(next) => *label = next,
            Entry::Checkpoint(checkpoint) => *label = checkpoint.label,
            _ => {}
        }
        record
    }

    fn from_parsed(entry: &Entry, body: String, label: Option<&Label>) -> Record {
        let record = Record::new(body).checkpoint(matches!(entry, Entry::Checkpoint(_)));
        match entry {
            Entry::Message(arrival) => searched(record, arrival, label),
            _ => record,
        }
    }
}

/// Adds to the record of a message the text and the speaker by which searches find it.
fn searched(record: Record, arrival: &Arrival, label: Option<&Label>) -> Record {
    let message = &arrival.message;
    let mut parts = message.parts().filter(|part| !part.is_cache_marker()).peekable();
    let of_tools = parts.peek().is_some() && parts.all(|part| matches!(part, PartRef::ToolResult(_)));
    let role = match message.role() {
        _ if of_tools => "tool",
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    // A label names the agent, which did not write the questions or the tool results.
    let agent = || if message.role() == Role::Assistant { label?.agent.clone() } else { None };
    let chat = message.wire().filter(|wire| wire.dialect == Dialect::OpenAiChat);
    let name = chat.and_then(|wire| name(&wire.raw)).or_else(agent);
    // The text that replaces an erased note is not searchable, like everything that was erased.
    let text = if arrival.is_erased() { String::new() } else { message.text() };
    Record { name, ..record.text(text).time(arrival.time).role(role) }
}

/// Returns the speaker's name, which OpenAI Chat keeps next to the content.
fn name(message: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: Option<String>,
    }
    // Most messages have no name, and are not parsed again.
    let may_have = message.get().contains("\"name\"");
    may_have.then(|| serde_json::from_str::<Named>(message.get()).ok()?.name)?
}

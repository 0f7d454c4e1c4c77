//! Transcripts and messages in a provider's format: one per line, in a list, or one after the other.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lookback_wire::dialect;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::draft::{Draft, Element};
use crate::error::{RecordingError, RecordingFault};
use crate::object::{millis, parse};
use crate::values;

/// Reads the transcripts of a file, or its messages as one transcript with this name.
pub(crate) fn read<'a>(text: &'a str, name: &str) -> Result<Vec<Draft<'a>>, RecordingError> {
    let mut transcripts = Vec::new();
    let mut single: Option<Draft<'a>> = None;
    for (number, (line, value)) in (1_usize..).zip(values::read(text)?) {
        let read: Line<'a> = if value.get().starts_with('[') {
            Line { messages: Some(value), ..Line::default() }
        } else {
            parse(value).ok_or(RecordingFault::Neither { line })?
        };
        match (read.list(), read.is_message()) {
            (Some(list), _) => {
                if single.is_some() {
                    return Err(RecordingFault::Mixed { line }.into());
                }
                transcripts.push(Draft::transcript(read, (value, list), line, || format!("{name}-{number}"))?);
            }
            (None, true) => {
                if !transcripts.is_empty() {
                    return Err(RecordingFault::Mixed { line }.into());
                }
                let empty = || Draft { id: name.to_owned(), line, ..Draft::default() };
                let draft = single.get_or_insert_with(empty);
                draft.elements.push(undecoded(value, line, draft.elements.len())?);
            }
            (None, false) => return Err(RecordingFault::Neither { line }.into()),
        }
    }
    transcripts.extend(single);
    Ok(transcripts)
}

/// One value of a file: a transcript, or a message.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    contents: Option<&'a RawValue>,
    #[serde(borrow, alias = "instructions", alias = "systemInstruction", alias = "system_instruction")]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, rename = "toolConfig")]
    tool_config: Option<&'a RawValue>,
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    parts: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow, rename = "modelId")]
    model_id: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
}

impl<'a> Line<'a> {
    /// Returns the list of messages, if the value is a transcript.
    ///
    /// Some messages also have a member `input`, but they have a type, too.
    fn list(&self) -> Option<&'a RawValue> {
        if self.messages.is_some() || self.kind.is_some() {
            return self.messages;
        }
        [self.input, self.contents].into_iter().flatten().next()
    }

    fn is_message(&self) -> bool {
        self.role.is_some() || self.kind.is_some() || self.parts.is_some()
    }
}

/// The metadata of a transcript.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    compactions: Option<&'a RawValue>,
    // The number of calls of each model.
    #[serde(borrow)]
    models: Option<&'a RawValue>,
}

impl<'a> Draft<'a> {
    fn transcript(
        read: Line<'a>,
        (value, list): (&'a RawValue, &'a RawValue),
        line: usize,
        unnamed: impl FnOnce() -> String,
    ) -> Result<Self, RecordingError> {
        let messages = elements(list).ok_or(RecordingFault::Neither { line })?;
        let messages = messages.iter().enumerate();
        let messages = messages.map(|(index, raw)| undecoded(raw, line, index)).collect::<Result<_, _>>()?;
        let meta: Meta<'_> = read.meta.and_then(parse).unwrap_or_default();
        let named = [read.model, read.model_id].into_iter().flatten().find_map(parse);
        Ok(Draft {
            id: read.id.and_then(id).unwrap_or_else(unnamed),
            line,
            beside: Some(value),
            elements: messages,
            system: read.system,
            tools: read.tools,
            tool_config: read.tool_config,
            usage: [read.usage, meta.usage].into_iter().flatten().find_map(parse).unwrap_or_default(),
            compactions: meta.compactions.and_then(parse).unwrap_or_default(),
            models: named
                .map(|model| BTreeMap::from([(model, u64::MAX)]))
                .or_else(|| meta.models.and_then(parse))
                .unwrap_or_default(),
            ..Draft::default()
        })
    }
}

/// Returns the elements of a list of messages. A single text is a user message.
fn elements(list: &RawValue) -> Option<Vec<Cow<'_, RawValue>>> {
    if list.get().starts_with('"') {
        let message = format!("{{\"role\":\"user\",\"content\":{}}}", list.get());
        return Some(vec![Cow::Owned(RawValue::from_string(message).ok()?)]);
    }
    let elements: Vec<&RawValue> = parse(list)?;
    Some(elements.into_iter().map(Cow::Borrowed).collect())
}

/// Removes the time from a message, and returns both.
fn undecoded(raw: &RawValue, line: usize, index: usize) -> Result<Element, RecordingError> {
    let mut message = raw.to_owned();
    let time = dialect::take_member(&mut message, "time");
    let time = match time.filter(|time| time.get() != "null") {
        Some(time) => Some(millis(&time).ok_or(RecordingFault::Time { line, index })?),
        None => None,
    };
    Ok(Element { line, message, time })
}

/// Reads a transcript's name: a text, or a number with its digits unchanged.
fn id(raw: &RawValue) -> Option<String> {
    let number = || raw.get().starts_with(|c: char| c.is_ascii_digit()).then(|| raw.get().to_owned());
    parse(raw).or_else(number)
}

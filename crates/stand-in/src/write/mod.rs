//! Answers in the providers' formats, as one body or as the events of a stream.

mod anthropic;
mod gemini;
mod openai_chat;
mod openai_responses;

use lookback_wire::dialect::Dialect;
use serde_json::Value;

use crate::model::{Said, Usage};

/// An answer to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) said: &'a Said,
    pub(crate) usage: Usage,
    pub(crate) model: &'a str,
    /// A number that differs for each answer.
    pub(crate) number: usize,
}

impl Answer<'_> {
    /// Returns the answer as one body.
    pub(crate) fn whole(self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::Anthropic => anthropic::whole(self),
            Dialect::Gemini => gemini::whole(self),
            Dialect::OpenAiResponses => openai_responses::whole(self),
            _ => openai_chat::whole(self),
        }
    }

    /// Returns the events of a stream, including their line endings.
    pub(crate) fn events(self, dialect: Dialect) -> Vec<String> {
        let named = |event: Value| {
            let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
            format!("event: {kind}\ndata: {event}\n\n")
        };
        let unnamed = |event: Value| format!("data: {event}\n\n");
        match dialect {
            Dialect::Anthropic => anthropic::events(self).into_iter().map(named).collect(),
            Dialect::OpenAiResponses => openai_responses::events(self).into_iter().map(named).collect(),
            Dialect::Gemini => gemini::events(self).into_iter().map(|event| format!("data: {event}\r\n\r\n")).collect(),
            _ => {
                let events = openai_chat::events(self).into_iter().map(unnamed);
                events.chain(["data: [DONE]\n\n".to_owned()]).collect()
            }
        }
    }

    /// Returns the text in two pieces.
    fn halves(&self) -> (&str, &str) {
        let text = &self.said.text;
        let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.split_at(middle)
    }
}

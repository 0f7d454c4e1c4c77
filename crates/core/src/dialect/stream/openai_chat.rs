//! The chunks of Chat Completions.

use serde_json::value::RawValue;

use super::{Growing, Pieces, Told, element};
use crate::json::{self, Fields};

/// Members of a delta that are texts in pieces.
const TEXTS: &[&str] = &["content", "reasoning_content", "reasoning", "refusal"];

#[derive(Default)]
pub(in crate::dialect) struct Chunks {
    /// The members of the body beside the choices.
    body: Growing,
    message: Growing,
    calls: Vec<Call>,
}

#[derive(Default)]
struct Call {
    members: Growing,
    /// The members of `function` or `custom`.
    function: Growing,
    custom: Growing,
}

impl Pieces for Chunks {
    fn add(&mut self, event: &Fields<'_>) -> Told {
        if event.get("error").is_some_and(|error| error.get() != "null") {
            return Told::Error;
        }
        for name in ["model", "usage"] {
            if let Some(value) = event.get(name).filter(|value| value.get() != "null") {
                self.body.set(name, value);
            }
        }
        let choices = event.get("choices").and_then(json::array).unwrap_or_default();
        // Of several choices the first is taken.
        let is_first = |choice: &Fields<'_>| choice.get("index").is_none_or(|index| index.get() == "0");
        let Some(choice) = choices.into_iter().filter_map(Fields::read).find(is_first) else { return Told::Nothing };
        let delta = choice.get("delta").and_then(Fields::read).unwrap_or_default();
        let said = self.add_delta(&delta);
        let is_over = choice.get("finish_reason").is_some_and(|reason| reason.get() != "null");
        if is_over {
            Told::End
        } else if said {
            Told::Content
        } else {
            Told::Nothing
        }
    }

    fn body(&self) -> Box<RawValue> {
        let mut message = self.message.clone();
        if !message.is_empty() {
            message.set("role", &json::string("assistant"));
            if message.text("content").is_none() {
                message.set("content", RawValue::NULL);
            }
        }
        let calls: Vec<_> = self.calls.iter().map(Call::write).collect();
        if !calls.is_empty() {
            message.set("tool_calls", &json::write_array(calls.iter().map(AsRef::as_ref)));
        }
        let mut body = self.body.clone();
        if !message.is_empty() {
            let choice = json::object([("message", message.write())]);
            body.set("choices", &json::write_array([&*choice]));
        }
        body.write()
    }
}

impl Chunks {
    /// Adds a delta, and returns whether the model says something in it.
    fn add_delta(&mut self, delta: &Fields<'_>) -> bool {
        let mut said = false;
        for (name, value) in delta.iter().filter(|(_, value)| value.get() != "null") {
            match json::text(value) {
                Some(text) if TEXTS.contains(&name) => {
                    said |= !text.is_empty();
                    self.message.append(name, &text);
                }
                _ if name == "tool_calls" => {
                    for call in json::array(value).unwrap_or_default().into_iter().filter_map(Fields::read) {
                        said = true;
                        self.add_call(&call);
                    }
                }
                _ => self.message.set(name, value),
            }
        }
        said
    }

    fn add_call(&mut self, piece: &Fields<'_>) {
        // Some servers send whole calls, without an index.
        let call = match element(&mut self.calls, piece, "index") {
            Some(call) => call,
            None => {
                self.calls.push(Call::default());
                let Some(call) = self.calls.last_mut() else { return };
                call
            }
        };
        for (name, value) in piece.iter().filter(|(name, value)| *name != "index" && value.get() != "null") {
            let inner = match name {
                "function" => &mut call.function,
                "custom" => &mut call.custom,
                _ => {
                    call.members.set(name, value);
                    continue;
                }
            };
            let Some(fields) = Fields::read(value) else { continue };
            for (name, value) in fields.iter() {
                match json::text(value) {
                    Some(text) if matches!(name, "arguments" | "input") => inner.append(name, &text),
                    Some(text) if text.is_empty() => {}
                    _ if value.get() == "null" => {}
                    _ => inner.set(name, value),
                }
            }
        }
    }
}

impl Call {
    fn write(&self) -> Box<RawValue> {
        let mut members = self.members.clone();
        if members.text("type").is_none() {
            members.set("type", &json::string(if self.custom.is_empty() { "function" } else { "custom" }));
        }
        if self.custom.is_empty() {
            let mut function = self.function.clone();
            if function.text("arguments").is_none() {
                function.append("arguments", "");
            }
            members.set("function", &function.write());
        } else {
            members.set("custom", &self.custom.write());
        }
        members.write()
    }
}

//! Assembles a streamed response of Chat Completions from its chunks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{EventKind, Growing, MOST_ELEMENTS, Pieces};
use lookback_content::json::{self, Fields};

/// Members of a delta whose texts arrive in pieces.
const TEXTS: &[&str] = &["content", "reasoning_content", "reasoning", "refusal"];

#[derive(Default)]
pub(in crate::dialect) struct Chunks {
    /// The members of the body other than the choices.
    body: Growing,
    message: Growing,
    /// The calls, in the order in which they began.
    calls: Vec<Call>,
    /// The newest call with each index, by its place among the calls.
    by_index: BTreeMap<u64, usize>,
    /// The call with each identifier.
    by_id: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    members: Growing,
    /// The members of `function` or `custom`.
    function: Growing,
    custom: Growing,
}

impl Pieces for Chunks {
    fn add(&mut self, event: &Fields<'_>) -> EventKind {
        if event.get("error").is_some_and(|error| error.get() != "null") {
            return EventKind::Error;
        }
        for name in ["model", "usage"] {
            if let Some(value) = event.get(name).filter(|value| value.get() != "null") {
                self.body.set(name, value);
            }
        }
        let choices = event.get("choices").and_then(json::array).unwrap_or_default();
        // If there are several choices, only the first one counts.
        let is_first = |choice: &Fields<'_>| choice.get("index").is_none_or(|index| index.get() == "0");
        let Some(choice) = choices.into_iter().filter_map(Fields::read).find(is_first) else {
            return EventKind::Nothing;
        };
        let delta = choice.get("delta").and_then(Fields::read).unwrap_or_default();
        let said = self.add_delta(&delta);
        let is_over = choice.get("finish_reason").is_some_and(|reason| reason.get() != "null");
        if is_over {
            EventKind::Stop
        } else if said {
            EventKind::Content
        } else {
            EventKind::Nothing
        }
    }

    fn body(&self) -> Box<RawValue> {
        let mut message = self.message.clone();
        if !message.is_empty() || !self.calls.is_empty() {
            message.set("role", &json::string("assistant"));
            if message.text("content").is_none() {
                message.set("content", RawValue::NULL);
            }
        }
        let mut calls: Vec<&Call> = self.calls.iter().collect();
        // If each call has a different index, they are in the order of their indexes.
        if self.by_index.len() == calls.len() {
            calls.sort_by_key(|call| call.index);
        }
        let calls: Vec<_> = calls.into_iter().map(Call::write).collect();
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
    /// Adds a delta, and returns whether it has content.
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

    /// Returns the call that a piece belongs to, or begins a new one. Returns `None` if there are too many calls.
    ///
    /// According to OpenAI's documentation, the index identifies the call. But some servers give each call the index 0
    /// or no index, and send an empty identifier with each later piece. So, as in common clients, a new identifier, or
    /// another name after arguments, begins a new call.
    fn call(&mut self, piece: &Fields<'_>) -> Option<&mut Call> {
        let index: Option<u64> = piece.get("index").and_then(|index| serde_json::from_str(index.get()).ok());
        let id = piece.text("id").filter(|id| !id.is_empty()).map(Cow::into_owned);
        let at = match self.known(piece, index, id.as_deref()) {
            Some(at) => at,
            None if self.calls.len() < MOST_ELEMENTS => {
                // A message whose call has no identifier could not be read.
                let mut members = Growing::default();
                members.set("id", &json::string(id.as_deref().unwrap_or_default()));
                self.calls.push(Call { index, members, ..Call::default() });
                self.calls.len() - 1
            }
            None => return None,
        };
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        if let Some(id) = id {
            self.by_id.entry(id).or_insert(at);
        }
        self.calls.get_mut(at)
    }

    /// Returns the place of the call that a piece continues, or `None` if it begins a new call.
    fn known(&self, piece: &Fields<'_>, index: Option<u64>, id: Option<&str>) -> Option<usize> {
        let by_id = id.and_then(|id| self.by_id.get(id)).copied();
        let name = name(piece);
        let Some(index) = index else {
            let last = if id.is_none() { self.calls.len().checked_sub(1) } else { None };
            let continues =
                |at: &usize| self.calls.get(*at).is_some_and(|call| name.is_none() || call.name().is_none());
            return by_id.or(last.filter(continues));
        };
        let at = self.by_index.get(&index).copied().or(by_id)?;
        let call = self.calls.get(at)?;
        let is_another = call.name().is_some_and(|own| name.as_deref().is_some_and(|name| name != own));
        match (id, call.members.text("id")) {
            (Some(id), Some(own)) if id != own && !own.is_empty() => by_id,
            (None, _) if is_another && call.has_arguments() => None,
            _ => Some(at),
        }
    }

    fn add_call(&mut self, piece: &Fields<'_>) {
        let Some(call) = self.call(piece) else { return };
        for (name, value) in piece.iter().filter(|(name, value)| *name != "index" && value.get() != "null") {
            let inner = match name {
                "function" => &mut call.function,
                "custom" => &mut call.custom,
                _ => {
                    if json::text(value).is_none_or(|text| !text.is_empty()) {
                        call.members.set(name, value);
                    }
                    continue;
                }
            };
            let Some(fields) = Fields::read(value) else { continue };
            for (name, value) in fields.iter() {
                match json::text(value) {
                    Some(text) if matches!(name, "arguments" | "input") => inner.append(name, &text),
                    Some(text) if text.is_empty() => {}
                    _ if value.get() == "null" => {}
                    // A name arrives once, in pieces, or with each piece.
                    Some(text) if name == "name" => {
                        if inner.text(name) != Some(&*text) {
                            inner.append(name, &text);
                        }
                    }
                    _ => inner.set(name, value),
                }
            }
        }
    }
}

/// Returns the name in a piece of a call, if it has one.
fn name(piece: &Fields<'_>) -> Option<String> {
    let of = |member: &str| {
        let fields = piece.get(member).and_then(Fields::read)?;
        fields.text("name").filter(|name| !name.is_empty()).map(Cow::into_owned)
    };
    of("function").or_else(|| of("custom"))
}

impl Call {
    fn name(&self) -> Option<&str> {
        self.function.text("name").or_else(|| self.custom.text("name"))
    }

    fn has_arguments(&self) -> bool {
        let texts = [self.function.text("arguments"), self.custom.text("input")];
        texts.into_iter().flatten().any(|text| !text.is_empty())
    }

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

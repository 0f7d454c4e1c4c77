//! Assembles a streamed response of streamGenerateContent, whose chunks are responses with some of the parts.

use serde_json::value::RawValue;

use super::{EventKind, Growing, Pieces};
use lookback_content::json::{self, Fields};

#[derive(Default)]
pub(in crate::dialect) struct Chunks {
    /// The members of the body other than the candidates.
    body: Growing,
    role: Option<String>,
    parts: Vec<Part>,
}

/// A part. Consecutive texts of one kind are one part.
enum Part {
    Text { text: String, is_thought: bool },
    Whole(Box<RawValue>),
}

impl Pieces for Chunks {
    fn add(&mut self, event: &Fields<'_>) -> EventKind {
        if event.get("error").is_some() {
            return EventKind::Error;
        }
        for (name, value) in event.iter().filter(|(name, _)| *name != "candidates") {
            self.body.set(name, value);
        }
        let candidates = event.get("candidates").and_then(json::array).unwrap_or_default();
        let Some(candidate) = candidates.first().and_then(|candidate| Fields::read(candidate)) else {
            return EventKind::Nothing;
        };
        let content = candidate.get("content").and_then(Fields::read).unwrap_or_default();
        let parts = content.get("parts").and_then(json::array).unwrap_or_default();
        if content.get("parts").is_some() || content.get("role").is_some() {
            self.role = Some(content.text("role").map_or_else(|| "model".to_owned(), Into::into));
        }
        let said = !parts.is_empty();
        parts.into_iter().for_each(|part| self.add_part(part));
        if candidate.get("finishReason").is_some() {
            EventKind::Stop
        } else if said {
            EventKind::Content
        } else {
            EventKind::Nothing
        }
    }

    fn body(&self) -> Box<RawValue> {
        let mut body = self.body.clone();
        if let Some(role) = &self.role {
            let parts: Vec<_> = self.parts.iter().map(Part::write).collect();
            let parts = json::write_array(parts.iter().map(AsRef::as_ref));
            let content = json::object([("role", json::string(role)), ("parts", parts)]);
            let candidate = json::object([("content", content)]);
            body.set("candidates", &json::write_array([&*candidate]));
        }
        body.write()
    }
}

impl Chunks {
    fn add_part(&mut self, raw: &RawValue) {
        let plain = Fields::read(raw).filter(|fields| fields.keys().all(|key| matches!(key, "text" | "thought")));
        let Some(new) = plain.as_ref().and_then(|fields| fields.text("text")) else {
            self.parts.push(Part::Whole(raw.to_owned()));
            return;
        };
        let thinks = plain.as_ref().is_some_and(|fields| fields.get("thought").is_some_and(|it| it.get() == "true"));
        match self.parts.last_mut() {
            Some(Part::Text { text, is_thought }) if *is_thought == thinks => text.push_str(&new),
            _ => self.parts.push(Part::Text { text: new.into_owned(), is_thought: thinks }),
        }
    }
}

impl Part {
    fn write(&self) -> Box<RawValue> {
        match self {
            Part::Text { text, is_thought: false } => json::object([("text", json::string(text))]),
            Part::Text { text, is_thought: true } => {
                json::object([("text", json::string(text)), ("thought", json::value(&true))])
            }
            Part::Whole(raw) => raw.clone(),
        }
    }
}

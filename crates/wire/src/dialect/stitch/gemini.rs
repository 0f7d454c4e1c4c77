//! Joins streams of streamGenerateContent, whose chunks have whole parts.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::gap::Gap;
use super::usage::{Names, Usage};
use super::{Own, Passing, Seam, with_element};
use lookback_content::json::{self, Fields};

const USAGE: Names = Names {
    report: "usageMetadata",
    output: &["candidatesTokenCount", "thoughtsTokenCount"],
    total: Some("totalTokenCount"),
};

#[derive(Default)]
pub(in crate::dialect) struct Chunks {
    /// Whether this answer has hidden calls.
    hides: bool,
    /// Whether the newest call is hidden. The arguments of a call may follow in parts without its name.
    is_hidden: bool,
    /// The signature of a hidden call. Only the first call of an answer has one.
    signature: Option<Box<RawValue>>,
    gap: Gap,
    usage: Usage,
}

const SIGNATURE: &str = "thoughtSignature";

impl Seam for Chunks {
    fn read(&mut self, mut event: Fields<'_>, own: &Own) -> Passing {
        self.usage.read(&USAGE, &event);
        let mut changes = self.usage.add_up(&USAGE, &mut event);
        let candidates = event.get("candidates").and_then(json::array).unwrap_or_default();
        let Some(mut candidate) = candidates.first().and_then(|candidate| Fields::read(candidate)) else {
            return match (self.hides, changes) {
                (true, _) => Passing::Held { now: None, end: event.write() },
                (false, true) => Passing::Changed(event.write()),
                (false, false) => Passing::Unchanged,
            };
        };
        let mut content = candidate.get("content").and_then(Fields::read).unwrap_or_default();
        let parts = content.get("parts").and_then(json::array).unwrap_or_default();
        let kept: Vec<Cow<'_, RawValue>> = parts.iter().filter_map(|part| self.kept(part, own)).collect();
        let filtered = kept.len() < parts.len() || kept.iter().any(|part| matches!(part, Cow::Owned(_)));
        changes |= filtered;
        let ends = candidate.get("finishReason").is_some();
        let (is_empty, kept) = (kept.is_empty(), json::write_array(kept.iter().map(AsRef::as_ref)));
        let with = |event: &Fields<'_>, candidate: &Fields<'_>| {
            let mut event = event.clone();
            event.set("candidates", with_element(&candidates, 0, &candidate.write()));
            event.write()
        };
        content.set("parts", kept);
        if ends && self.hides {
            let now = (!is_empty).then(|| {
                let mut now = candidate.clone();
                now.remove("finishReason");
                now.set("content", content.write());
                with(&event, &now)
            });
            content.remove("parts");
            candidate.set("content", content.write());
            return Passing::Held { now, end: with(&event, &candidate) };
        }
        if filtered && is_empty {
            return Passing::Hidden;
        }
        if !changes {
            return Passing::Unchanged;
        }
        if filtered {
            candidate.set("content", content.write());
        }
        Passing::Changed(with(&event, &candidate))
    }

    fn end(&mut self, mut event: Fields<'_>) -> Box<RawValue> {
        self.usage.add_up(&USAGE, &mut event);
        event.write()
    }

    fn resume(&mut self) {
        (self.hides, self.is_hidden, self.signature) = (false, false, None);
        self.gap.resume();
        self.usage.resume(&USAGE);
    }

    fn hides(&self) -> bool {
        self.hides
    }

    fn error(&mut self, body: &Fields<'_>) -> (Option<&'static str>, Box<RawValue>) {
        (None, body.write())
    }
}

impl Chunks {
    /// Returns a part for the client. `None` if it is a call of the intermediary's tools, or continues one.
    fn kept<'a>(&mut self, raw: &'a RawValue, own: &Own) -> Option<Cow<'a, RawValue>> {
        let mut part = Fields::read(raw).unwrap_or_default();
        let is_thought = part.get("thought").is_some_and(|thought| thought.get() == "true");
        if let Some(text) = part.text("text").filter(|_| !is_thought).and_then(|text| self.gap.before(&text)) {
            part.set("text", text);
            return Some(Cow::Owned(part.write()));
        }
        if let Some(call) = part.get("functionCall").or_else(|| part.get("function_call")).and_then(Fields::read) {
            if let Some(name) = call.text("name").filter(|name| !name.is_empty()) {
                self.is_hidden = own.has(Some(name));
            }
            if self.is_hidden {
                self.hides = true;
                self.signature = part.get(SIGNATURE).map(ToOwned::to_owned).or_else(|| self.signature.take());
                return None;
            }
            if part.get(SIGNATURE).is_none()
                && let Some(signature) = self.signature.take()
            {
                let mut part = part.clone();
                part.set(SIGNATURE, signature);
                return Some(Cow::Owned(part.write()));
            }
        }
        Some(Cow::Borrowed(raw))
    }
}

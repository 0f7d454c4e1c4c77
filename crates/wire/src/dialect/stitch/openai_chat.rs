//! Joins streams of Chat Completions, whose calls have indexes.

use serde_json::value::RawValue;

use super::gap::Gap;
use super::places::{Places, number};
use super::usage::{Names, Usage};
use super::{Own, Passing, Seam, with_element};
use lookback_content::json::{self, Fields};

const USAGE: Names = Names {
    report: "usage",
    output: &["completion_tokens", "completion_tokens_details", "cost"],
    total: Some("total_tokens"),
};

#[derive(Default)]
pub(in crate::dialect) struct Chunks {
    is_later: bool,
    /// Whether the client has the role. Some clients refuse an answer without one, or with two.
    has_role: bool,
    /// The identifier of the first answer.
    id: Option<Box<RawValue>>,
    calls: Places,
    /// Whether this answer has hidden calls.
    hides: bool,
    /// Whether the newest call is hidden. Some servers send later pieces of a call without an index.
    is_hidden: bool,
    /// What a provider added to a hidden call, such as the signature of a thought that belongs to all calls of an answer.
    extra: Option<Box<RawValue>>,
    gap: Gap,
    usage: Usage,
}

impl Seam for Chunks {
    fn read(&mut self, mut event: Fields<'_>, own: &Own) -> Passing {
        if is_set(event.get("error")) {
            return Passing::Unchanged;
        }
        let reports = is_set(event.get("usage"));
        self.usage.read(&USAGE, &event);
        let mut changes = self.rename(&mut event) | self.usage.add_up(&USAGE, &mut event);
        let choices = event.get("choices").and_then(json::array).unwrap_or_default();
        let is_first = |choice: &Fields<'_>| choice.get("index").is_none_or(|index| index.get() == "0");
        let first = choices.iter().filter_map(|choice| Fields::read(choice)).position(|choice| is_first(&choice));
        let Some((at, mut choice)) = first.and_then(|at| Some((at, Fields::read(choices.get(at)?)?))) else {
            return match (reports, self.hides) {
                (true, true) => Passing::Held { now: None, end: event.write() },
                // A chunk without choices and usage has a beginning, such as the results of a filter.
                (false, _) if self.is_later => Passing::Hidden,
                _ if changes => Passing::Changed(event.write()),
                _ => Passing::Unchanged,
            };
        };
        let mut delta = choice.get("delta").and_then(Fields::read).unwrap_or_default();
        let filtered = self.filter(&mut delta, own);
        changes |= filtered;
        let is_new = |name: &str| name != "role" || !self.has_role;
        let says = delta.iter().any(|(name, value)| is_new(name) && !matches!(value.get(), "null" | "\"\"" | "[]"));
        let ends = is_set(choice.get("finish_reason"));
        let with = |choice: &Fields<'_>, reports: bool| {
            let mut event = event.clone();
            event.set("choices", with_element(&choices, at, &choice.write()));
            if !reports {
                event.remove("usage");
            }
            event.write()
        };
        self.has_role |= says && delta.get("role").is_some();
        if self.hides && (ends || reports) {
            // Some clients add up the usage of all chunks.
            let now = says.then(|| {
                let mut now = choice.clone();
                now.set("delta", delta.write());
                now.set("finish_reason", RawValue::NULL.to_owned());
                with(&now, false)
            });
            choice.set("delta", Fields::default().write());
            return Passing::Held { now, end: with(&choice, true) };
        }
        if !ends && !says && !reports && (filtered || self.is_later) {
            return Passing::Hidden;
        }
        if !changes {
            return Passing::Unchanged;
        }
        choice.set("delta", delta.write());
        Passing::Changed(with(&choice, true))
    }

    fn end(&mut self, mut event: Fields<'_>) -> Box<RawValue> {
        self.usage.add_up(&USAGE, &mut event);
        event.write()
    }

    fn resume(&mut self) {
        self.is_later = true;
        (self.hides, self.is_hidden, self.extra) = (false, false, None);
        self.gap.resume();
        self.calls.resume();
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
    /// Gives a chunk the identifier of the first answer. Returns whether that changes it.
    fn rename(&mut self, event: &mut Fields<'_>) -> bool {
        let Some(id) = event.get("id") else { return false };
        let first = self.id.get_or_insert_with(|| id.to_owned());
        let differs = self.is_later && first.get() != id.get();
        if differs {
            event.set("id", first.clone());
        }
        differs
    }

    /// Removes from a delta everything that is not for the client. Returns whether that changes it.
    fn filter(&mut self, delta: &mut Fields<'_>, own: &Own) -> bool {
        let mut changes = false;
        // Clients join the texts of each member.
        if self.is_later && self.has_role && delta.get("role").is_some() {
            delta.remove("role");
            changes = true;
        }
        if let Some(text) = delta.text("content").and_then(|text| self.gap.before(&text)) {
            delta.set("content", text);
            changes = true;
        }
        let Some(calls) = delta.get("tool_calls").and_then(json::array) else { return changes };
        let mut kept: Vec<Box<RawValue>> = Vec::with_capacity(calls.len());
        let mut differs = false;
        for raw in calls {
            let Some(mut call) = Fields::read(raw) else { continue };
            let index = number(call.get("index"));
            let function = call.get("function").and_then(Fields::read).unwrap_or_default();
            let name = function.text("name").filter(|name| !name.is_empty());
            let name_is_set = name.is_some();
            if name_is_set {
                self.is_hidden = own.has(name);
                self.hides |= self.is_hidden;
                // Some servers give every call the same index.
                index.into_iter().for_each(|index| self.calls.set_hidden(index, self.is_hidden));
            }
            let place = index.map(|index| self.calls.of(index));
            if place == Some(None) || place.is_none() && self.is_hidden {
                differs = true;
                self.extra = call.get(EXTRA).map(ToOwned::to_owned).or_else(|| self.extra.take());
                continue;
            }
            let extra = if name_is_set && call.get(EXTRA).is_none() { self.extra.take() } else { None };
            let moved = place.flatten().filter(|place| Some(*place) != index);
            if extra.is_none() && moved.is_none() {
                kept.push(raw.to_owned());
                continue;
            }
            differs = true;
            moved.into_iter().for_each(|place| call.set("index", json::value(&place)));
            extra.into_iter().for_each(|extra| call.set(EXTRA, extra));
            kept.push(call.write());
        }
        if differs {
            let kept = json::write_array(kept.iter().map(AsRef::as_ref));
            if kept.get() == "[]" {
                delta.remove("tool_calls");
            } else {
                delta.set("tool_calls", kept);
            }
        }
        changes | differs
    }
}

/// The member of a call for what OpenAI's format does not have, such as the signature of a thought.
const EXTRA: &str = "extra_content";

fn is_set(value: Option<&RawValue>) -> bool {
    value.is_some_and(|value| value.get() != "null")
}

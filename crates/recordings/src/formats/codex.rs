//! Rollouts of Codex: the items that it sent to OpenAI's Responses, and events.

use std::collections::HashSet;
use std::path::PathBuf;

use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use serde_json::value::RawValue;

use super::{Format, Reading, Source};
use crate::draft::{Draft, Element};
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

pub(super) struct Codex;

impl Format for Codex {
    fn name(&self) -> &'static str {
        "Codex"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        ["sessions", "archived_sessions"].map(|folder| home.below("CODEX_HOME", ".codex", folder)).into()
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        const KINDS: [&str; 5] = ["session_meta", "response_item", "compacted", "turn_context", "event_msg"];
        source.any(|line| {
            let is_event = line.has("payload") && KINDS.contains(&&*line.text("type"));
            is_event
                || is_old_beginning(line)
                || (line.text("record_type") == "state" && !line.has("role"))
                || is_whole(line)
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let mut rollout = Rollout { draft: Draft::new(reading.name, Dialect::OpenAiResponses), ..Rollout::default() };
        let lines: Vec<_> =
            source.values().iter().filter_map(|(line, value)| Some((*line, Object::read(value)?))).collect();
        rollout.has_records = lines.iter().any(|(_, line)| line.text("type") == "token_usage_record");
        for (number, line) in &lines {
            if is_whole(line) {
                if let Some(meta) = line.object("session") {
                    rollout.begin(*number, &meta, reading);
                }
                line.objects("items").iter().for_each(|item| rollout.item(*number, None, item, reading));
                continue;
            }
            rollout.add(*number, line, reading);
        }
        reading.push(rollout.draft)
    }
}

/// Returns whether a line is the first one of the oldest rollouts, whose items have no envelope.
fn is_old_beginning(line: &Object<'_>) -> bool {
    let known = ["id", "timestamp", "instructions", "git"];
    line.has_all(&["id", "timestamp"]) && line.members().iter().all(|(key, _)| known.contains(&&**key))
}

/// Returns whether an object is a whole rollout, as the first versions wrote it.
fn is_whole(object: &Object<'_>) -> bool {
    object.has("items") && object.object("session").is_some_and(|session| session.has_all(&["id", "timestamp"]))
}

#[derive(Default)]
struct Rollout<'a> {
    draft: Draft<'a>,
    model: Option<String>,
    has_meta: bool,
    /// Whether each call has a line with its usage. Older versions only have the sums, in events.
    has_records: bool,
    /// The sums of the last event, which is repeated when only limits of the account have changed.
    sums: Option<&'a str>,
    /// Whether the newest call has its usage.
    is_counted: bool,
    /// The elements that begin the turns of the person.
    turns: Vec<usize>,
}

impl<'a> Rollout<'a> {
    fn add(&mut self, number: usize, line: &Object<'a>, reading: &mut Reading<'_>) {
        let time = line.time("timestamp");
        let Some(payload) = line.object("payload") else {
            return self.add_old(number, line, time, reading);
        };
        match &*line.text("type") {
            "session_meta" => self.begin(number, &payload, reading),
            "response_item" => self.item(number, time, &payload, reading),
            "compacted" => self.compacted(number, time, &payload, reading),
            "turn_context" => {
                self.model = payload.string("model").or(self.model.take());
                self.draft.project = self.draft.project.take().or_else(|| payload.string("cwd"));
                reading.leave_out(number, Reason::NoMessage);
            }
            "token_usage_record" => {
                if let Some(usage) = payload.object("usage") {
                    self.used(time, &usage);
                }
                reading.leave_out(number, Reason::NoMessage);
            }
            "event_msg" => {
                self.event(time, &payload, reading);
                reading.leave_out(number, Reason::NoMessage);
            }
            _ => reading.leave_out(number, Reason::NoMessage),
        }
    }

    fn add_old(&mut self, number: usize, line: &Object<'a>, time: Option<Millis>, reading: &mut Reading<'_>) {
        if is_old_beginning(line) {
            self.begin(number, line, reading);
        } else if line.has("record_type") {
            reading.leave_out(number, Reason::NoMessage);
        } else {
            self.item(number, time, line, reading);
        }
    }

    /// Begins with the first metadata. A fork contains those of the conversation that it continues, too.
    fn begin(&mut self, number: usize, meta: &Object<'a>, reading: &mut Reading<'_>) {
        reading.leave_out(number, Reason::NoMessage);
        if self.has_meta {
            return;
        }
        self.has_meta = true;
        if let Some(id) = meta.string("id") {
            let parent = meta.object("source").and_then(|source| source.object("subagent")?.object("thread_spawn"));
            let parent = parent.and_then(|spawn| spawn.string("parent_thread_id"));
            self.draft.id = parent.map_or(id.clone(), |parent| format!("{parent}/agent-{id}"));
        }
        self.draft.project = meta.string("cwd");
        let instructions = meta.object("base_instructions").and_then(|base| base.get("text"));
        self.draft.system = instructions.or(meta.get("instructions").filter(|text| text.get().starts_with('"')));
    }

    fn item(&mut self, number: usize, time: Option<Millis>, item: &Object<'a>, reading: &mut Reading<'_>) {
        let kind = item.text("type");
        // Codex keeps these for itself.
        if matches!(&*kind, "ghost_snapshot" | "other" | "") && !item.has("role") {
            return reading.leave_out(number, Reason::NoMessage);
        }
        if item.text("role") == "user" && !is_context(item) {
            self.turns.push(self.draft.elements.len());
        }
        self.is_counted &= !is_answer(item);
        // Metadata of Codex and of its own service.
        let item = item.write_without(&["internal_chat_message_metadata_passthrough", "metadata", "timestamp"]);
        self.draft.raw(number, time, item);
    }

    fn compacted(&mut self, number: usize, time: Option<Millis>, payload: &Object<'a>, reading: &mut Reading<'_>) {
        let kept = payload.objects("replacement_history");
        // The answer to the request for a summary is in no later request, only its text.
        let answer = self.draft.elements.last().and_then(|last| Object::read(&last.message)?.first("content"));
        let answer = answer.map(|block| block.text("text").into_owned()).filter(|text| !text.is_empty());
        let is_summary = answer.is_some_and(|text| payload.text("message").contains(&text));
        if is_summary && self.draft.elements.last().is_some_and(is_answered_by) {
            let is_reasoning =
                |element: &Element| Object::read(&element.message).is_some_and(|item| item.text("type") == "reasoning");
            let last = self.draft.elements.len().saturating_sub(1);
            let others = self.draft.elements.iter().rev().skip(1);
            let first = last - others.take_while(|element| is_reasoning(element)).count();
            self.draft.remove_from(first, &mut reading.left_out);
        }
        // The summary is the last message of the new history. An encrypted one is an item of its own.
        let last = kept.last().filter(|last| last.text("type") != "message" || last.text("role") == "user");
        match last {
            Some(last) => {
                self.draft.compactions.push(self.draft.elements.len());
                let last = last.write_without(&["internal_chat_message_metadata_passthrough"]);
                self.draft.raw(number, time, last);
                let kept: HashSet<&str> =
                    kept.iter().filter_map(|item| item.get("content").map(RawValue::get)).collect();
                let is_kept = |element: &Element| {
                    let content = Object::read(&element.message).and_then(|item| item.get("content"));
                    content.is_some_and(|content| kept.contains(content.get()))
                };
                let elements = self.draft.elements.iter().enumerate().filter(|(_, element)| is_kept(element));
                let elements: Vec<usize> = elements.map(|(at, _)| at).collect();
                self.draft.kept(elements);
            }
            None => self.draft.summary(number, time, &payload.text("message")),
        }
        self.is_counted = true;
    }

    fn event(&mut self, time: Option<Millis>, event: &Object<'a>, reading: &mut Reading<'_>) {
        match &*event.text("type") {
            "token_count" if !self.has_records => {
                let Some(info) = event.object("info") else { return };
                let sums = info.get("total_token_usage").map(RawValue::get);
                if sums.is_some() && sums == self.sums {
                    return;
                }
                self.sums = sums;
                if let Some(usage) = info.object("last_token_usage") {
                    self.used(time, &usage);
                }
            }
            "thread_rolled_back" => self.roll_back(event.tokens("num_turns"), reading),
            _ => {}
        }
    }

    /// Adds the usage of a call. If no answer came since the last usage, it was a call for something else, such as a
    /// summary.
    fn used(&mut self, time: Option<Millis>, reported: &Object<'_>) {
        let mut usage = RecordedUsage::new(0);
        usage.cache_read = reported.tokens("cached_input_tokens");
        usage.cache_write = reported.tokens("cache_write_input_tokens");
        usage.input = reported.tokens("input_tokens").saturating_sub(usage.cache_read + usage.cache_write);
        usage.output = reported.tokens("output_tokens");
        usage.model.clone_from(&self.model);
        // Results may have come before the usage.
        let answer = self.draft.elements.iter().rposition(is_answered_by);
        let answer = answer.filter(|_| !self.is_counted);
        self.draft.used_by(answer, time, usage);
        self.is_counted = true;
    }

    /// Removes the last turns, which the person has undone.
    fn roll_back(&mut self, turns: u64, reading: &mut Reading<'_>) {
        for _ in 0..turns.min(self.turns.len() as u64) {
            let Some(at) = self.turns.pop() else { break };
            self.draft.remove_from(at, &mut reading.left_out);
        }
    }
}

fn is_answered_by(element: &Element) -> bool {
    Object::read(&element.message).is_some_and(|item| is_answer(&item))
}

fn is_answer(item: &Object<'_>) -> bool {
    let kind = item.text("type");
    item.text("role") == "assistant" || kind.ends_with("_call") || kind == "reasoning"
}

/// Returns whether a user's message was written by Codex: it is one element in angle brackets, or the project's rules.
fn is_context(item: &Object<'_>) -> bool {
    let texts = item.objects("content");
    let is_own = |text: &str| text.trim_start().starts_with('<') || text.starts_with("# AGENTS.md instructions");
    !texts.is_empty() && texts.iter().all(|block| is_own(&block.text("text")))
}

//! Rollouts of Codex: the items that it sent to OpenAI's Responses, and events.

use std::collections::HashSet;
use std::path::PathBuf;

use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use serde_json::value::RawValue;

use super::{Format, Reading, Source, side_chain};
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
        // A newer version may continue the file of an older one. It writes the first record just behind its first answer,
        // perhaps after an event for the same call.
        let begins_turn =
            |(_, line): &(usize, Object<'_>)| line.text("type") == "turn_context" || is_event(line, "task_started");
        let record = lines.iter().position(|(_, line)| line.text("type") == "token_usage_record");
        rollout.records = record.map(|record| {
            let turn = lines.iter().take(record).rposition(begins_turn).unwrap_or(0);
            lines.get(turn).map_or(0, |(number, _)| *number)
        });
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
        rollout.flush();
        reading.push(rollout.draft)
    }
}

fn is_event(line: &Object<'_>, kind: &str) -> bool {
    line.text("type") == "event_msg" && line.object("payload").is_some_and(|payload| payload.text("type") == kind)
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
    /// The line from which on each call has a line with its usage. Older versions only have the sums, in events.
    records: Option<usize>,
    /// The sums of the last event, which is repeated when only limits of the account have changed.
    sums: Option<&'a str>,
    /// Whether the newest call has its usage.
    is_counted: bool,
    /// Whether the usage of a call comes before its answer, as in some versions.
    is_early: bool,
    /// A usage whose answer has not come.
    early: Option<(Option<Millis>, RecordedUsage)>,
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
                self.is_early = false;
                if let Some(usage) = payload.object("usage") {
                    self.used(time, &usage);
                }
                reading.leave_out(number, Reason::NoMessage);
            }
            "event_msg" => {
                self.event(number, time, &payload, reading);
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
            self.draft.id = parent.map_or(id.clone(), |parent| side_chain(&parent, &id));
        }
        if meta.has("history_base") {
            // The messages that it continues are only in the file of the conversation from which it was forked.
            reading.leave_out(number, Reason::NoParent);
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
        // Metadata of Codex and of its own service.
        let written = item.write_without(&["internal_chat_message_metadata_passthrough", "metadata", "timestamp"]);
        self.draft.raw(number, time, written);
        if is_answer(item) {
            self.is_counted = false;
            if let Some((time, usage)) = self.early.take() {
                self.draft.used(true, time, usage);
            }
        }
    }

    fn compacted(&mut self, number: usize, time: Option<Millis>, payload: &Object<'a>, reading: &mut Reading<'_>) {
        self.flush();
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

    fn event(&mut self, number: usize, time: Option<Millis>, event: &Object<'a>, reading: &mut Reading<'_>) {
        match &*event.text("type") {
            "token_count" if self.records.is_none_or(|first| number < first) => {
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
        let (read, write) = (reported.tokens("cached_input_tokens"), reported.tokens("cache_write_input_tokens"));
        let (input, output) = (reported.tokens("input_tokens"), reported.tokens("output_tokens"));
        let usage = RecordedUsage::of_whole(input, read, write, output, self.model.clone());
        if self.is_early {
            self.flush();
            self.early = Some((time, usage));
            return;
        }
        // Results may have come before the usage.
        let answer = self.draft.elements.iter().rposition(is_answered_by);
        if answer.is_none() && self.records.is_none() && self.draft.aside.is_empty() {
            self.is_early = true;
            self.early = Some((time, usage));
            return;
        }
        self.draft.used_by(answer.filter(|_| !self.is_counted), time, usage);
        self.is_counted = true;
    }

    /// Adds a usage whose answer never came.
    fn flush(&mut self) {
        if let Some((time, usage)) = self.early.take() {
            self.draft.used(false, time, usage);
        }
    }

    /// Removes the last turns, which the person has undone.
    fn roll_back(&mut self, turns: u64, reading: &mut Reading<'_>) {
        self.flush();
        self.is_counted = true;
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

/// Returns whether a user's message was written by Codex: a text of it is one whole element, or the project's rules.
fn is_context(item: &Object<'_>) -> bool {
    let is_own = |text: &str| is_element(text.trim()) || text.starts_with("# AGENTS.md instructions");
    item.objects("content").iter().any(|block| is_own(&block.text("text")))
}

/// Returns whether a text is an element, such as `<environment_context>…</environment_context>`.
fn is_element(text: &str) -> bool {
    let name = text.strip_prefix('<').map(|rest| rest.split(|c: char| c == '>' || c.is_whitespace()).next());
    let name = name.flatten().filter(|name| name.contains('_') || *name == "skill");
    name.is_some_and(|name| text.strip_suffix('>').is_some_and(|rest| rest.ends_with(&format!("</{name}"))))
}

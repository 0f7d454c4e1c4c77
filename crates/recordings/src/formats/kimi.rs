//! Sessions of Kimi CLI, as messages, and of Kimi Code, as events.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{AssistantPart, ResultItem, UserPart};

use super::parts::{Block, blocks, call, media, result, words};
use super::{Format, Reading, Source};
use crate::draft::{Draft, Element};
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

pub(super) struct Kimi;

impl Format for Kimi {
    fn name(&self) -> &'static str {
        "Kimi CLI"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        vec![home.below("KIMI_SHARE_DIR", ".kimi", "sessions"), home.below("KIMI_CODE_HOME", ".kimi-code", "sessions")]
    }

    /// The first product writes the messages into one file and events into another. The second one has only events.
    fn is_log(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_new = path.components().any(|part| part.as_os_str() == "agents");
        name.ends_with(".jsonl") && (is_new || name != "wire.jsonl")
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        source.any(|line| {
            let (kind, role) = (line.text("type"), line.text("role"));
            let is_event = kind.starts_with("context.") || (kind == "metadata" && line.has("protocol_version"));
            is_event || matches!(&*role, "_checkpoint" | "_usage" | "_system_prompt")
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let lines: Vec<_> =
            source.values().iter().filter_map(|(line, value)| Some((*line, Object::read(value)?))).collect();
        let mut session = Session { draft: Draft::new(name(reading), Dialect::Anthropic), ..Session::default() };
        session.draft.project = project(reading);
        let undone = undone(&lines);
        for (line, object) in &lines {
            let is_seen = !undone.contains(line);
            let is_read = if object.has("role") {
                session.message(*line, None, object)
            } else {
                session.event(*line, object, is_seen)
            };
            match is_read {
                true if !is_seen => reading.leave_out(*line, Reason::OtherBranch),
                true => {}
                false => reading.leave_out(*line, Reason::NoMessage),
            }
        }
        session.close();
        reading.push(session.draft)
    }
}

/// Returns the name of the session: that of its folder, or of the one that has the folders of agents.
fn name(reading: &Reading<'_>) -> String {
    let parts: Vec<&str> = reading.folders();
    match parts.as_slice() {
        [.., session, "agents", "main"] => (*session).to_owned(),
        [.., session, "agents" | "subagents", agent] => format!("{session}/agent-{agent}"),
        [.., session] if matches!(reading.name, "context" | "wire") => (*session).to_owned(),
        _ => reading.name.to_owned(),
    }
}

fn project(reading: &Reading<'_>) -> Option<String> {
    let state = reading.beside("../../state.json")?;
    let state = serde_json::value::RawValue::from_string(state).ok()?;
    let state = Object::read(&state)?;
    state.string("cwd").or(state.string("workDir")).or_else(|| state.object("custom")?.string("cwd"))
}

/// Returns the lines of branches that the person has left. A branch begins behind a line of another one.
fn undone(lines: &[(usize, Object<'_>)]) -> HashSet<usize> {
    let mut branches: HashMap<String, HashSet<usize>> = HashMap::new();
    let mut current: (String, HashSet<usize>) = ("main".to_owned(), HashSet::new());
    for (line, object) in lines {
        let base = object.object("base").filter(|_| object.text("type") == "agent.switched");
        if let Some(base) = base {
            let last = base.tokens("line");
            let (name, own) = current;
            let of_base = if *base.text("branch") == name { Some(&own) } else { branches.get(&*base.text("branch")) };
            let kept = of_base.into_iter().flatten().copied().filter(|line| *line as u64 <= last).collect();
            branches.insert(name, own);
            current = (object.text("branch").into_owned(), kept);
        }
        current.1.insert(*line);
    }
    lines.iter().map(|(line, _)| *line).filter(|line| !current.1.contains(line)).collect()
}

#[derive(Default)]
struct Session {
    draft: Draft<'static>,
    /// The answer that is being written.
    said: Vec<AssistantPart>,
    results: Vec<UserPart>,
    /// The messages that came before all results were there.
    later: Vec<(usize, Option<Millis>, Vec<UserPart>)>,
    pending: usize,
    began: (usize, Option<Millis>),
    usage: Option<RecordedUsage>,
    model: Option<String>,
}

impl Session {
    /// Adds a message. Returns whether it is one.
    fn message(&mut self, line: usize, time: Option<Millis>, message: &Object<'_>) -> bool {
        let content = message.get("content").map(|content| blocks(content, picture)).unwrap_or_default();
        match &*message.text("role") {
            "user" => {
                let first = content.first().and_then(|block| match block {
                    Block::Text(text) => Some(text.trim_start_matches("<system>")),
                    Block::Image(_) => None,
                });
                if first.is_some_and(|text| text.starts_with("Previous context has been compacted")) {
                    self.draft.compactions.push(self.draft.elements.len());
                }
                let said: Vec<UserPart> = content.into_iter().map(Block::user).collect();
                if self.pending > 0 { self.later.push((line, time, said)) } else { self.draft.user(line, time, said) }
            }
            "assistant" => {
                let texts = content.into_iter().filter_map(|block| match block {
                    Block::Text(text) => Some(AssistantPart::Text(text)),
                    Block::Image(_) => None,
                });
                let calls = message.objects("tool_calls").into_iter().chain(message.objects("toolCalls"));
                let calls = calls.map(|of| {
                    let function = of.object("function");
                    let function = function.as_ref().unwrap_or(&of);
                    call(&of.text("id"), &function.text("name"), function.get("arguments"))
                });
                self.draft.assistant(line, time, texts.chain(calls).collect());
            }
            "tool" => {
                let failed = message.is("isError")
                    || matches!(content.first(), Some(Block::Text(text)) if text.starts_with("<system>ERROR"));
                let id = message.str("tool_call_id").unwrap_or(message.text("toolCallId"));
                self.draft.user(
                    line,
                    time,
                    vec![result(&id, content.into_iter().map(Block::result).collect(), failed)],
                );
            }
            _ => return false,
        }
        true
    }

    /// Adds an event of Kimi Code. Returns whether it is a part of the conversation.
    fn event(&mut self, line: usize, event: &Object<'_>, is_seen: bool) -> bool {
        let time = event.time("time");
        match &*event.text("type") {
            "context.append_message" if is_seen => {
                if self.pending == 0 {
                    self.close();
                }
                event.object("message").is_some_and(|message| self.message(line, time, &message))
            }
            "context.append_loop_event" => match event.object("event") {
                Some(step) if is_seen => self.step(line, time, &step),
                Some(step) => {
                    if let Some(usage) = step.object("usage").map(|reported| self.usage(&reported)) {
                        self.draft.used(false, time, usage);
                    }
                    true
                }
                None => false,
            },
            "context.append_message" => true,
            "context.apply_compaction" => {
                self.close();
                let summary = event.str("contextSummary").unwrap_or(event.text("summary"));
                if is_seen {
                    self.draft.summary(line, time, &summary);
                    let is_said = |element: &Element| {
                        let text = element.message.get();
                        text.starts_with("{\"role\":\"user\"") && !text.contains("\"tool_result\"")
                    };
                    let count = usize::try_from(event.tokens("keptUserMessageCount")).unwrap_or_default();
                    let said = self.draft.elements.iter().enumerate().rev().skip(1).filter(|(_, it)| is_said(it));
                    let said: Vec<usize> = said.take(count).map(|(at, _)| at).collect();
                    self.draft.kept(said);
                }
                true
            }
            "llm.request" => {
                self.model = event.string("model").or(self.model.take());
                false
            }
            // Each call of a step has its usage there. Others are for the session.
            "usage.record" if event.text("usageScope") == "session" => {
                if let Some(usage) = event.object("usage").map(|reported| self.usage(&reported)) {
                    self.draft.used(false, time, usage);
                }
                false
            }
            _ => false,
        }
    }

    /// Adds an event of a step, which is one answer of the model.
    fn step(&mut self, line: usize, time: Option<Millis>, event: &Object<'_>) -> bool {
        match &*event.text("type") {
            "step.begin" => {
                self.close();
                self.began = (line, time);
            }
            "content.part" => {
                let part = event.object("part").filter(|part| part.text("type") == "text");
                self.said.extend(part.and_then(|part| words(&part.text("text"))).map(AssistantPart::Text));
            }
            "tool.call" => {
                self.pending += 1;
                self.said.push(call(&event.text("toolCallId"), &event.text("name"), event.get("args")));
            }
            "tool.result" => {
                self.pending = self.pending.saturating_sub(1);
                let outcome = event.object("result");
                let output = outcome.as_ref().and_then(|outcome| outcome.get("output"));
                let mut items: Vec<ResultItem> = output
                    .map(|output| blocks(output, picture))
                    .unwrap_or_default()
                    .into_iter()
                    .map(Block::result)
                    .collect();
                let note = outcome.as_ref().and_then(|outcome| words(&outcome.text("note")));
                items.extend(note.map(ResultItem::Text));
                let failed = outcome.is_some_and(|outcome| outcome.is("isError"));
                self.results.push(result(&event.text("toolCallId"), items, failed));
            }
            "step.end" => {
                self.usage = event.object("usage").map(|reported| self.usage(&reported));
                if self.pending == 0 {
                    self.close();
                }
            }
            _ => return false,
        }
        true
    }

    /// Adds the answer and its results, and then what came meanwhile.
    fn close(&mut self) {
        let (line, time) = self.began;
        let before = self.draft.elements.len();
        self.draft.assistant(line, time, std::mem::take(&mut self.said));
        if let Some(usage) = self.usage.take() {
            self.draft.used(self.draft.elements.len() > before, time, usage);
        }
        self.draft.user(line, time, std::mem::take(&mut self.results));
        self.pending = 0;
        for (line, time, said) in std::mem::take(&mut self.later) {
            self.draft.user(line, time, said);
        }
    }

    fn usage(&self, reported: &Object<'_>) -> RecordedUsage {
        let mut usage = RecordedUsage::new(0);
        usage.input = reported.tokens("inputOther");
        (usage.cache_read, usage.cache_write) =
            (reported.tokens("inputCacheRead"), reported.tokens("inputCacheCreation"));
        usage.output = reported.tokens("output");
        usage.model.clone_from(&self.model);
        usage
    }
}

/// Reads a block that is a picture. Thinking and other blocks without text are none.
fn picture(block: &Object<'_>) -> Option<Block> {
    let url =
        ["image_url", "imageUrl"].into_iter().find_map(|key| block.object(key)).and_then(|image| image.str("url"))?;
    (url.starts_with("data:") || url.starts_with("http")).then(|| Block::Image(media(&url, None)))
}

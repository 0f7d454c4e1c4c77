//! Sessions of Kimi CLI, as messages, and of Kimi Code, as events.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use lookback_engine::transcript::Millis;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{AssistantPart, ResultItem, UserPart};

use super::parts::{Block, blocks, call, media, result, words};
use super::{Format, Reading, Source, side_chain};
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
        let seen = Branches::read(&lines).seen();
        // An undo that made a branch is there twice.
        session.undone = lines.iter().map(|(_, object)| object.tokens("legacyUndoLine")).filter(|at| *at > 0).collect();
        for (line, object) in &lines {
            let is_seen = seen.iter().any(|lines| lines.contains(line));
            let is_read = if object.has("role") {
                session.message(*line, None, object)
            } else {
                session.event(*line, object, is_seen, reading)
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
        [.., session, "agents" | "subagents", agent] => side_chain(session, agent),
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

/// The branches of a file. A branch begins behind a line of another one, and its lines follow each other.
struct Branches(Vec<Branch>);

struct Branch {
    name: String,
    lines: RangeInclusive<usize>,
    /// The branch that it continues, and the last line of it that it has.
    base: Option<(String, usize)>,
}

impl Branches {
    fn read(lines: &[(usize, Object<'_>)]) -> Branches {
        let mut branches = vec![Branch { name: "main".to_owned(), lines: 0..=0, base: None }];
        for (line, object) in lines {
            if let Some(base) = object.object("base").filter(|_| object.text("type") == "agent.switched") {
                let last = usize::try_from(base.tokens("line")).unwrap_or(usize::MAX);
                let base = Some((base.text("branch").into_owned(), last));
                branches.push(Branch { name: object.text("branch").into_owned(), lines: *line..=*line, base });
            } else if let Some(branch) = branches.last_mut() {
                branch.lines = *branch.lines.start()..=*line;
            }
        }
        Branches(branches)
    }

    /// Returns the lines of the newest branch, and of those that it continues.
    fn seen(&self) -> Vec<RangeInclusive<usize>> {
        let (mut seen, mut at, mut last) = (Vec::new(), self.0.len().checked_sub(1), usize::MAX);
        while let Some(branch) = at.and_then(|at| self.0.get(at)) {
            seen.push(*branch.lines.start()..=last.min(*branch.lines.end()));
            let before = self.0.get(..at.unwrap_or(0)).unwrap_or_default();
            at = branch.base.as_ref().and_then(|(name, _)| before.iter().rposition(|branch| branch.name == *name));
            last = branch.base.as_ref().map_or(last, |(_, base)| last.min(*base));
        }
        seen
    }
}

#[derive(Default)]
struct Session<'a> {
    draft: Draft<'a>,
    /// The elements that begin the turns of the person.
    turns: Vec<usize>,
    /// The lines that undo what a branch has left.
    undone: HashSet<u64>,
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

impl<'a> Session<'a> {
    /// Adds a message. Returns whether it is one.
    fn message(&mut self, line: usize, time: Option<Millis>, message: &Object<'a>) -> bool {
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
                let origin = message.object("origin").map(|origin| origin.text("kind").into_owned());
                if origin.is_none_or(|kind| matches!(&*kind, "user" | "skill_activation" | "plugin_command")) {
                    self.turns.push(self.draft.elements.len());
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
            "_system_prompt" => {
                self.draft.system = message.get("content");
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Adds an event of Kimi Code. Returns whether it is a part of the conversation.
    fn event(&mut self, line: usize, event: &Object<'a>, is_seen: bool, reading: &mut Reading<'_>) -> bool {
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
            "context.undo" if is_seen && !self.undone.contains(&(line as u64)) => {
                self.close();
                self.undo(event.tokens("count").max(1), reading);
                false
            }
            "config.update" | "profile.bind" => {
                self.draft.system = event.get("systemPrompt").or(self.draft.system);
                false
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

    /// Removes the last turns, which the person has undone. A summary is never undone.
    fn undo(&mut self, turns: u64, reading: &mut Reading<'_>) {
        let summary = self.draft.compactions.last().copied();
        for _ in 0..turns.min(self.turns.len() as u64) {
            let Some(at) = self.turns.pop_if(|at| Some(*at) > summary) else { break };
            self.draft.remove_from(at, &mut reading.left_out);
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

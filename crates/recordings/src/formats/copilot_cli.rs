//! Sessions of GitHub's Copilot CLI: events, those of sub-agents among them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use lookback_wire::dialect::Dialect;
use lookback_wire::message::{AssistantPart, Media, ResultItem, UserPart};

use super::parts::{call, media, reasoning, result, words};
use super::{Format, Reading, Source, side_chain};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::home::Home;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

pub(super) struct CopilotCli;

impl Format for CopilotCli {
    fn name(&self) -> &'static str {
        "Copilot CLI"
    }

    fn folders(&self, home: &Home) -> Vec<PathBuf> {
        ["session-state", "history-session-state"].map(|folder| home.below("COPILOT_HOME", ".copilot", folder)).into()
    }

    fn is_log(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".jsonl") || (name.starts_with("session_") && name.ends_with(".json"))
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        source.any(|event| {
            let kind = event.text("type");
            let is_event = kind.starts_with("session.") || kind.starts_with("assistant.") || kind == "user.message";
            (is_event && event.has_all(&["data", "id"])) || is_whole(event)
        })
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let mut session = Session::default();
        for (line, value) in source.values() {
            let Some(object) = Object::read(value) else { continue };
            // Later ones took such a session over as an event.
            let imported = object.object("data").and_then(|data| data.object("legacySession"));
            let object = imported.filter(|_| object.text("type") == "session.import_legacy").unwrap_or(object);
            if is_whole(&object) {
                // The first versions kept the messages of Chat Completions.
                let id = object.string("sessionId").unwrap_or_else(|| reading.name.to_owned());
                let mut draft = Draft::new(id, Dialect::OpenAiChat);
                for message in object.list("chatMessages").unwrap_or_default() {
                    draft.raw(*line, None, message.to_owned());
                }
                reading.push(draft)?;
                continue;
            }
            session.event(*line, &object, reading);
        }
        session.finish(reading)
    }
}

/// Returns whether an object is a whole session, as the first versions wrote it.
fn is_whole(object: &Object<'_>) -> bool {
    object.has_all(&["sessionId", "chatMessages"])
}

#[derive(Default)]
struct Session<'a> {
    id: Option<String>,
    project: Option<String>,
    /// The conversations, by the agent. The person's has no name.
    drafts: BTreeMap<String, Draft<'a>>,
    assets: HashMap<String, Media>,
    /// The calls that have a result, and those of the person, which the model does not see.
    own: HashSet<String>,
    /// The newest answer without a usage, by the agent.
    answers: HashMap<String, usize>,
    has_records: bool,
    /// The number of messages when a summary was begun, by the agent.
    began: HashMap<String, usize>,
}

impl<'a> Session<'a> {
    fn event(&mut self, line: usize, event: &Object<'a>, reading: &mut Reading<'_>) {
        let (time, Some(data)) = (event.time("timestamp"), event.object("data")) else { return };
        // Streamed pieces repeat what follows them whole.
        if event.is("ephemeral") && event.text("type") != "assistant.usage" {
            return reading.leave_out(line, Reason::NoMessage);
        }
        // Older versions name only the call that started the agent.
        let agent = event.str("agentId").or(data.str("parentToolCallId")).unwrap_or_default().into_owned();
        let draft = self.drafts.entry(agent.clone()).or_insert_with(|| Draft::new("", Dialect::Anthropic));
        let before = draft.elements.len();
        match &*event.text("type") {
            "session.start" | "session.resume" => {
                self.id = self.id.take().or_else(|| data.string("sessionId"));
                let context = data.object("context");
                self.project = self.project.take().or_else(|| context.and_then(|context| context.string("cwd")));
            }
            "session.binary_asset" => {
                if let (Some(id), Some(bytes)) = (data.string("assetId"), data.str("data")) {
                    self.assets.insert(id, media(&bytes, data.str("mimeType").as_deref()));
                }
            }
            "system.message" => draft.system = data.get("content"),
            "user.message" => {
                let text = data.str("transformedContent").or(data.str("content")).unwrap_or_default();
                let mut said: Vec<UserPart> = words(&text).map(UserPart::Text).into_iter().collect();
                said.extend(pictures(&data, "attachments", &self.assets).map(UserPart::Image));
                draft.user(line, time, said);
            }
            "system.notification" => {
                draft.user(line, time, words(&data.text("content")).map(UserPart::Text).into_iter().collect());
            }
            "assistant.message" => {
                draft.assistant(line, time, said(&data));
                if draft.elements.len() > before {
                    self.answers.insert(agent, before);
                }
                if let Some(model) = data.string("model") {
                    *draft.models.entry(model).or_default() += 1;
                }
            }
            "tool.user_requested" => self.own.extend(data.string("toolCallId")),
            // The first result of a call counts.
            "tool.execution_complete"
                if !data.is("isUserRequested") && self.own.insert(data.text("toolCallId").into_owned()) =>
            {
                let failure = data.object("error").map(|error| error.text("message").into_owned());
                let outcome = data.object("result");
                let text = failure.or_else(|| outcome.as_ref()?.string("content"));
                let mut items: Vec<ResultItem> =
                    text.and_then(|text| words(&text)).map(ResultItem::Text).into_iter().collect();
                for list in ["contents", "binaryResultsForLlm"] {
                    let pictures = outcome.iter().flat_map(|outcome| pictures(outcome, list, &self.assets));
                    items.extend(pictures.map(ResultItem::Image));
                }
                let failed = data.get("success").is_some_and(|success| success.get() == "false");
                draft.user(line, time, vec![result(&data.text("toolCallId"), items, failed)]);
            }
            "session.usage_record" | "assistant.usage" => {
                let reported = data.object("usage");
                let usage = usage(reported.as_ref().unwrap_or(&data));
                self.has_records = true;
                // The usage of a call follows its answer, perhaps behind results.
                let answer = self.answers.remove(&agent);
                draft.used_by(answer, time, usage);
            }
            "session.compaction_start" => {
                self.began.insert(agent, draft.elements.len());
            }
            "session.compaction_complete" => {
                if let Some(reported) = data.object("compactionTokensUsed") {
                    draft.used(false, time, usage(&reported));
                }
                if data.get("success").is_none_or(|success| success.get() == "true") {
                    draft.summary(line, time, &data.text("summaryContent"));
                    // What came while the summary was made stands behind it.
                    let began = self.began.get(&agent).copied();
                    draft.kept(began.unwrap_or(usize::MAX)..draft.elements.len());
                }
            }
            "session.shutdown" if !self.has_records => {
                for (model, metrics) in data.object("modelMetrics").iter().flat_map(Object::members) {
                    let metrics = Object::read(metrics).and_then(|metrics| metrics.object("usage"));
                    let Some(mut usage) = metrics.map(|metrics| usage(&metrics)) else { continue };
                    usage.model = Some(model);
                    draft.used(false, time, usage);
                }
            }
            _ => {}
        }
        if draft.elements.len() == before {
            reading.leave_out(line, Reason::NoMessage);
        }
    }

    fn finish(self, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        let id = self.id.unwrap_or_else(|| reading.name.to_owned());
        for (agent, mut draft) in self.drafts {
            draft.id = if agent.is_empty() { id.clone() } else { side_chain(&id, &agent) };
            draft.project.clone_from(&self.project);
            reading.push(draft)?;
        }
        Ok(())
    }
}

/// Returns the pictures in a list: as bytes, or by the identifier of an earlier event.
fn pictures<'o>(
    outer: &Object<'o>,
    list: &str,
    assets: &'o HashMap<String, Media>,
) -> impl Iterator<Item = Media> + use<'o> {
    let picture = |item: Object<'_>| {
        let known = item.str("assetId").and_then(|id| assets.get(&*id).cloned());
        let is_picture = item.text("type") == "image";
        known.or_else(|| {
            is_picture.then(|| item.str("data").map(|data| media(&data, item.str("mimeType").as_deref())))?
        })
    };
    outer.objects(list).into_iter().filter_map(picture)
}

fn said(data: &Object<'_>) -> Vec<AssistantPart> {
    let blocks = data.object("reasoningBlocks").map(|blocks| blocks.objects("blocks")).unwrap_or_default();
    let thinking = |block: &Object<'_>| reasoning(&block.text("thinking"), block.str("signature").as_deref());
    let mut said: Vec<AssistantPart> = blocks.iter().filter_map(thinking).collect();
    said.extend(words(&data.text("content")).map(AssistantPart::Text));
    let requests = data.objects("toolRequests");
    said.extend(requests.iter().map(|it| call(&it.text("toolCallId"), &it.text("name"), it.get("arguments"))));
    said
}

fn usage(reported: &Object<'_>) -> RecordedUsage {
    let (read, write) = (reported.tokens("cacheReadTokens"), reported.tokens("cacheWriteTokens"));
    let (input, output) = (reported.tokens("inputTokens"), reported.tokens("outputTokens"));
    RecordedUsage::of_whole(input, read, write, output, reported.string("model"))
}

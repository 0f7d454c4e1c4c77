//! Messages of the Vercel AI SDK, of a page or of a model, as its versions 3 to 7 write them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lookback_content::json;
use lookback_wire::dialect::Dialect;
use lookback_wire::message::{AssistantPart, Media, MediaSource, ResultItem, UserPart};

use super::parts::{self, call, media, result, text, words};
use super::{Conversation, Format, Reading, Source};
use crate::draft::Draft;
use crate::error::RecordingError;
use crate::left_out::Reason;
use crate::object::Object;
use crate::recording::RecordedUsage;

pub(super) struct VercelAi;

impl Format for VercelAi {
    fn name(&self) -> &'static str {
        "Vercel AI SDK"
    }

    fn recognize(&self, source: &Source<'_>) -> bool {
        source.any_message(is_own)
    }

    fn read(&self, source: &Source<'_>, reading: &mut Reading<'_>) -> Result<(), RecordingError> {
        for Conversation { id, messages, beside } in source.conversations(reading.name) {
            let mut draft = Draft::new(id, Dialect::Anthropic);
            if let Some(system) = beside.as_ref().and_then(|beside| beside.get("system")) {
                draft.system = Some(system);
            }
            for (line, message) in messages {
                let Some(message) = Object::read(message) else { continue };
                if !add(&mut draft, line, &message) {
                    reading.leave_out(line, Reason::NoMessage);
                }
            }
            reading.push(draft)?;
        }
        Ok(())
    }
}

/// Returns whether a message has a part that no provider's messages have.
fn is_own(message: &Object<'_>) -> bool {
    if !message.has("role") {
        return false;
    }
    let is_typed = |part: &Object<'_>| part.has("type");
    let is_block = |part: &Object<'_>| {
        let kind = part.text("type");
        let is_picture = matches!(&*kind, "image" | "file") && part.has_any(&["image", "mediaType", "mimeType"]);
        is_picture || matches!(&*kind, "tool-call" | "tool-result" | "redacted-reasoning" | "tool-approval-request")
    };
    message.has("toolInvocations")
        || message.objects("parts").iter().any(is_typed)
        || message.objects("content").iter().any(is_block)
}

/// Adds a message. Returns whether the model saw something of it.
fn add(draft: &mut Draft<'_>, line: usize, message: &Object<'_>) -> bool {
    let before = draft.elements.len();
    let time = ["createdAt", "timestamp"].into_iter().find_map(|key| message.time(key));
    let metadata = message.object("metadata");
    let time = time.or_else(|| metadata.as_ref()?.time("createdAt"));
    let is_page = message.has("parts") || message.has("toolInvocations");
    let parts = if message.has("parts") { message.objects("parts") } else { message.objects("content") };
    match &*message.text("role") {
        "system" => {
            let own = parts.iter().map(|part| part.text("text").into_owned()).collect::<String>();
            let own = if own.is_empty() { message.text("content").into_owned() } else { own };
            draft.system_message(line, time, &own);
        }
        "user" => {
            let mut said: Vec<UserPart> = parts.iter().filter_map(user).collect();
            if said.is_empty() {
                said.extend(words(&message.text("content")).map(UserPart::Text));
            }
            said.extend(
                message
                    .objects("experimental_attachments")
                    .iter()
                    .filter_map(|file| picture(file).map(UserPart::Image)),
            );
            draft.user(line, time, said);
        }
        "tool" => draft.user(line, time, parts.iter().filter_map(tool_result).collect()),
        "assistant" => {
            let mut steps = Steps::default();
            for part in &parts {
                steps.part(part, is_page);
            }
            if !message.has("parts") {
                for invocation in message.objects("toolInvocations") {
                    steps.invocation(&invocation);
                }
                // The text is that of the last step.
                if let Some(text) = words(&message.text("content")) {
                    steps.close();
                    steps.said.push(AssistantPart::Text(text));
                }
            }
            steps.close();
            let count = steps.closed.len();
            for (index, (said, results)) in steps.closed.into_iter().enumerate() {
                let before = draft.elements.len();
                draft.assistant(line, time, said);
                // The usage of a page's message is the sum of its steps.
                if let Some(usage) = metadata.as_ref().and_then(usage).filter(|_| index + 1 == count) {
                    draft.used(count == 1 && draft.elements.len() > before, time, usage);
                }
                draft.user(line, time, results);
            }
        }
        _ => {}
    }
    draft.elements.len() > before
}

/// The calls of the model in one message of a page, each with the results of its tools.
#[derive(Default)]
struct Steps {
    said: Vec<AssistantPart>,
    results: Vec<UserPart>,
    step: u64,
    closed: Vec<(Vec<AssistantPart>, Vec<UserPart>)>,
}

impl Steps {
    fn close(&mut self) {
        if !self.said.is_empty() || !self.results.is_empty() {
            self.closed.push((std::mem::take(&mut self.said), std::mem::take(&mut self.results)));
        }
    }

    fn part(&mut self, part: &Object<'_>, is_page: bool) {
        let kind = part.text("type");
        match &*kind {
            "step-start" => self.close(),
            "text" => {
                // Version 4 marks no steps: a text behind a call begins one.
                if is_page && !self.results.is_empty() {
                    self.close();
                }
                self.said.extend(words(&part.text("text")).map(AssistantPart::Text));
            }
            "reasoning" => self.said.extend(reasoning(part)),
            "tool-invocation" => {
                if let Some(invocation) = part.object("toolInvocation") {
                    self.invocation(&invocation);
                }
            }
            "tool-call" => {
                let input = part.get("input").or(part.get("args"));
                self.said.push(call(&part.text("toolCallId"), &part.text("toolName"), input));
            }
            "tool-result" => self.results.extend(tool_result(part)),
            "dynamic-tool" => self.tool(&part.text("toolName"), part),
            _ => {
                if let Some(name) = kind.strip_prefix("tool-").filter(|_| part.has_all(&["toolCallId", "state"])) {
                    self.tool(name, part);
                }
            }
        }
    }

    /// Adds a call and its result, as versions 5 to 7 have them.
    fn tool(&mut self, name: &str, part: &Object<'_>) {
        let (id, state) = (part.text("toolCallId"), part.text("state"));
        if state == "input-streaming" {
            return;
        }
        self.said.push(call(&id, name, part.get("input").or(part.get("rawInput"))));
        match &*state {
            "output-available" => {
                let output = part.get("output").map(|output| words(&text(output))).unwrap_or_default();
                self.results.push(result(&id, output.map(ResultItem::Text).into_iter().collect(), false));
            }
            "output-error" => {
                let error = words(&part.text("errorText")).map(ResultItem::Text);
                self.results.push(result(&id, error.into_iter().collect(), true));
            }
            "output-denied" => {
                let reason = part.object("approval").and_then(|approval| words(&approval.text("reason")));
                let reason = reason.unwrap_or_else(|| "Tool call execution denied.".to_owned());
                self.results.push(result(&id, vec![ResultItem::Text(reason)], true));
            }
            _ => {}
        }
    }

    /// Adds a call and its result, as version 4 has them.
    fn invocation(&mut self, invocation: &Object<'_>) {
        let (id, state) = (invocation.text("toolCallId"), invocation.text("state"));
        let step = invocation.tokens("step");
        if step != self.step {
            self.close();
            self.step = step;
        }
        if state == "partial-call" {
            return;
        }
        self.said.push(call(&id, &invocation.text("toolName"), invocation.get("args")));
        if state == "result" {
            let items = invocation.get("result").and_then(|value| words(&text(value))).map(ResultItem::Text);
            self.results.push(result(&id, items.into_iter().collect(), false));
        }
    }
}

fn reasoning(part: &Object<'_>) -> Option<AssistantPart> {
    let own = [part.text("text"), part.text("reasoning")].into_iter().find(|text| !text.is_empty())?;
    let of = |key: &str| part.object(key)?.object("anthropic")?.string("signature");
    let signature = part.string("signature").or_else(|| of("providerMetadata")).or_else(|| of("providerOptions"));
    let signature = signature.or_else(|| part.first("details")?.string("signature"));
    parts::reasoning(&own, signature.as_deref())
}

fn user(part: &Object<'_>) -> Option<UserPart> {
    match &*part.text("type") {
        "text" => words(&part.text("text")).map(UserPart::Text),
        "image" | "file" => picture(part).map(UserPart::Image),
        "tool-result" => tool_result(part),
        _ => None,
    }
}

/// Returns a picture: at a URL, in base64, or as the bytes that JavaScript writes as an object or a list.
fn picture(part: &Object<'_>) -> Option<Media> {
    let mime = ["mediaType", "mimeType", "contentType"].into_iter().find_map(|key| part.str(key));
    if mime.as_ref().is_some_and(|mime| !mime.starts_with("image")) {
        return None;
    }
    let value = ["url", "image", "data"].into_iter().find_map(|key| part.get(key))?;
    if let Some(data) = json::text(value) {
        return Some(media(&data, mime.as_deref().or(Some("image/png"))));
    }
    let object = Object::read(value)?;
    if let Some(inner) = ["url", "data"].into_iter().find_map(|key| object.str(key)) {
        return Some(media(&inner, mime.as_deref().or(Some("image/png"))));
    }
    let bytes: Vec<u8> = match object.list("data") {
        Some(list) => list.into_iter().filter_map(|byte| byte.get().parse().ok()).collect(),
        None => object.members().into_iter().map_while(|(_, byte)| byte.get().parse().ok()).collect(),
    };
    let data = STANDARD.encode(&bytes);
    (!bytes.is_empty()).then(|| Media::new(MediaSource::Base64(data)).with_mime(mime.as_deref().unwrap_or("image/png")))
}

fn tool_result(part: &Object<'_>) -> Option<UserPart> {
    if part.text("type") != "tool-result" {
        return None;
    }
    let id = part.text("toolCallId");
    let Some(output) = part.object("output").filter(|output| output.has("type")) else {
        let value = part.get("result").or(part.get("output"));
        let items = value.and_then(|value| words(&text(value))).map(ResultItem::Text);
        return Some(result(&id, items.into_iter().collect(), part.is("isError")));
    };
    let kind = output.text("type");
    let items = match &*kind {
        "content" => output.objects("value").iter().filter_map(item).collect(),
        "execution-denied" => {
            let reason = words(&output.text("reason")).unwrap_or_else(|| "Tool call execution denied.".to_owned());
            vec![ResultItem::Text(reason)]
        }
        _ => output.get("value").and_then(|value| words(&text(value))).map(ResultItem::Text).into_iter().collect(),
    };
    Some(result(&id, items, kind.starts_with("error") || kind == "execution-denied"))
}

fn item(item: &Object<'_>) -> Option<ResultItem> {
    words(&item.text("text")).map(ResultItem::Text).or_else(|| picture(item).map(ResultItem::Image))
}

/// Reads the usage that many applications put into a message's metadata.
fn usage(metadata: &Object<'_>) -> Option<RecordedUsage> {
    let reported = metadata.object("totalUsage").or_else(|| metadata.object("usage"))?;
    let details = reported.object("inputTokenDetails");
    let detail = |key: &str| details.as_ref().map_or(0, |details| details.tokens(key));
    let (read, write) =
        (detail("cacheReadTokens").max(reported.tokens("cachedInputTokens")), detail("cacheWriteTokens"));
    let input = reported.tokens("inputTokens").max(reported.tokens("promptTokens"));
    let output = reported.tokens("outputTokens").max(reported.tokens("completionTokens"));
    let model = metadata.string("model").or_else(|| metadata.string("modelId"));
    let usage = RecordedUsage::of_whole(input, read, write, output, model);
    (usage.sent() > 0).then_some(usage)
}

//! Messages as passages: the text that a summarizer reads.

use std::collections::HashMap;

use lookback_wire::message::{Media, MediaSource, Message, PartRef, ResultItem, Role, ToolResult};

use super::{Passage, PassageRole};

/// Converts messages to passages, numbered from 1.
///
/// Texts stay unchanged. Tool calls are shown with their arguments, results with the name of their tool, and pictures
/// and files with their type and size. Reasoning is left out, as providers do in finished turns.
///
/// ```
/// use lookback_wire::message::{Message, ToolCall};
/// use lookback_summarize::passages;
///
/// let call = Message::assistant_with_calls("", [ToolCall::new("c1", "read", r#"{"path":"notes.txt"}"#)]);
/// let lines = passages(&[call, Message::tool_result("c1", "buy milk")]).iter().map(|p| p.to_string()).collect::<Vec<_>>();
/// assert_eq!(lines, [r#"[1] assistant: [call read {"path":"notes.txt"}]"#, "[2] tool: [result of read] buy milk"]);
/// ```
pub fn passages<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<Passage> {
    let mut tools = HashMap::new();
    (1..).zip(messages).map(|(index, message)| passage(index, message, &mut tools)).collect()
}

/// Converts one message. `tools` maps the identifiers of the calls so far to the names of their tools.
fn passage<'a>(index: u64, message: &'a Message, tools: &mut HashMap<&'a str, &'a str>) -> Passage {
    let mut media = 0;
    let mut parts: Vec<String> = Vec::new();
    for part in message.parts() {
        match part {
            PartRef::Text(text) => parts.push(text.to_owned()),
            PartRef::Image(picture) => parts.push(shown("image", picture, &mut media)),
            PartRef::Document(file) => parts.push(shown("file", file, &mut media)),
            PartRef::Reasoning(_) => {}
            PartRef::ToolCall(call) => {
                tools.insert(&call.id, &call.name);
                parts.push(format!("[call {} {}]", call.name, call.arguments));
            }
            PartRef::ToolResult(answer) => {
                let tool = tools.get(answer.call_id.as_str()).copied();
                parts.push(result(answer, tool, &mut media));
            }
            PartRef::Opaque(opaque) if opaque.is_cache_marker() => {}
            PartRef::Opaque(opaque) => parts.push(unknown(&opaque.kind, opaque.raw.get().len())),
        }
    }
    let role = match message.role() {
        Role::System => PassageRole::System,
        Role::User if message.opens_turn() => PassageRole::User,
        Role::User => PassageRole::Tool,
        Role::Assistant => PassageRole::Assistant,
    };
    parts.retain(|part| !part.is_empty());
    Passage::new(role, parts.join("\n")).index(index).media(media)
}

fn result(result: &ToolResult, tool: Option<&str>, media: &mut u64) -> String {
    let kind = if result.error { "error" } else { "result" };
    let head = tool.map_or_else(|| format!("[{kind}]"), |tool| format!("[{kind} of {tool}]"));
    let item = |item: &ResultItem| match item {
        ResultItem::Text(text) | ResultItem::Json(text) => text.clone(),
        ResultItem::Image(picture) => shown("image", picture, media),
        ResultItem::Document(file) => shown("file", file, media),
        ResultItem::Opaque(opaque) => unknown(&opaque.kind, opaque.raw.get().len()),
    };
    std::iter::once(head).chain(result.content.iter().map(item)).collect::<Vec<_>>().join(" ")
}

/// Describes a picture or file: `[image image/png 3B]`. The text of a file in plain text follows.
fn shown(kind: &str, media: &Media, count: &mut u64) -> String {
    let mut words = vec![kind.to_owned()];
    words.extend(media.name.clone());
    words.extend(media.mime.clone());
    let mut text = "";
    match &media.source {
        MediaSource::Base64(data) => {
            *count += 1;
            let data = data.trim_end().trim_end_matches('=');
            words.push(format!("{}B", data.len() * 3 / 4));
        }
        MediaSource::Text(content) => {
            words.push(format!("{}B", content.len()));
            text = content;
        }
        MediaSource::Url(url) => {
            *count += 1;
            // A `data:` address contains the data itself, which is useless to a reader.
            words.extend((!url.starts_with("data:")).then(|| url.clone()));
        }
        MediaSource::Id(id) => {
            *count += 1;
            words.push(id.clone());
        }
    }
    let line = format!("[{}]", words.join(" "));
    if text.is_empty() { line } else { format!("{line}\n{text}") }
}

/// Describes a part that Lookback does not know by its kind and size, because its contents may be anything.
fn unknown(kind: &str, bytes: usize) -> String {
    format!("[{} {bytes}B]", if kind.is_empty() { "unknown" } else { kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookback_wire::dialect::Dialect;
    use lookback_wire::message::{Content, UserPart};

    fn text(message: &Message) -> String {
        passages([message]).remove(0).to_string()
    }

    #[test]
    fn pictures_are_named_and_never_spelled_out() {
        let picture = Media::new(MediaSource::Base64("AQID".into())).with_mime("image/png");
        let message = Message::new(Content::User(vec![UserPart::Text("Look:".into()), UserPart::Image(picture)]));
        assert_eq!(text(&message), "[1] user: Look:\n[image image/png 3B]");
        assert_eq!(passages([&message])[0].media, 1);
        let data = Media::new(MediaSource::Url("data:;base64,AQID".into()));
        assert_eq!(text(&Message::new(Content::User(vec![UserPart::Image(data)]))), "[1] user: [image]");
        let file = Media::new(MediaSource::Text("milk".into())).with_mime("text/plain").with_name("a.txt");
        let file = Message::new(Content::User(vec![UserPart::Document(file)]));
        assert_eq!(text(&file), "[1] user: [file a.txt text/plain 4B]\nmilk");
        assert_eq!(passages([&file])[0].media, 0);
    }

    #[test]
    fn what_is_unknown_is_named_by_its_kind_and_size() {
        let json = r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AQIDBA=="}}]}"#;
        let message = Dialect::OpenAiChat.decode(json).unwrap();
        assert!(!text(&message).contains("AQID"), "{}", text(&message));
        assert!(text(&message).starts_with("[1] user: [input_audio "));
    }

    #[test]
    fn failures_and_words_beside_results_are_told_apart() {
        let failed = ToolResult::new("c9", "no such file").with_error(true);
        let only = Message::new(Content::User(vec![UserPart::ToolResult(failed.clone())]));
        assert_eq!(text(&only), "[1] tool: [error] no such file");
        let both = Message::new(Content::User(vec![UserPart::ToolResult(failed), UserPart::Text("Try b.txt".into())]));
        assert_eq!(text(&both), "[1] user: [error] no such file\nTry b.txt");
    }
}

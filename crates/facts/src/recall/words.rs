//! Writes a message as text: its speaker, and all its readable parts.

use lookback_engine::transcript::{Arrival, Origin};
use lookback_wire::edit::Cut;
use lookback_wire::message::{Media, Message, PartRef, ResultItem, Role};

/// Returns whether a message consists of tool results only.
pub(super) fn is_all_results(message: &Message) -> bool {
    let mut parts = message.parts().filter(|part| !part.is_cache_marker()).peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, PartRef::ToolResult(_)))
}

pub(super) fn who(arrival: &Arrival, tools: &[Option<String>]) -> String {
    let message = &arrival.message;
    if is_all_results(message) {
        let names: Vec<&str> = tools.iter().flatten().map(String::as_str).collect();
        let s = if tools.len() == 1 { "" } else { "s" };
        return if names.is_empty() {
            format!("tool result{s}")
        } else {
            format!("tool result{s} of {}", names.join(", "))
        };
    }
    let who = match (arrival.origin, message.role()) {
        (Origin::Lookback, _) => "lookback",
        (_, Role::System) => "system",
        (_, Role::User) => "user",
        (_, Role::Assistant) => "assistant",
    };
    who.to_owned()
}

/// Returns all readable parts of a message, except for reasoning.
pub(super) fn written(message: &Message, tools: &[Option<String>]) -> String {
    let alone = is_all_results(message) && tools.len() == 1;
    let mut tools = tools.iter();
    let block = |part: PartRef<'_>| match part {
        PartRef::Text(text) => Some(text.to_owned()),
        PartRef::Image(media) => Some(shown(media, "image")),
        PartRef::Document(media) => Some(shown(media, "document")),
        PartRef::ToolCall(call) => Some(format!("[calls {}] {}", short(&call.name), call.arguments)),
        PartRef::ToolResult(result) => {
            let tool = tools.next().and_then(Option::as_deref).unwrap_or("a tool");
            let of = if alone { String::new() } else { format!("[result of {tool}]\n") };
            let error = if result.error { "[error]\n" } else { "" };
            Some(format!("{of}{error}{}", result.content.iter().map(item).collect::<Vec<_>>().join("\n")))
        }
        PartRef::Opaque(opaque) if !opaque.is_cache_marker() => Some(format!("[{}]", short(&opaque.kind))),
        PartRef::Reasoning(_) | PartRef::Opaque(_) => None,
    };
    message.parts().filter_map(block).collect::<Vec<_>>().join("\n")
}

fn item(item: &ResultItem) -> String {
    match item {
        ResultItem::Text(text) | ResultItem::Json(text) => text.clone(),
        ResultItem::Image(media) => shown(media, "image"),
        ResultItem::Document(media) => shown(media, "document"),
        ResultItem::Opaque(opaque) => format!("[{}]", short(&opaque.kind)),
    }
}

/// Returns a placeholder for a picture or file, followed by its text if it is a text file.
fn shown(media: &Media, kind: &'static str) -> String {
    let placeholder = Cut::placeholder(media, kind).marker;
    match media.source.text() {
        Some(text) => format!("{placeholder}\n{text}"),
        None => placeholder,
    }
}

/// Shortens a name that a client or a model chose, so that it fits a line.
pub(super) fn short(name: &str) -> String {
    const SHOWN: usize = 64;
    name.chars().take(SHOWN).collect()
}

//! The contents of a message as HTML: texts, calls, results and pictures. All contents are escaped.

use std::borrow::Cow;

use lookback_wire::edit;
use lookback_wire::message::Message;
use lookback_wire::message::{Media, MediaSource, PartRef, ResultItem, ToolResult};
use maud::{Markup, html};

use crate::pairs::Pairs;
use crate::text::{indented, visible};

/// The largest picture that is shown, in characters of base64: about 1.5 MB.
const LARGEST_PICTURE: usize = 2 << 20;
/// The formats of pictures that are shown.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The most bytes of one part's text that are shown.
const LONGEST: usize = 8 << 20;

/// Renders a whole message.
pub(crate) fn whole(message: &Message, pairs: &Pairs) -> Markup {
    html! {
        @for part in message.parts() { (rendered(part, pairs)) }
    }
}

/// Renders a message as it is sent under these edits.
pub(crate) fn as_sent(message: &Message, edits: &[edit::Edit]) -> Markup {
    let text = edit::shown_text(message, edits);
    html! { pre { (block(&text)) } }
}

fn rendered(part: PartRef<'_>, pairs: &Pairs) -> Markup {
    match part {
        PartRef::Text(text) => html! { pre { (block(text)) } },
        PartRef::Reasoning(reasoning) => html! {
            p.label { "reasoning" @if reasoning.signature.is_some() { ", signed" } }
            @if !reasoning.text.is_empty() { pre.reasoning { (block(&reasoning.text)) } }
        },
        PartRef::ToolCall(call) => html! {
            p.label {
                "calls " code { (visible(&call.name)) }
                @if let Some(row) = pairs.result(&call.id) { " " a href=(format!("#r{row}")) { "to its result" } }
            }
            pre.json { (block(&indented(&call.arguments))) }
        },
        PartRef::ToolResult(result) => tool_result(result, pairs),
        PartRef::Image(media) => picture(media),
        PartRef::Document(media) => document(media),
        PartRef::Opaque(opaque) => html! {
            p.label { "a part of the kind " code { (visible(&opaque.kind)) } }
            pre.json { (block(&indented(opaque.raw.get()))) }
        },
    }
}

fn tool_result(result: &ToolResult, pairs: &Pairs) -> Markup {
    html! {
        p.label {
            "result"
            @if let Some((name, row)) = pairs.call(&result.call_id) {
                " of " code { (visible(name)) } " " a href=(format!("#r{row}")) { "to its call" }
            }
            @if result.error { " " strong.bad { "failed" } }
        }
        @for item in &result.content {
            @match item {
                ResultItem::Text(text) => pre { (block(text)) },
                ResultItem::Json(json) => pre.json { (block(&indented(json))) },
                ResultItem::Image(media) => (picture(media)),
                ResultItem::Document(media) => (document(media)),
                ResultItem::Opaque(opaque) => pre.json { (block(&indented(opaque.raw.get()))) },
            }
        }
    }
}

/// Renders a picture if its bytes are in the log. Otherwise describes it. Pages load nothing from elsewhere.
fn picture(media: &Media) -> Markup {
    let mime = media.mime.as_deref().unwrap_or_default();
    let is_base64 = |data: &str| data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    match &media.source {
        MediaSource::Base64(data) if PICTURES.contains(&mime) && data.len() <= LARGEST_PICTURE && is_base64(data) => {
            html! { img src=(format!("data:{mime};base64,{data}")) alt="A picture of the conversation." loading="lazy"; }
        }
        _ => described("picture", media),
    }
}

fn document(media: &Media) -> Markup {
    match &media.source {
        MediaSource::Text(text) => html! { (described("file", media)) pre { (block(text)) } },
        _ => described("file", media),
    }
}

/// Describes a picture or file: its type, its name and its size or location.
fn described(what: &str, media: &Media) -> Markup {
    let place: Cow<'_, str> = match &media.source {
        MediaSource::Base64(data) => format!("{} bytes", data.trim_end_matches('=').len() * 3 / 4).into(),
        MediaSource::Text(text) => format!("{} characters", text.chars().count()).into(),
        MediaSource::Url(url) => url.chars().take(200).collect::<String>().into(),
        MediaSource::Id(id) => id.chars().take(200).collect::<String>().into(),
    };
    html! {
        p.label {
            "a " (what)
            @if let Some(mime) = &media.mime { " " code { (visible(mime)) } }
            @if let Some(name) = &media.name { " " code { (visible(name)) } }
            ", " (visible(&place))
        }
    }
}

/// Returns a text with invisible characters escaped, cut where it is too long for browsers.
fn block(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return visible(text);
    }
    let end = text.floor_char_boundary(LONGEST);
    let shown = visible(text.get(..end).unwrap_or_default());
    Cow::Owned(format!("{shown}\n[{} more bytes]", text.len() - end))
}

//! A range of a session's messages as text of limited length, for people and models.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::Arc;

use lookback_engine::Settings;
use lookback_engine::transcript::Position;
use lookback_session::HistoryEntry;
use lookback_session::Session;
use lookback_session::adapter;
use lookback_store::LogName;
use lookback_store::Store;
use lookback_tokens::Estimate;
use lookback_tokens::cut::Truncation;
use lookback_wire::message::Role;
use lookback_wire::message::{Media, Message, PartRef, ResultItem, ToolResult};

use super::ReadError;
use super::uri::Place;

/// The maximum number of messages in one text.
const MESSAGES: usize = 40;
/// The maximum number of characters in one text. Each message gets an equal share, and a longer one keeps its head and
/// tail.
const CHARACTERS: u64 = 100_000;
/// Returns the newest messages of a session, or of a range of its log. `None` if there is no such session.
pub(super) async fn read(
    store: &Arc<dyn Store>,
    name: &LogName,
    span: Option<&RangeInclusive<Position>>,
) -> Result<Option<String>, ReadError> {
    if store.head(name, None).await?.is_none() {
        return Ok(None);
    }
    let mut session = Session::open(store.clone(), name.as_str(), Settings::default()).await?;
    let positions = span.map_or(0..u64::MAX, |span| *span.start()..span.end().saturating_add(1));
    // One more message shows whether there are older ones.
    let mut newest = adapter::newest(&mut session, positions, MESSAGES + 1).await?;
    let older = newest.len() > MESSAGES;
    newest.drain(..newest.len().saturating_sub(MESSAGES));

    let all = session.stats().messages;
    let mut text = match span {
        None => format!("Session {name}: {all} messages"),
        Some(span) => format!("Session {name}: positions {} to {} of {all} messages", span.start(), span.end()),
    };
    match newest.first() {
        Some(first) if older => {
            let from = span.map_or(0, |span| *span.start());
            let before = Place::Messages(name.clone(), from..=first.position.saturating_sub(1));
            let _ = write!(text, ", of which the newest {} follow; the ones before them: {before}", newest.len());
        }
        Some(_) => {}
        None => text.push_str(", none here"),
    }
    text.push('\n');
    let room = CHARACTERS / newest.len().max(1) as u64;
    for HistoryEntry { position, arrival, .. } in &newest {
        let _ =
            write!(text, "\n[{position}] {}\n{}\n", speaker(&arrival.message), short(&said(&arrival.message), room));
    }
    Ok(Some(text))
}

fn speaker(message: &Message) -> &'static str {
    match message.role() {
        Role::System => "system",
        Role::Assistant => "assistant",
        Role::User if message.opens_turn() => "user",
        Role::User => "tool",
    }
}

/// Returns the parts of a message as text.
fn said(message: &Message) -> String {
    let part = |part: PartRef<'_>| match part {
        PartRef::Text(text) => text.to_owned(),
        PartRef::Reasoning(reasoning) => format!("(reasoning) {}", reasoning.text),
        PartRef::ToolCall(call) => format!("calls {} [{}] {}", call.name, call.id, call.arguments),
        PartRef::ToolResult(result) => answered(result),
        PartRef::Image(media) => attached("picture", media),
        PartRef::Document(media) => attached("file", media),
        PartRef::Opaque(opaque) => format!("({})", opaque.kind),
    };
    message.parts().filter(|part| !part.is_cache_marker()).map(part).collect::<Vec<_>>().join("\n")
}

fn answered(result: &ToolResult) -> String {
    let item = |item: &ResultItem| match item {
        ResultItem::Text(text) | ResultItem::Json(text) => text.clone(),
        ResultItem::Image(media) => attached("picture", media),
        ResultItem::Document(media) => attached("file", media),
        ResultItem::Opaque(opaque) => format!("({})", opaque.kind),
    };
    let verb = if result.error { "fails" } else { "answers" };
    let items: Vec<_> = result.content.iter().map(item).collect();
    format!("{verb} [{}] {}", result.call_id, items.join("\n"))
}

fn attached(what: &str, media: &Media) -> String {
    let about = [media.name.as_deref(), media.mime.as_deref()];
    let about: Vec<_> = about.into_iter().flatten().map(|about| format!(" {about}")).collect();
    format!("({what}{})", about.concat())
}

/// Truncates a text to `room` characters, with a marker in the middle.
fn short(text: &str, room: u64) -> String {
    let tail = room / 4;
    let cap = Truncation { head: room - tail, tail, ..Truncation::default() };
    cap.cut(text, &Estimate::default()).map_or_else(|| text.to_owned(), |cut| cut.apply(text))
}

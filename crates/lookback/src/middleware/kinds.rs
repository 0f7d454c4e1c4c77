//! What a window is made of: its tokens by kind of content.

use std::collections::BTreeMap;

use lookback_core::message::{MediaSource, PartRef, ResultItem, Role};
use lookback_core::view::{Item, View};

/// A kind of content of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// System prompt and tools, and system messages.
    System,
    /// What the user said.
    User,
    /// What the model said.
    Assistant,
    /// The model's reasoning.
    Reasoning,
    /// The model's tool calls.
    ToolCall,
    /// What tools answered.
    ToolResult,
    /// Pictures and files, whoever gave them.
    Media,
    /// What Lookback said.
    Note,
    /// The running summary.
    Summary,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::System,
        Kind::User,
        Kind::Assistant,
        Kind::Reasoning,
        Kind::ToolCall,
        Kind::ToolResult,
        Kind::Media,
        Kind::Note,
        Kind::Summary,
    ];

    /// Its name, as metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::System => "system",
            Kind::User => "user",
            Kind::Assistant => "assistant",
            Kind::Reasoning => "reasoning",
            Kind::ToolCall => "tool_call",
            Kind::ToolResult => "tool_result",
            Kind::Media => "media",
            Kind::Note => "note",
            Kind::Summary => "summary",
        }
    }

    /// The field of a span that has its tokens.
    pub(super) fn field(self) -> &'static str {
        match self {
            Kind::System => "lookback.window.tokens.system",
            Kind::User => "lookback.window.tokens.user",
            Kind::Assistant => "lookback.window.tokens.assistant",
            Kind::Reasoning => "lookback.window.tokens.reasoning",
            Kind::ToolCall => "lookback.window.tokens.tool_call",
            Kind::ToolResult => "lookback.window.tokens.tool_result",
            Kind::Media => "lookback.window.tokens.media",
            Kind::Note => "lookback.window.tokens.note",
            Kind::Summary => "lookback.window.tokens.summary",
        }
    }
}

/// The tokens of a view by kind: together, what [`View::totals`] says. Those of a message of several kinds are shared out by the lengths of
/// its parts.
///
/// ```
/// use lookback::middleware::{Kind, tokens_by_kind};
/// use lookback::{Engine, Message, Settings};
///
/// let mut engine = Engine::new(Settings::default());
/// engine.push(Message::user("How long is this?"))?;
/// let kinds = tokens_by_kind(engine.view());
/// assert_eq!(kinds.get(&Kind::User), Some(&8));
/// assert_eq!(kinds.values().sum::<u64>(), engine.view().totals().size.tokens);
/// # Ok::<(), lookback::Loss>(())
/// ```
pub fn tokens_by_kind(view: &View) -> BTreeMap<Kind, u64> {
    let mut kinds = BTreeMap::new();
    let mut add = |kind, tokens: u64| {
        if tokens > 0 {
            *kinds.entry(kind).or_default() += tokens;
        }
    };
    let summary = view.summary().map(|(position, _)| position);
    let mut frame = view.totals().size.tokens;
    for item in view.messages() {
        frame = frame.saturating_sub(item.size().tokens);
        if Some(item.position()) == summary {
            add(Kind::Summary, item.size().tokens);
        } else {
            share_out(item, &mut add);
        }
    }
    add(Kind::System, frame);
    kinds
}

/// Shares the tokens of a message out among the kinds of its parts.
fn share_out(item: &Item, add: &mut impl FnMut(Kind, u64)) {
    let base = match item.message().role() {
        Role::System => Kind::System,
        Role::User if item.is_note() => Kind::Note,
        Role::User => Kind::User,
        Role::Assistant => Kind::Assistant,
    };
    let parts: Vec<_> = item.message().parts().flat_map(|part| weights(part, base)).collect();
    let all: u128 = parts.iter().map(|(_, weight)| *weight as u128).sum();
    let mut left = item.size().tokens;
    for (kind, weight) in parts.iter().skip(1) {
        let share = u128::from(item.size().tokens) * *weight as u128 / all.max(1);
        let share = u64::try_from(share).unwrap_or(left).min(left);
        left -= share;
        add(*kind, share);
    }
    // What rounding leaves is the first part's.
    add(parts.first().map_or(base, |(kind, _)| *kind), left);
}

/// The kinds in a part, each with its length. A picture's base64 is no measure of its tokens; a page of text is a better one.
fn weights(part: PartRef<'_>, base: Kind) -> Vec<(Kind, usize)> {
    const MEDIA: usize = 4_000;
    let media = |source: &MediaSource| match source {
        MediaSource::Text(text) => (Kind::Media, text.len()),
        MediaSource::Base64(_) | MediaSource::Url(_) | MediaSource::Id(_) => (Kind::Media, MEDIA),
    };
    match part {
        PartRef::Text(text) => vec![(base, text.len())],
        PartRef::Image(image) | PartRef::Document(image) => vec![media(&image.source)],
        PartRef::Reasoning(reasoning) => {
            let hidden = reasoning.signature.as_ref().map_or(0, String::len);
            vec![(Kind::Reasoning, if reasoning.text.is_empty() { hidden } else { reasoning.text.len() })]
        }
        PartRef::ToolCall(call) => vec![(Kind::ToolCall, call.name.len() + call.arguments.len() + call.id.len())],
        PartRef::ToolResult(result) => {
            let of = |item: &ResultItem| match item {
                ResultItem::Image(image) | ResultItem::Document(image) => media(&image.source),
                ResultItem::Text(text) | ResultItem::Json(text) => (Kind::ToolResult, text.len()),
                ResultItem::Opaque(opaque) => (Kind::ToolResult, opaque.raw.get().len()),
            };
            std::iter::once((Kind::ToolResult, result.call_id.len())).chain(result.content.iter().map(of)).collect()
        }
        PartRef::Opaque(opaque) => vec![(base, opaque.raw.get().len())],
    }
}

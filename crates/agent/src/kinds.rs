//! The tokens of a window by kind of content.

use std::collections::BTreeMap;

use lookback_engine::view::{Item, View};
use lookback_wire::message::{Media, PartRef, ResultItem, Role};

/// A kind of content in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ContentKind {
    /// The system prompt, the tools, and system messages.
    System,
    /// Text from the user.
    User,
    /// Text from the model.
    Assistant,
    /// The model's reasoning.
    Reasoning,
    /// Tool calls.
    ToolCall,
    /// Tool results.
    ToolResult,
    /// Pictures and files, from the user or in tool results.
    Media,
    /// Lookback's notes, and the index.
    Note,
    /// The running summary.
    Summary,
}

impl ContentKind {
    /// All kinds.
    pub const ALL: [ContentKind; 9] = [
        ContentKind::System,
        ContentKind::User,
        ContentKind::Assistant,
        ContentKind::Reasoning,
        ContentKind::ToolCall,
        ContentKind::ToolResult,
        ContentKind::Media,
        ContentKind::Note,
        ContentKind::Summary,
    ];

    /// Returns the kind's name in metrics, such as `tool_result`.
    pub fn name(self) -> &'static str {
        match self {
            ContentKind::System => "system",
            ContentKind::User => "user",
            ContentKind::Assistant => "assistant",
            ContentKind::Reasoning => "reasoning",
            ContentKind::ToolCall => "tool_call",
            ContentKind::ToolResult => "tool_result",
            ContentKind::Media => "media",
            ContentKind::Note => "note",
            ContentKind::Summary => "summary",
        }
    }

    /// Returns the name of the span field with its tokens.
    pub(super) fn field(self) -> &'static str {
        match self {
            ContentKind::System => "lookback.window.tokens.system",
            ContentKind::User => "lookback.window.tokens.user",
            ContentKind::Assistant => "lookback.window.tokens.assistant",
            ContentKind::Reasoning => "lookback.window.tokens.reasoning",
            ContentKind::ToolCall => "lookback.window.tokens.tool_call",
            ContentKind::ToolResult => "lookback.window.tokens.tool_result",
            ContentKind::Media => "lookback.window.tokens.media",
            ContentKind::Note => "lookback.window.tokens.note",
            ContentKind::Summary => "lookback.window.tokens.summary",
        }
    }
}

/// Returns the tokens of a view by kind. Their sum is the total of [`View::totals`]. The tokens of a message with
/// several kinds are divided in proportion to the lengths of its parts.
///
/// ```
/// use lookback_agent::{ContentKind, tokens_by_kind};
/// use lookback_engine::{Engine, Settings};
/// use lookback_wire::message::Message;
///
/// let mut engine = Engine::new(Settings::default());
/// engine.push(Message::user("How long is this?"))?;
/// let kinds = tokens_by_kind(engine.view());
/// assert_eq!(kinds.get(&ContentKind::User), Some(&8));
/// assert_eq!(kinds.values().sum::<u64>(), engine.view().totals().size.tokens);
/// # Ok::<(), lookback_wire::dialect::ConversionError>(())
/// ```
pub fn tokens_by_kind(view: &View) -> BTreeMap<ContentKind, u64> {
    let mut kinds = BTreeMap::new();
    let mut add = |kind, tokens: u64| {
        if tokens > 0 {
            *kinds.entry(kind).or_default() += tokens;
        }
    };
    let mut preamble = view.totals().size.tokens;
    for item in view.messages() {
        preamble = preamble.saturating_sub(item.size().tokens);
        if item.stands_for_others() {
            let is_index = view.index().is_some_and(|index| std::ptr::eq(&*index.message, item.message()));
            add(if is_index { ContentKind::Note } else { ContentKind::Summary }, item.size().tokens);
        } else {
            share_out(item, &mut add);
        }
    }
    add(ContentKind::System, preamble);
    kinds
}

/// Divides the tokens of a message among the kinds of its parts.
fn share_out(item: &Item, add: &mut impl FnMut(ContentKind, u64)) {
    let base = match item.message().role() {
        Role::System => ContentKind::System,
        Role::User if item.is_note() => ContentKind::Note,
        Role::User => ContentKind::User,
        Role::Assistant => ContentKind::Assistant,
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
    // The first part gets the remainder from rounding.
    add(parts.first().map_or(base, |(kind, _)| *kind), left);
}

/// Returns the kinds in a part, each with its length. A picture counts like a page of text, because the length of its
/// base64 does not reflect its tokens.
fn weights(part: PartRef<'_>, base: ContentKind) -> Vec<(ContentKind, usize)> {
    const MEDIA: usize = 4_000;
    let media = |media: &Media| (ContentKind::Media, media.source.text().map_or(MEDIA, str::len));
    match part {
        PartRef::Text(text) => vec![(base, text.len())],
        PartRef::Image(image) | PartRef::Document(image) => vec![media(image)],
        PartRef::Reasoning(reasoning) => {
            let hidden = reasoning.signature.as_ref().map_or(0, String::len);
            vec![(ContentKind::Reasoning, if reasoning.text.is_empty() { hidden } else { reasoning.text.len() })]
        }
        PartRef::ToolCall(call) => {
            vec![(ContentKind::ToolCall, call.name.len() + call.arguments.len() + call.id.len())]
        }
        PartRef::ToolResult(result) => {
            let of = |item: &ResultItem| match item {
                ResultItem::Image(image) | ResultItem::Document(image) => media(image),
                ResultItem::Text(text) | ResultItem::Json(text) => (ContentKind::ToolResult, text.len()),
                ResultItem::Opaque(opaque) => (ContentKind::ToolResult, opaque.raw.get().len()),
            };
            std::iter::once((ContentKind::ToolResult, result.call_id.len()))
                .chain(result.content.iter().map(of))
                .collect()
        }
        PartRef::Opaque(opaque) => vec![(base, opaque.raw.get().len())],
    }
}

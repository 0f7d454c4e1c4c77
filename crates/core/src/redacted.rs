//! `Debug` for the types that hold a conversation: it prints their shape and the length of their texts, but no content.

use std::fmt;

use crate::dialect::Preamble;
use crate::edit::{Change, Cut};
use crate::engine::SummaryRequest;
use crate::entry::{IndexedName, NameIndex, RunningSummary};
use crate::message::{
    AssistantPart, Media, MediaSource, Opaque, PartRef, Reasoning, ResultItem, SystemPart, ToolCall, ToolResult,
    UserPart,
};
use crate::wire::Wire;

/// A text whose `Debug` output is only its length in bytes.
///
/// What is printed for debugging ends up in logs, where contents do not belong. Use it in types of your own:
///
/// ```
/// use std::fmt;
///
/// use lookback_core::Redacted;
///
/// struct Question(String);
///
/// impl fmt::Debug for Question {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         f.debug_tuple("Question").field(&Redacted(&self.0)).finish()
///     }
/// }
///
/// assert_eq!(format!("{:?}", Question("Who is it?".to_owned())), "Question((10 bytes))");
/// ```
#[derive(Clone, Copy)]
pub struct Redacted<'a>(pub &'a str);

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

impl fmt::Debug for PartRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartRef::Text(text) => f.debug_tuple("Text").field(&Redacted(text)).finish(),
            PartRef::Image(media) => f.debug_tuple("Image").field(media).finish(),
            PartRef::Document(media) => f.debug_tuple("Document").field(media).finish(),
            PartRef::Reasoning(reasoning) => f.debug_tuple("Reasoning").field(reasoning).finish(),
            PartRef::ToolCall(call) => f.debug_tuple("ToolCall").field(call).finish(),
            PartRef::ToolResult(result) => f.debug_tuple("ToolResult").field(result).finish(),
            PartRef::Opaque(opaque) => f.debug_tuple("Opaque").field(opaque).finish(),
        }
    }
}

impl fmt::Debug for SystemPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref(), f)
    }
}

impl fmt::Debug for UserPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref(), f)
    }
}

impl fmt::Debug for AssistantPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref(), f)
    }
}

impl fmt::Debug for ResultItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResultItem::Text(text) => f.debug_tuple("Text").field(&Redacted(text)).finish(),
            ResultItem::Json(json) => f.debug_tuple("Json").field(&Redacted(json)).finish(),
            ResultItem::Image(media) => f.debug_tuple("Image").field(media).finish(),
            ResultItem::Document(media) => f.debug_tuple("Document").field(media).finish(),
            ResultItem::Opaque(opaque) => f.debug_tuple("Opaque").field(opaque).finish(),
        }
    }
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Media")
            .field("mime", &self.mime.as_deref().map(Redacted))
            .field("name", &self.name.as_deref().map(Redacted))
            .field("source", &self.source)
            .finish()
    }
}

impl fmt::Debug for MediaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = match self {
            MediaSource::Base64(data) => ("Base64", data),
            MediaSource::Text(text) => ("Text", text),
            MediaSource::Url(url) => ("Url", url),
            MediaSource::Id(id) => ("Id", id),
        };
        f.debug_tuple(name).field(&Redacted(text)).finish()
    }
}

impl fmt::Debug for Reasoning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reasoning")
            .field("text", &Redacted(&self.text))
            .field("signature", &self.signature.as_deref().map(Redacted))
            .finish()
    }
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall")
            .field("id", &Redacted(&self.id))
            .field("name", &Redacted(&self.name))
            .field("arguments", &Redacted(&self.arguments))
            .finish()
    }
}

impl fmt::Debug for ToolResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolResult")
            .field("call_id", &Redacted(&self.call_id))
            .field("content", &self.content)
            .field("error", &self.error)
            .finish()
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opaque").field("kind", &Redacted(&self.kind)).field("raw", &Redacted(self.raw.get())).finish()
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("dialect", &self.dialect).field("raw", &Redacted(self.raw.get())).finish()
    }
}

impl fmt::Debug for Preamble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preamble")
            .field("system", &self.system.as_deref().map(|system| Redacted(system.get())))
            .field("tools", &self.tools.as_deref().map(|tools| Redacted(tools.get())))
            .finish()
    }
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cut")
            .field("head", &self.head)
            .field("tail", &self.tail)
            .field("marker", &Redacted(&self.marker))
            .field("repeats", &self.repeats)
            .finish()
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Cut { item, cut } => f.debug_struct("Cut").field("item", item).field("cut", cut).finish(),
            Change::Hide(why) => f.debug_tuple("Hide").field(why).finish(),
            Change::Rename(id) => f.debug_tuple("Rename").field(&Redacted(id)).finish(),
            Change::Arguments(json) => f.debug_tuple("Arguments").field(&Redacted(json)).finish(),
        }
    }
}

impl fmt::Debug for RunningSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningSummary")
            .field("message", &self.message)
            .field("text", &Redacted(&self.text))
            .field("size", &self.size)
            .field("stands_for", &self.stands_for)
            .field("covers", &self.covers)
            .field("replaces", &self.replaces)
            .finish()
    }
}

impl fmt::Debug for NameIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameIndex")
            .field("message", &self.message)
            .field("size", &self.size)
            .field("names", &self.names)
            .finish()
    }
}

impl fmt::Debug for IndexedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedName")
            .field("name", &Redacted(&self.name))
            .field("entry", &self.entry)
            .field("uses", &self.uses)
            .field("mentions", &self.mentions)
            .finish()
    }
}

impl fmt::Debug for SummaryRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummaryRequest")
            .field("claim", &self.claim)
            .field("messages", &self.messages)
            .field("positions", &self.positions)
            .field("previous", &self.previous.as_deref().map(Redacted))
            .field("budget", &self.budget)
            .field("aim", &self.aim)
            .finish()
    }
}

//! Joins several streamed answers of a model into one, for a client that has asked once.
//!
//! An intermediary, such as a gateway, may offer the model tools of its own. If an answer calls one, the intermediary
//! answers the call and asks the model again. The client sees neither: everything else passes as it comes, and the next
//! answer continues the same stream.

pub(super) mod anthropic;
mod gap;
pub(super) mod gemini;
pub(super) mod openai_chat;
pub(super) mod openai_responses;
mod places;
mod usage;

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use self::gap::GAP;
use super::stream::events::{Event, Events, push_data};
use super::{Dialect, Response, ResponseStream};
use crate::edit::{Change, Cut, Edit, Hidden};
use crate::message::{Message, PartRef};
use lookback_content::json::{self, Fields};

/// Several streamed answers of a model, joined into one stream of server-sent events.
///
/// The events of an answer pass byte for byte if nothing has to change in them. The joined stream has one start, indexes
/// that continue, and one end. Its usage has the output of all answers, and the input of the last. Where clients join
/// all texts, an empty line stands between those of two answers.
///
/// ```
/// use lookback_wire::dialect::{Dialect, Stitch};
///
/// let mut stitch = Stitch::new(Dialect::Gemini, ["recall"]).unwrap();
/// let first = br#"data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"recall"}}]},"finishReason":"STOP"}]}"#;
/// assert!(stitch.read(&[first, &b"\n\n"[..]].concat()).is_empty());
/// // Here, the caller answers the call, and asks the model again.
/// stitch.resume();
/// let last = b"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Yes.\"}]},\"finishReason\":\"STOP\"}]}\n\n";
/// assert_eq!(stitch.read(last), last);
/// assert!(stitch.finish().is_empty());
/// assert_eq!(stitch.message().unwrap().text(), "Yes.");
/// ```
#[doc(hidden)]
pub struct Stitch {
    own: Own,
    events: Events,
    seam: Box<dyn Seam>,
    /// The events of the end of this answer that are held back.
    held: Vec<(Event, Option<Box<RawValue>>)>,
    /// Whether the client has the newest event unchanged.
    has_passed: bool,
    /// The answer as the client has it.
    whole: ResponseStream,
    /// The parts that earlier answers show, with the length of each text.
    shown: Vec<Option<usize>>,
    dialect: Dialect,
}

/// The most bytes of one event: 64 MiB. The bytes of a longer one pass unread.
const MOST: usize = 64 << 20;

/// The names of the intermediary's tools.
pub(super) struct Own(Vec<String>);

impl Own {
    /// Returns whether a name is that of one of these tools.
    fn has(&self, name: Option<Cow<'_, str>>) -> bool {
        name.is_some_and(|name| self.0.iter().any(|own| *own == *name))
    }
}

/// How one dialect's answers are joined.
pub(super) trait Seam: Send + Sync {
    /// Reads an event of this answer.
    fn read(&mut self, event: Fields<'_>, own: &Own) -> Passing;

    /// Returns an event that was held back, as the client gets it at the end.
    fn end(&mut self, event: Fields<'_>) -> Box<RawValue>;

    /// Begins the next answer.
    fn resume(&mut self);

    /// Returns whether this answer has hidden calls.
    fn hides(&self) -> bool;

    /// Returns the name and the data of the event that reports an error with this body.
    fn error(&mut self, body: &Fields<'_>) -> (Option<&'static str>, Box<RawValue>);
}

/// What the client gets of an event.
pub(super) enum Passing {
    /// All of it.
    Unchanged,
    /// This event in its place.
    Changed(Box<RawValue>),
    /// Nothing.
    Hidden,
    /// `now` at once, and `end` if no other answer follows.
    Held { now: Option<Box<RawValue>>, end: Box<RawValue> },
}

/// Returns a list with another element at this place.
fn with_element(list: &[&RawValue], at: usize, element: &RawValue) -> Box<RawValue> {
    json::write_array(list.iter().enumerate().map(|(index, old)| if index == at { element } else { *old }))
}

impl Stitch {
    /// Creates a stream before the first byte of the first answer. `own` are the names of the tools whose calls the
    /// client does not see. Returns `None` if the dialect does not stream server-sent events.
    pub fn new(dialect: Dialect, own: impl IntoIterator<Item = impl Into<String>>) -> Option<Stitch> {
        let own = Own(own.into_iter().map(Into::into).collect());
        let seam = (dialect.format().seam?)();
        let (events, whole) = (Events::default(), ResponseStream::new(dialect));
        Some(Stitch { own, events, seam, held: Vec::new(), has_passed: false, whole, shown: Vec::new(), dialect })
    }

    /// Reads the next bytes of this answer, in chunks of any size, and returns the bytes for the client.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<u8> {
        let events = self.events.read(bytes);
        let mut out = Vec::new();
        events.into_iter().for_each(|event| self.event(event, &mut out));
        if self.events.length() > MOST {
            out.extend(self.events.rest());
        }
        self.whole.read(&out);
        out
    }

    fn event(&mut self, mut event: Event, out: &mut Vec<u8>) {
        out.extend(event.late_line_feed().filter(|_| self.has_passed));
        self.has_passed = false;
        let Some(data) = event.data.as_deref().map(str::trim) else {
            self.has_passed = true;
            return out.extend(event.raw);
        };
        if data == "[DONE]" && self.seam.hides() {
            return self.held.push((event, None));
        }
        let fields = serde_json::from_str::<&RawValue>(data).ok().and_then(Fields::read);
        match fields.map_or(Passing::Unchanged, |fields| self.seam.read(fields, &self.own)) {
            Passing::Unchanged => {
                self.has_passed = true;
                out.extend(event.raw);
            }
            Passing::Changed(new) => out.extend(event.with_data(new.get())),
            Passing::Hidden => {}
            Passing::Held { now, end } => {
                out.extend(now.into_iter().flat_map(|now| event.with_data(now.get())));
                self.held.push((event, Some(end)));
            }
        }
    }

    /// Begins the next answer, which continues this one.
    pub fn resume(&mut self) {
        self.events = Events::default();
        self.held.clear();
        self.seam.resume();
        let length = |part: PartRef<'_>| if let PartRef::Text(text) = part { Some(text.len()) } else { None };
        self.shown = self.message().iter().flat_map(|message| message.parts().map(length)).collect();
    }

    /// Ends the stream after this answer. Returns the rest of it for the client.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for (event, end) in std::mem::take(&mut self.held) {
            match end.as_deref().and_then(Fields::read) {
                Some(fields) => {
                    let end = self.seam.end(fields);
                    out.extend(event.with_data(end.get()));
                }
                None => out.extend(event.raw),
            }
        }
        let rest = self.events.rest();
        // The line feed may be that of an event which did not pass.
        if self.has_passed || rest != b"\n" {
            out.extend(rest);
        }
        self.whole.read(&out);
        out
    }

    /// Ends the stream with an error. `body` is the provider's error, or a list of one. Returns `None` for anything else.
    pub fn fail(&mut self, body: &str) -> Option<Vec<u8>> {
        let body: &RawValue = serde_json::from_str(body.trim()).ok()?;
        let first = json::array(body).and_then(|list| list.first().copied());
        let (name, data) = self.seam.error(&Fields::read(first.unwrap_or(body))?);
        let mut out = name.map_or_else(String::new, |name| format!("event: {name}\n"));
        push_data(&mut out, data.get());
        Some(out.into_bytes())
    }

    /// Returns the answer as the client has it, as far as it has arrived.
    pub fn response(&self) -> Option<Response> {
        self.whole.response()
    }

    /// Returns the message as the client has it, as far as it has arrived.
    pub fn message(&self) -> Option<Message> {
        self.response().map(|response| response.message)
    }

    /// Returns the edits that hide from a message everything that earlier answers show, so that it is the last answer.
    /// `message` is the [joined one](Stitch::message).
    pub fn hide_shown(&self, message: &Message) -> Vec<Edit> {
        let hide = |(part, (value, length)): (usize, (PartRef<'_>, &Option<usize>))| match (value, length) {
            (_, Some(0)) => None,
            (PartRef::Text(text), Some(length)) if text.len() > *length => {
                let new = text.get(*length..).unwrap_or_default();
                let cut = Cut { tail: new.strip_prefix(GAP).unwrap_or(new).len(), ..Cut::nothing() };
                Some(Edit { part, change: Change::Cut { item: 0, cut } })
            }
            _ => Some(Edit { part, change: Change::Hide(Hidden::Shown) }),
        };
        let edits: Vec<Edit> = message.parts().zip(&self.shown).enumerate().filter_map(hide).collect();
        // Without anything else, the model would see no answer. Reasoning belongs to its place.
        let is_whole =
            edits.len() < message.parts().count() || edits.iter().any(|edit| matches!(edit.change, Change::Cut { .. }));
        let is_reasoning = |edit: &Edit| matches!(message.parts().nth(edit.part), Some(PartRef::Reasoning(_)));
        if is_whole { edits } else { edits.into_iter().filter(is_reasoning).collect() }
    }
}

impl fmt::Debug for Stitch {
    /// Prints lengths without contents, because debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stitch")
            .field("dialect", &self.dialect)
            .field("held", &self.held.len())
            .field("shown", &self.shown.len())
            .finish_non_exhaustive()
    }
}

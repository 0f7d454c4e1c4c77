//! The shared code of the block formats, whose messages have a role and blocks, and whose neighbors of one role count
//! as one message.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::format::{Encoded, Mends, Paths, Sending};
use super::{ConversionError, Dialect, Finding, Mend, Mended, Place, Preamble, ProblemKind, Request, Rule, Shown};
use crate::edit::{self, Edit};
use crate::message::{Message, PartRef};
use crate::wire::Role;
use lookback_content::json::{self, Fields};

/// Applies the edits of one block. Returns `None` if it becomes empty.
pub(super) type EditBlock =
    fn(block: &RawValue, part: PartRef<'_>, index: usize, edits: &[Edit]) -> Option<Box<RawValue>>;

/// The differences between the block formats.
pub(super) struct BlockFormat {
    pub(super) dialect: Dialect,
    /// The member of a message that has the blocks.
    pub(super) content: &'static str,
    pub(super) edit: EditBlock,
    /// The member of a block that is a cache marker, if the format has cache markers.
    pub(super) marker: Option<&'static str>,
    /// Whether tool results come before all other blocks of their message, or of neighbors of one role.
    pub(super) results_first: bool,
    /// Which neighbors of one role are merged into one message.
    pub(super) merges: Merges,
    /// Mends outgoing messages.
    pub(super) mend: MendAll,
}

/// Mends the messages of a request, and returns the changes. A message that becomes empty is left out.
pub(super) type MendAll = fn(sending: &Sending<'_>, messages: &mut [&mut Outbound<'_>]) -> Vec<Mended>;

/// An outgoing message, with its index among the shown messages.
pub(super) type Outbound<'a> = (usize, Cow<'a, RawValue>);

/// Which neighbors of one role are merged into one message when they are sent. The others stay separate.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Merges {
    /// All, because the provider demands that the roles alternate.
    All,
    /// Those with tool results, because the provider demands all results of an answer in one message.
    Results,
    /// Those that have a tool result after other content. Merging moves the results to the front.
    Mixed,
}

/// The rules of a format that faults of a part break.
pub(super) struct PartRules {
    /// The rule that no text is blank, and no error result is empty.
    pub(super) blank: Rule,
    /// The rule that the last message does not end in white space.
    pub(super) trailing_space: Rule,
    pub(super) id: Rule,
    pub(super) arguments: Rule,
    pub(super) valid_id: fn(&str) -> bool,
}

/// The most cache markers that a request may have, including those of its system prompt and tools (AM9, BC6).
pub(super) const MOST_MARKERS: usize = 4;

/// An outgoing message.
struct Sent<'a> {
    role: Role,
    /// The messages that it is merged from, each with its index.
    raws: Vec<Outbound<'a>>,
    /// The index of the first of its neighbors of one role, up to this message, that has a tool result.
    result: Option<usize>,
    /// The index of the first of these neighbors that has other content than tool results.
    other: Option<usize>,
    /// Whether a tool result comes after other content.
    mixed: bool,
}

impl<'a> Sent<'a> {
    /// Merges the next message with this one.
    fn merge(&mut self, next: Sent<'a>) {
        self.raws.extend(next.raws);
        (self.result, self.other) = (next.result, next.other);
        self.mixed |= next.mixed;
    }
}

/// The outgoing messages of a request, and the changes to them.
#[derive(Default)]
struct Outgoing<'a> {
    sent: Vec<Sent<'a>>,
    mends: Vec<Mended>,
}

/// Encodes messages of a block format.
///
/// Neighbors of one role stay separate, unless the provider refuses that (see [`Merges`]; AM2, BC2, GM2). Tool results
/// come first in a merged message (AM2, BC2). A system message moves after a user message that follows it (AM7).
pub(super) fn encode<'a>(format: &BlockFormat, sending: &Sending<'_>, shown: &[Shown<'a>]) -> Encoded<'a> {
    let finish = |sent: Sent<'a>| {
        let mixed = sent.mixed;
        let raw = merge(format.content, sent.raws)?;
        Some(if mixed { Cow::Owned(results_first(format, &raw)) } else { raw })
    };
    Ok(Outgoing::new(format, sending, shown)?.sent.into_iter().filter_map(finish).collect())
}

/// Lists the changes that [`encode`] makes, by message.
pub(super) fn mends(format: &BlockFormat, sending: &Sending<'_>, shown: &[Shown<'_>]) -> Mends {
    let mut mends = Outgoing::new(format, sending, shown)?.mends;
    mends.sort_by_key(|mended| mended.message);
    Ok(mends)
}

impl<'a> Outgoing<'a> {
    /// Makes all changes, except for merging and reordering blocks, which [`encode`] does.
    fn new(format: &BlockFormat, sending: &Sending<'_>, shown: &[Shown<'a>]) -> Result<Outgoing<'a>, ConversionError> {
        let dialect = format.dialect;
        let mut out = Outgoing::default();
        for (index, Shown { message, edits }) in shown.iter().copied().enumerate() {
            match message.wire().filter(|wire| wire.dialect == dialect) {
                Some(wire) if edits.is_empty() => {
                    out.send(format, index, Shown { message, edits }, Cow::Borrowed(&*wire.raw));
                }
                Some(wire) => {
                    if let Some(raw) = edit_message(format, message, &wire.raw, edits) {
                        out.send(format, index, Shown { message, edits }, Cow::Owned(raw));
                    }
                }
                None => {
                    for message in dialect.convert(message)? {
                        let raw = message.wire().and_then(|wire| edit_message(format, &message, &wire.raw, edits));
                        if let Some(raw) = raw {
                            out.send(format, index, Shown { message: &message, edits }, Cow::Owned(raw));
                        }
                    }
                }
            }
        }
        out.place_system_messages();
        if let Some(marker) = format.marker {
            out.limit_markers(marker, sending.preamble.map_or(0, |preamble| markers_outside(marker, preamble)));
        }
        out.mend(format, sending);
        Ok(out)
    }

    /// Makes the last changes.
    fn mend(&mut self, format: &BlockFormat, sending: &Sending<'_>) {
        let Outgoing { sent, mends } = self;
        let mut all: Vec<&mut Outbound<'a>> = sent.iter_mut().flat_map(|sent| &mut sent.raws).collect();
        let made = (format.mend)(sending, &mut all);
        if made.iter().any(|mended| matches!(mended.mend, Mend::Removed { .. })) {
            sent.iter_mut()
                .for_each(|sent| sent.raws.retain(|(_, raw)| sent.role != Role::Assistant || !is_empty(raw)));
        }
        mends.extend(made);
    }

    /// Appends a message, or merges it with the last one of its role.
    fn send(&mut self, format: &BlockFormat, index: usize, shown: Shown<'_>, raw: Cow<'a, RawValue>) {
        let Outgoing { sent, mends } = self;
        let Shown { message, edits } = shown;
        let role = message.role();
        let is_result = |part: &PartRef<'_>| matches!(part, PartRef::ToolResult(_));
        let shown =
            || message.parts().enumerate().filter(|(part, _)| !edit::is_hidden(edits, *part)).map(|(_, part)| part);
        let (result, other) = (shown().any(|part| is_result(&part)), shown().any(|part| !is_result(&part)));
        let mut mixed =
            format.results_first && result && other && shown().skip_while(is_result).any(|part| is_result(&part));
        // A system message without content only sets the configuration for later messages.
        let overtakes = |before: &&Sent<'_>| {
            role == Role::User && before.role == Role::System && !before.raws.iter().all(|(_, raw)| is_empty(raw))
        };
        let systems = sent.iter().rev().take_while(overtakes).count();
        let at = sent.len() - systems;
        let before = at.checked_sub(1).and_then(|last| sent.get(last)).filter(|last| last.role == role);
        let into = before.and_then(|before| match format.merges {
            // Two system messages in a row are refused (AM7).
            _ if role == Role::System => at.checked_sub(1),
            Merges::All => at.checked_sub(1),
            Merges::Results if result => before.result,
            Merges::Mixed if result => before.other,
            Merges::Results | Merges::Mixed => None,
        });
        let first = |has: bool, before: Option<usize>| before.or(has.then_some(into.unwrap_or(at)));
        let (result_at, other_at) = (before.and_then(|before| before.result), before.and_then(|before| before.other));
        mixed |= into.is_some() && format.results_first && result && other_at.is_some();
        let (first_result, first_other) = (first(result, result_at), first(other, other_at));
        let own = Sent { role, raws: vec![(index, raw)], result: first_result, other: first_other, mixed };
        match into {
            Some(into) => {
                let behind: Vec<Sent<'a>> = sent.drain(into + 1..at).chain([own]).collect();
                mends.extend(
                    behind.iter().flat_map(|next| &next.raws).map(|(index, _)| Mend::MergedWithPrevious.at(*index)),
                );
                if let Some(whole) = sent.get_mut(into) {
                    behind.into_iter().for_each(|next| whole.merge(next));
                }
            }
            None => sent.insert(at, own),
        }
        if mixed {
            mends.push(Mend::ResultsFirst.at(index));
        }
    }

    /// Sends a system message as a user message if it is not allowed at its place. So its content is not lost, and gets
    /// no more authority.
    fn place_system_messages(&mut self) {
        let Outgoing { sent, mends } = self;
        // The role of the previous message, and the index of the last message in it.
        let mut before: Option<(Role, usize)> = None;
        for sent in sent {
            match before {
                _ if sent.role != Role::System => {}
                // A system message without content only sets the configuration, which may change anywhere.
                _ if sent.raws.iter().all(|(_, raw)| is_empty(raw)) => {}
                Some((Role::User | Role::System, last)) => {
                    let overtaken = sent.raws.iter().filter(|(index, _)| *index < last);
                    mends.extend(overtaken.map(|(index, _)| Mend::SentAfterNext.at(*index)));
                }
                Some((Role::Assistant, _)) | None => {
                    sent.role = Role::User;
                    for (index, raw) in &mut sent.raws {
                        *raw = Cow::Owned(as_user(raw));
                        mends.push(Mend::SentAsUser.at(*index));
                    }
                }
            }
            before = sent.raws.last().map(|(index, _)| (sent.role, *index));
        }
    }

    /// Removes the oldest cache markers if there are more than a provider allows.
    ///
    /// Clients move their markers along with the end of the history. But the log keeps each message as it arrived, so a
    /// session accumulates markers. `outside` is the number of markers in the system prompt and the tools.
    fn limit_markers(&mut self, marker: &str, outside: usize) {
        let Outgoing { sent, mends } = self;
        let mut free = MOST_MARKERS.saturating_sub(outside);
        for (index, message) in sent.iter_mut().flat_map(|sent| &mut sent.raws).rev() {
            let found = markers(marker, message);
            let count = found.saturating_sub(free);
            if count > 0
                && let Some(raw) = without_markers(marker, count, message)
            {
                *message = Cow::Owned(raw);
                mends.push(Mend::MarkersRemoved { count }.at(*index));
            }
            free = free.saturating_sub(found);
        }
    }
}

/// Returns whether a message has no block.
fn is_empty(raw: &RawValue) -> bool {
    let fields = Fields::read(raw);
    let content = fields.as_ref().and_then(|fields| fields.get("content")).and_then(json::array);
    content.is_some_and(|blocks| blocks.is_empty())
}

fn as_user(raw: &RawValue) -> Box<RawValue> {
    let Some(mut fields) = Fields::read(raw) else { return raw.to_owned() };
    fields.set("role", json::string("user"));
    // In a user message, a block that is not text could have another meaning, such as a result without its call. So it
    // becomes text.
    let content = fields.get("content").and_then(json::array).map(|blocks| {
        let is_text = |block: &RawValue| {
            Fields::read(block).is_some_and(|fields| fields.text("type").is_some_and(|kind| kind == "text"))
        };
        let say =
            |block: &RawValue| if is_text(block) { block.to_owned() } else { text_block(&json::string(block.get())) };
        blocks.into_iter().map(say).collect::<Vec<_>>()
    });
    if let Some(blocks) = content {
        fields.set("content", json::write_array(blocks.iter().map(AsRef::as_ref)));
    }
    fields.write()
}

/// Moves the results of a message to its beginning. Both results and other blocks keep their order.
fn results_first(format: &BlockFormat, raw: &RawValue) -> Box<RawValue> {
    let (Some(mut fields), Ok(message)) = (Fields::read(raw), format.dialect.decode_raw(raw)) else {
        return raw.to_owned();
    };
    let Some(content) = fields.get(format.content).map(ToOwned::to_owned) else { return raw.to_owned() };
    let blocks = blocks(&content);
    let (results, others): (Vec<_>, Vec<_>) =
        blocks.iter().zip(message.parts()).partition(|(_, part)| matches!(part, PartRef::ToolResult(_)));
    let all = results.into_iter().chain(others).map(|(block, _)| block.as_ref());
    fields.set(format.content, json::write_array(all));
    fields.write()
}

/// Writes the path of a block.
pub(super) fn path(place: &Place<'_>, part: usize) -> String {
    format!("messages[{}].content[{part}]", place.element)
}

pub(super) fn paths<'a>(place: &Place<'a>) -> Paths<'a> {
    let place = *place;
    Box::new(move |part| path(&place, part))
}

/// Returns the blocks of a message. A string is one block of text.
pub(super) fn blocks(content: &RawValue) -> Vec<Cow<'_, RawValue>> {
    match json::array(content) {
        Some(blocks) => blocks.into_iter().map(Cow::Borrowed).collect(),
        None => vec![Cow::Owned(text_block(content))],
    }
}

/// Makes a block of text from a string, with the string's own bytes.
fn text_block(string: &RawValue) -> Box<RawValue> {
    let mut block = Fields::default();
    block.set("type", json::string("text"));
    block.set("text", string.to_owned());
    block.write()
}

fn edit_message(format: &BlockFormat, message: &Message, raw: &RawValue, edits: &[Edit]) -> Option<Box<RawValue>> {
    if edit::hides_all(message, edits) {
        return None;
    }
    let mut fields = Fields::read(raw)?;
    let content = fields.get(format.content)?.to_owned();
    let blocks = blocks(&content);
    let shown = blocks.iter().zip(message.parts()).enumerate().filter(|(part, _)| !edit::is_hidden(edits, *part));
    let shown: Vec<_> = shown
        .filter_map(|(index, (block, part))| {
            if edit::touches(edits, index) {
                (format.edit)(block, part, index, edits).map(Cow::Owned)
            } else {
                Some(Cow::Borrowed(&**block))
            }
        })
        .collect();
    // A string stays a string, because otherwise a shorter text could have more bytes.
    let text = match &shown[..] {
        [only] if json::text(&content).is_some() => {
            Fields::read(only).and_then(|block| Some(block.get("text")?.to_owned()))
        }
        _ => None,
    };
    // An identifier that is renamed only in the log does not change the bytes.
    if shown.len() == blocks.len() && shown.iter().zip(&blocks).all(|(shown, block)| shown.get() == block.get()) {
        return Some(raw.to_owned());
    }
    fields.set(format.content, text.unwrap_or_else(|| json::write_array(shown.iter().map(AsRef::as_ref))));
    Some(fields.write())
}

/// Merges messages into one, with the blocks of all. Of other members with the same key, the first one is kept.
fn merge<'a>(content: &'static str, mut raws: Vec<(usize, Cow<'a, RawValue>)>) -> Option<Cow<'a, RawValue>> {
    if raws.len() < 2 {
        return raws.pop().map(|(_, raw)| raw);
    }
    let messages: Vec<_> = raws.iter().filter_map(|(_, raw)| Fields::read(raw)).collect();
    let all: Vec<_> = messages.iter().filter_map(|fields| fields.get(content)).flat_map(blocks).collect();
    let mut merged = Fields::merge(&messages);
    merged.set(content, json::write_array(all.iter().map(AsRef::as_ref)));
    Some(Cow::Owned(merged.write()))
}

/// Returns the faults of one part of a message, with the rules that they break. `trailing_space` is whether the last
/// message ends with this part, and in white space.
pub(super) fn part_faults(rules: &PartRules, part: PartRef<'_>, trailing_space: bool) -> Vec<(Rule, ProblemKind)> {
    let mut faults = Vec::new();
    match part {
        PartRef::Text(text) if text.trim().is_empty() => faults.push((rules.blank, ProblemKind::BlankText)),
        PartRef::Text(_) if trailing_space => faults.push((rules.trailing_space, ProblemKind::TrailingSpace)),
        PartRef::ToolResult(result) if result.is_empty_error() => faults.push((rules.blank, ProblemKind::EmptyContent)),
        PartRef::ToolCall(call) => {
            if !(rules.valid_id)(&call.id) {
                faults.push((rules.id, ProblemKind::BadId { id: call.id.clone() }));
            }
            if !call.has_object_arguments() {
                faults.push((rules.arguments, ProblemKind::BadArguments { id: call.id.clone() }));
            }
        }
        _ => {}
    }
    faults
}

/// Finds parts that a message of their role may not have.
pub(super) fn wrong_roles(dialect: Dialect, rule: Rule, kinds: &[(Role, &str)], messages: &[Message]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in Place::all(messages) {
        let role = place.message.role();
        let is_wrong =
            |part: &PartRef<'_>| matches!(part, PartRef::Opaque(opaque) if kinds.contains(&(role, &*opaque.kind)));
        let parts = place.message.parts().enumerate().filter(|(_, part)| is_wrong(part));
        findings.extend(
            parts.map(|(part, _)| rule.at(place.index, dialect.path(&place, part), ProblemKind::WrongRole { role })),
        );
    }
    findings
}

/// Returns a message without some of its blocks, or `None` if it cannot be read.
pub(super) fn without(message: &RawValue, gone: &[usize]) -> Option<Box<RawValue>> {
    let mut fields = Fields::read(message)?;
    let content = fields.get("content")?.to_owned();
    let left = json::array(&content)?.into_iter().enumerate().filter(|(index, _)| !gone.contains(index));
    fields.set("content", json::write_array(left.map(|(_, block)| block)));
    Some(fields.write())
}

/// Counts the cache markers of a request, including those of its system prompt and tools.
pub(super) fn all_markers(marker: &str, request: &Request) -> usize {
    let outside = markers_outside(marker, request.preamble());
    outside + request.raw_messages().map(|raw| markers(marker, raw)).sum::<usize>()
}

/// Counts the cache markers in the system prompt and the tools.
fn markers_outside(marker: &str, preamble: &Preamble) -> usize {
    // Bedrock nests its tools one level deeper.
    let tools = preamble.tools.as_deref().and_then(Fields::read);
    let tools = tools.as_ref().and_then(|tools| tools.get("tools")).or(preamble.tools.as_deref());
    [preamble.system.as_deref(), tools].into_iter().flatten().map(|raw| markers(marker, raw)).sum()
}

/// Counts the cache markers in a message, a system prompt or a list of tools.
fn markers(marker: &str, raw: &RawValue) -> usize {
    if !raw.get().contains(marker) {
        return 0;
    }
    let content = Fields::read(raw).and_then(|fields| fields.get("content").map(ToOwned::to_owned));
    let elements = content.as_deref().and_then(json::array).or_else(|| json::array(raw)).unwrap_or_default();
    let is_marked = |fields: &Fields<'_>| fields.get(marker).is_some();
    let of_block = |block: Fields<'_>| {
        // A tool result contains a list of blocks.
        let inner = block.get("content").and_then(json::array).unwrap_or_default();
        inner.into_iter().filter_map(Fields::read).filter(is_marked).count() + usize::from(is_marked(&block))
    };
    elements.into_iter().filter_map(Fields::read).map(of_block).sum()
}

/// Removes the first `count` markers of a message. Returns `None` if the message would become empty.
fn without_markers(marker: &str, mut count: usize, message: &RawValue) -> Option<Box<RawValue>> {
    let mut fields = Fields::read(message)?;
    let content = fields.get("content")?.to_owned();
    let mut strip = |block: &RawValue| {
        let marked = Fields::read(block).filter(|fields| count > 0 && fields.get(marker).is_some());
        let Some(mut fields) = marked else { return Some(block.to_owned()) };
        count -= 1;
        fields.remove(marker);
        // In Bedrock's format a marker is a separate block.
        (!fields.is_empty()).then(|| fields.write())
    };
    let strip_all = |block: Cow<'_, RawValue>| {
        let inner = Fields::read(&block).filter(|fields| {
            fields.get("content").is_some_and(|inner| inner.get().contains(marker) && json::array(inner).is_some())
        });
        let Some(mut fields) = inner else { return strip(&block) };
        let inner = fields.get("content").map(ToOwned::to_owned)?;
        let inner: Vec<_> = json::array(&inner)?.into_iter().filter_map(&mut strip).collect();
        fields.set("content", json::write_array(inner.iter().map(AsRef::as_ref)));
        strip(&fields.write())
    };
    let blocks: Vec<_> = blocks(&content).into_iter().filter_map(strip_all).collect();
    if blocks.is_empty() {
        return None;
    }
    fields.set("content", json::write_array(blocks.iter().map(AsRef::as_ref)));
    Some(fields.write())
}

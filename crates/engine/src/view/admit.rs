//! Admission: finds the edits that an arriving message needs to be sent after a view.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::calls::Answer;
use super::{View, ViewGroup};
use lookback_wire::dialect::{Quirks, Target};
use lookback_wire::edit::Hidden;
use lookback_wire::edit::{Change, Cut, Edit};
use lookback_wire::message::Role;
use lookback_wire::message::{Message, PartRef, ToolCall, ToolResult};

/// The content of a tool result that reported an error and nothing else, if the provider refuses an empty one.
const EMPTY_ERROR: &str = "[The tool failed and gave no output.]";

/// The most groups to which the late results of one message may belong. Each of these groups shows a part of the
/// message with separate edits, so a larger number would cost more.
const MOST_LATE: usize = 16;

/// The call that a result answers: its group, its place among the calls with its identifier, and the name under which
/// it is shown.
struct Answered<'a> {
    group: usize,
    place: usize,
    name: &'a str,
}

impl View {
    /// Returns the edits that a message needs to be sent after this view. Its [`Arrival`](crate::entry::Arrival)
    /// records them.
    pub(crate) fn admit<'a>(&'a self, message: &'a Message, target: &Target) -> Vec<Edit> {
        let quirks = target.quirks();
        let mut admission = Admission::new(self, quirks, target.stored);
        if quirks.results_by_name {
            let by_id = message.tool_results().filter(|(_, result)| !result.names_only_tool());
            admission.asked_for.extend(by_id.map(|(_, result)| result.call_id.as_str()));
        }
        let words = if quirks.takes_space_beside { message.last_words() } else { None };
        // In a message of the model, a blank text is hidden only after its last words, because the end of the message
        // may become the end of a request.
        let is_beside = |part| words.is_some_and(|words| message.role() != Role::Assistant || part < words);
        for (part, value) in message.parts().enumerate() {
            match value {
                PartRef::Text(text) if quirks.refuses_blank && text.trim().is_empty() => {
                    if text.is_empty() || !is_beside(part) {
                        admission.add(part, Change::Hide(Hidden::Blank));
                    }
                }
                PartRef::Reasoning(reasoning) if quirks.signed_reasoning && reasoning.signature.is_none() => {
                    admission.add(part, Change::Hide(Hidden::Unsigned));
                }
                PartRef::Opaque(opaque) if quirks.wrong_roles.contains(&(message.role(), &*opaque.kind)) => {
                    admission.add(part, Change::Hide(Hidden::WrongRole));
                }
                PartRef::ToolCall(call) => admission.name_call(part, call),
                PartRef::ToolResult(result) => {
                    admission.fill_empty_error(part, result);
                    admission.find_call(part, result);
                }
                PartRef::Text(_)
                | PartRef::Image(_)
                | PartRef::Document(_)
                | PartRef::Reasoning(_)
                | PartRef::Opaque(_) => {}
            }
        }
        if (quirks.has_refused_members)(message) {
            // An edit of the part after the last one hides these members.
            admission.add(message.parts().count(), Change::Hide(Hidden::Blank));
        }
        if quirks.refuses_empty && message.parts().all(|part| part.is_cache_marker()) {
            admission.add(0, Change::Hide(Hidden::Blank));
        }
        admission.edits
    }

    /// Returns the open call that a result answers, or the reason why the result is not shown. The search begins at
    /// place `from` among the calls with its identifier. `home` is the group that other results of the message belong
    /// to.
    fn resolve(&self, id: &str, home: Option<usize>, from: usize) -> Result<Answered<'_>, Hidden> {
        let group = self.group_of(id).ok_or(Hidden::Orphan)?;
        let calls = &self.groups.get(group).ok_or(Hidden::Orphan)?.calls;
        match calls.waiting(id, from, Answer::Open) {
            // A message can answer only one other message. Its result for a second one is an orphan.
            Some(_) if home.is_some_and(|home| home != group) => Err(Hidden::Orphan),
            Some((place, name)) => Ok(Answered { group, place, name }),
            None if calls.waiting(id, from, Answer::StandIn).is_some() => Err(Hidden::Late),
            None => Err(Hidden::Duplicate),
        }
    }

    /// Returns the first call that has a stand-in and no late result yet. The search begins at place `from` among the
    /// calls with this identifier.
    fn stand_in(&self, id: &str, from: usize) -> Option<Answered<'_>> {
        let group = self.group_of(id)?;
        let calls = &self.groups.get(group)?.calls;
        let mut next = from;
        // A late result may already wait for an earlier call with this identifier. Only a few such calls are skipped,
        // which keeps the search cheap.
        for _ in 0..MOST_LATE {
            let (place, name) = calls.waiting(id, next, Answer::StandIn)?;
            if !self.late.has(name) {
                return Some(Answered { group, place, name });
            }
            next = place + 1;
        }
        None
    }
}

/// A message on its way into a view: the edits that it needs, and the calls that its results have been given so far.
struct Admission<'a> {
    view: &'a View,
    quirks: Quirks,
    /// Whether the provider may have stored calls that are not in the view.
    stored: bool,
    edits: Vec<Edit>,
    /// The group that the message joins, if it is the model's and continues an answer. Calls of the message must not
    /// reuse names of this group.
    joins: Option<&'a ViewGroup>,
    /// The names of this message's calls.
    names: HashSet<String>,
    /// For each identifier, the place of the first call that has not been matched to a result of this message.
    next: HashMap<&'a str, usize>,
    /// For each tool, the place of the first call that has not been matched to a result of this message.
    next_of_tool: HashMap<&'a str, usize>,
    /// The names of the calls that have been matched, if results may name only the tool.
    given: HashSet<&'a str>,
    /// The identifiers that results of the message have, if other results may name only the tool.
    asked_for: HashSet<&'a str>,
    /// The group whose calls its results answer.
    home: Option<usize>,
    /// The groups that its late results belong to.
    late_homes: BTreeSet<usize>,
}

impl<'a> Admission<'a> {
    fn new(view: &'a View, quirks: Quirks, stored: bool) -> Self {
        Admission {
            view,
            quirks,
            stored,
            edits: Vec::new(),
            joins: if view.answer_goes_on() { view.groups.last() } else { None },
            names: HashSet::new(),
            next: HashMap::new(),
            next_of_tool: HashMap::new(),
            given: HashSet::new(),
            asked_for: HashSet::new(),
            home: None,
            late_homes: BTreeSet::new(),
        }
    }

    fn add(&mut self, part: usize, change: Change) {
        self.edits.push(Edit { part, change });
    }

    /// Gives a call a valid, unused identifier, and an object as its arguments, unless it already has them.
    fn name_call(&mut self, part: usize, call: &ToolCall) {
        let joined = |id: &str| self.joins.is_some_and(|group| group.calls.shows(id));
        let known =
            |id: &str| self.names.contains(id) || joined(id) || !self.quirks.results_by_name && self.view.awaits(id);
        let most = self.quirks.longest_id;
        let short = call.id.chars().nth(most).map(|_| shortened(&call.id, most));
        let mut id = short.unwrap_or_else(|| call.id.clone());
        if known(&id) || !(self.quirks.valid_id)(&id) {
            id = free_name(&id, most, known);
        }
        if id != call.id {
            self.add(part, Change::Rename(id.clone()));
        }
        self.names.insert(id);
        if !call.has_object_arguments() {
            let object = serde_json::json!({ "invalid_arguments": call.arguments });
            self.add(part, Change::Arguments(object.to_string()));
        }
    }

    /// Fills in the content of an empty error, if the provider refuses empty errors.
    fn fill_empty_error(&mut self, part: usize, result: &ToolResult) {
        if self.quirks.refuses_empty_error && result.is_empty_error() {
            self.add(part, Change::Cut { item: 0, cut: Cut::note(EMPTY_ERROR) });
            (1..result.content.len()).for_each(|item| self.add(part, Change::Cut { item, cut: Cut::note("") }));
        }
    }

    /// Matches a result to the call that it answers, or hides it.
    fn find_call(&mut self, part: usize, result: &'a ToolResult) {
        let view = self.view;
        if let Some(answered) = self.named(result) {
            self.home = Some(answered.group);
            self.tie(part, result, &answered);
            return;
        }
        let id = result.call_id.as_str();
        let mut from = self.next.get(id).copied().unwrap_or_default();
        let found = loop {
            match view.resolve(id, self.home, from) {
                Ok(answered) if self.given.contains(answered.name) => from = answered.place + 1,
                found => break found,
            }
        };
        match found {
            Ok(answered) => {
                self.home = Some(answered.group);
                self.next.insert(id, answered.place + 1);
                self.tie(part, result, &answered);
            }
            // The late result waits under the name of the stand-in that it will replace.
            Err(Hidden::Late) => match view.stand_in(id, from) {
                Some(stand_in) if self.late_homes.len() < MOST_LATE || self.late_homes.contains(&stand_in.group) => {
                    self.late_homes.insert(stand_in.group);
                    self.add(part, Change::Hide(Hidden::Late));
                    self.next.insert(id, stand_in.place + 1);
                    self.tie(part, result, &stand_in);
                }
                Some(_) | None => self.add(part, Change::Hide(Hidden::Duplicate)),
            },
            Err(Hidden::Orphan) if self.stored => {}
            Err(hidden) => self.add(part, Change::Hide(hidden)),
        }
    }

    /// Returns the call that a result answers by the name of its tool alone: the next open call of that tool in the
    /// newest round.
    fn named(&mut self, result: &'a ToolResult) -> Option<Answered<'a>> {
        let view = self.view;
        let is_by_name = result.names_only_tool() || view.group_of(&result.call_id).is_none();
        if !self.quirks.results_by_name || !is_by_name {
            return None;
        }
        let tool = result.tool.as_deref()?;
        let group = view.groups().iter().rposition(|group| group.kind.is_round())?;
        if self.home.is_some_and(|home| home != group) {
            return None;
        }
        let calls = &view.groups().get(group)?.calls;
        let next = self.next_of_tool.entry(tool).or_default();
        loop {
            let (place, name) = calls.open_of_tool(tool, *next)?;
            *next = place + 1;
            if !self.given.contains(name) && !self.asked_for.contains(name) {
                return Some(Answered { group, place, name });
            }
        }
    }

    /// Matches a result to a call, under whose name it is shown.
    fn tie(&mut self, part: usize, result: &ToolResult, call: &Answered<'a>) {
        if self.quirks.results_by_name {
            self.given.insert(call.name);
        }
        if call.name != result.call_id {
            self.add(part, Change::Rename(call.name.to_owned()));
        }
    }
}

/// Shortens an identifier to at most `most` characters: its beginning and a digest of the whole, with room for a
/// number. The digest is needed because many long identifiers differ only at their ends.
fn shortened(id: &str, most: usize) -> String {
    let digest = format!("_{:016x}", xxhash_rust::xxh3::xxh3_64(id.as_bytes()));
    let room = most.saturating_sub(digest.len() + 4);
    id.chars().take(room).collect::<String>() + &digest
}

/// Returns a name of at most `most` characters for a call whose own identifier cannot be sent. It has the first 48
/// characters of the identifier, with `_` for each character that is not allowed. If that name is taken, it has a
/// number, and fewer of these characters if there is no room.
///
/// The number is found by doubling and then by binary search, because a message may have any number of calls with one
/// identifier.
fn free_name(id: &str, most: usize, known: impl Fn(&str) -> bool) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let stem: String = id.chars().take(most.min(48)).map(plain).collect();
    let stem = if stem.is_empty() { "call".to_owned() } else { stem };
    if !known(&stem) {
        return stem;
    }
    let name = |number: u64| {
        let end = format!("_{number}");
        stem.chars().take(most.saturating_sub(end.len())).collect::<String>() + &end
    };
    let (mut taken, mut free) = (1, 2);
    while known(&name(free)) {
        (taken, free) = (free, free.saturating_mul(2));
    }
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        if known(&name(middle)) { taken = middle } else { free = middle }
    }
    name(free)
}

//! What is wrong with a history, and what mends it: found as a message arrives, or when a window is asked for.

use std::sync::Arc;

use super::{Answer, Author, Item, View, ViewGroup};
use crate::cut::{self, Change, Cut, Edit, Hidden};
use crate::dialect::Dialect;
use crate::group::Kind;
use crate::message::{Message, PartRef};
use crate::tokens::Size;
use crate::transcript::{Position, Repair};

/// What stands in a result that says it is an error and nothing else, where the provider refuses that.
const EMPTY_ERROR: &str = "[The tool failed and gave no output.]";

/// A tool call that nobody has answered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenCall {
    pub(crate) position: Position,
    /// The identifier that it is shown by.
    pub(crate) id: String,
}

impl View {
    /// The calls that have no result and no stand-in.
    pub(crate) fn open_calls(&self) -> Vec<OpenCall> {
        let mut open = Vec::new();
        // What is open is near the end, but answered rounds may stand among what is not: a client may bring a whole history.
        for group in self.groups.iter().rev() {
            if open.len() as u64 >= self.open {
                break;
            }
            let Some(first) = group.items.first() else { continue };
            let calls = group.calls.iter().rev().filter(|call| call.answer == Answer::Open);
            open.extend(calls.map(|call| OpenCall {
                position: first.position,
                id: cut::renamed(&first.edits, call.part).unwrap_or(&call.id).to_owned(),
            }));
        }
        open.reverse();
        open
    }

    /// What has to be done to a message so that it can be sent after what is here: the repairs of its [`Arrival`].
    pub(crate) fn admit(&self, message: &Message, dialect: Dialect) -> Vec<Edit> {
        let quirks = dialect.quirks();
        let mut edits = Vec::new();
        let mut add = |part, change| edits.push(Edit { part, change });
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let mut here: Vec<String> = Vec::new();
        let mut waiting: Vec<String> = Vec::new();
        let mut home = None;
        for (part, value) in message.parts().enumerate() {
            match value {
                PartRef::Text(text) if quirks.refuses_blank && text.trim().is_empty() => {
                    add(part, Change::Hide(Hidden::Blank));
                }
                PartRef::Reasoning(reasoning) if quirks.signed_reasoning && reasoning.signature.is_none() => {
                    add(part, Change::Hide(Hidden::Unsigned));
                }
                PartRef::ToolCall(call) => {
                    let known =
                        |id: &str| here.iter().any(|other| other == id) || (quirks.unique_ids && self.shows(id));
                    let mut id = call.id.clone();
                    if known(&id) || !(quirks.valid_id)(&id) {
                        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
                        let stem: String = id.chars().take(48).map(plain).collect();
                        let stem = if stem.is_empty() { "call".to_owned() } else { stem };
                        let names = std::iter::once(stem.clone()).chain((2u64..).map(|n| format!("{stem}_{n}")));
                        id = names.into_iter().find(|name| !known(name)).unwrap_or(stem);
                        add(part, Change::Rename(id.clone()));
                    }
                    here.push(id);
                    if !call.has_object_arguments() {
                        let object = serde_json::json!({ "invalid_arguments": call.arguments });
                        add(part, Change::Arguments(object.to_string()));
                    }
                }
                PartRef::ToolResult(result) => {
                    if quirks.refuses_empty_error && result.is_empty_error() {
                        add(part, Change::Cut { item: 0, cut: Cut::note(EMPTY_ERROR) });
                        (1..result.content.len()).for_each(|item| add(part, Change::Cut { item, cut: Cut::note("") }));
                    }
                    match self.resolve(&result.call_id, home, &taken) {
                        Ok((group, call, shown)) => {
                            home = Some(group);
                            taken.push((group, call));
                            if shown != result.call_id {
                                add(part, Change::Rename(shown));
                            }
                        }
                        // It waits under the name of the stand-in that it will replace.
                        Err(Hidden::Late) => match self.stand_in(&result.call_id, &waiting) {
                            Some(shown) => {
                                add(part, Change::Hide(Hidden::Late));
                                if shown != result.call_id {
                                    add(part, Change::Rename(shown.clone()));
                                }
                                waiting.push(shown);
                            }
                            None => add(part, Change::Hide(Hidden::Duplicate)),
                        },
                        Err(hidden) => add(part, Change::Hide(hidden)),
                    }
                }
                PartRef::Text(_)
                | PartRef::Image(_)
                | PartRef::Document(_)
                | PartRef::Reasoning(_)
                | PartRef::Opaque(_) => {}
            }
        }
        if (quirks.has_refused_members)(message) {
            // Behind the last part there is nothing to hide but those members.
            add(message.parts().count(), Change::Hide(Hidden::Blank));
        }
        if message.parts().all(|part| part.is_cache_marker()) {
            add(0, Change::Hide(Hidden::Blank));
        }
        edits
    }

    /// The open call that a result answers, and the identifier it is shown by; else why the result is not shown.
    fn resolve(
        &self,
        id: &str,
        home: Option<usize>,
        taken: &[(usize, usize)],
    ) -> Result<(usize, usize, String), Hidden> {
        let index = self.group_of(id).ok_or(Hidden::Orphan)?;
        let group = self.groups.get(index).ok_or(Hidden::Orphan)?;
        let edits = group.items.first().map(|item| &*item.edits).unwrap_or_default();
        let same = || group.calls.iter().enumerate().filter(|(_, call)| call.id == id);
        let free = same().find(|(at, call)| call.answer == Answer::Open && !taken.contains(&(index, *at)));
        match free {
            // One message cannot answer two others: what it says to the second is a stray.
            Some(_) if home.is_some_and(|home| home != index) => Err(Hidden::Orphan),
            Some((at, call)) => Ok((index, at, cut::renamed(edits, call.part).unwrap_or(&call.id).to_owned())),
            None if same().any(|(_, call)| call.answer == Answer::StandIn) => Err(Hidden::Late),
            None => Err(Hidden::Duplicate),
        }
    }

    /// The name of a stand-in for a call's result, for which none waits yet.
    fn stand_in(&self, id: &str, waiting: &[String]) -> Option<String> {
        let group = self.groups.get(self.group_of(id)?)?;
        let edits = group.items.first().map(|item| &*item.edits)?;
        let waits = |item: &Item, name: &str| {
            let mut results = item.message.tool_results().filter(|(part, _)| !cut::is_hidden(&item.edits, *part));
            results.any(|(part, result)| cut::renamed(&item.edits, part).unwrap_or(&result.call_id) == name)
        };
        let taken =
            |name: &&str| waiting.iter().any(|other| other == name) || self.late.iter().any(|item| waits(item, name));
        let calls = group.calls.iter().filter(|call| call.id == id && call.answer == Answer::StandIn);
        let mut names = calls.map(|call| cut::renamed(edits, call.part).unwrap_or(&call.id));
        names.find(|name| !taken(name)).map(str::to_owned)
    }

    /// Whether a call that is shown goes by this identifier.
    fn shows(&self, id: &str) -> bool {
        self.calls.contains_key(id)
            || self
                .groups
                .iter()
                .rev()
                .flat_map(|group| group.items.first())
                .any(|item| item.edits.iter().any(|edit| matches!(&edit.change, Change::Rename(name) if name == id)))
    }

    /// The late results whose stand-ins stand in a group: the item that takes their place, and the stand-ins' positions. Of
    /// a message that answers calls of several groups, each has its own part.
    pub(crate) fn late_for(&self, group: &ViewGroup) -> Vec<(Item, Vec<Position>)> {
        if self.late.is_empty() {
            return Vec::new();
        }
        let stand_in = |name: &str| {
            let answers = |own: &&Item| {
                own.by == Author::Mend && own.message.tool_results().any(|(_, result)| result.call_id == name)
            };
            group.items.iter().find(answers).map(|own| own.position)
        };
        let mut taken: Vec<Position> = Vec::new();
        let mut found = Vec::new();
        for item in &self.late {
            let mut edits = item.edits.to_vec();
            let mut stand_ins = Vec::new();
            for (part, result) in item.message.tool_results().filter(|(part, _)| !cut::is_hidden(&item.edits, *part)) {
                let name = cut::renamed(&item.edits, part).unwrap_or(&result.call_id);
                match stand_in(name).filter(|position| !taken.contains(position) && !stand_ins.contains(position)) {
                    Some(position) => stand_ins.push(position),
                    None => edits.push(Edit { part, change: Change::Hide(Hidden::Late) }),
                }
            }
            if !stand_ins.is_empty() {
                taken.extend(&stand_ins);
                found.push((Item { edits: edits.into(), ..item.clone() }, stand_ins));
            }
        }
        found
    }

    /// Mends what an entry says.
    pub(super) fn repair(&mut self, position: Position, repair: &Repair) {
        let item = |message: &Message, size: &Size| Item {
            position,
            message: Arc::new(message.clone()),
            edits: Arc::new([]),
            size: *size,
            by: Author::Mend,
        };
        match repair {
            Repair::StandIn { call, message, size } => {
                let at = self
                    .groups
                    .iter()
                    .rposition(|group| group.items.first().is_some_and(|item| item.position == *call));
                let Some(index) = at else { return };
                for (_, result) in message.tool_results() {
                    let id = self.original(index, &result.call_id);
                    self.answer(index, &id, Some(&result.call_id), Answer::StandIn);
                }
                self.add_to(index, item(message, size));
            }
            Repair::Trim { message, edit, size } => {
                let mut groups = self.groups.iter_mut().rev();
                let found = groups.find_map(|group| {
                    let at = group.items.iter().position(|item| item.position == *message)?;
                    Some((group, at))
                });
                if let Some((group, at)) = found
                    && let Some(item) = group.items.get_mut(at)
                {
                    self.totals.size = self.totals.size - item.size + *size;
                    group.size = group.size - item.size + *size;
                    item.edits = item.edits.iter().chain([edit]).cloned().collect();
                    item.size = *size;
                }
            }
            Repair::Opening { message, size } => {
                let first =
                    self.groups.iter().position(|group| group.kind != Kind::System).unwrap_or(self.groups.len());
                let items = vec![item(message, size)];
                let turn = self.groups.get(first).map_or(self.turn, |group| group.turn);
                let group =
                    ViewGroup { number: 0, kind: Kind::User, turn, round: 0, items, size: *size, calls: Vec::new() };
                let counted = self.totals.turns;
                self.open_group(group, Some(first));
                // It shares the turn of what it stands before.
                self.totals.turns = counted.max(1);
            }
        }
    }

    /// The identifier that the client knows a shown call by.
    fn original(&self, index: usize, shown: &str) -> String {
        let group = self.groups.get(index);
        let found = group.and_then(|group| {
            let edits = group.items.first().map(|item| &*item.edits).unwrap_or_default();
            group.calls.iter().find(|call| cut::renamed(edits, call.part).unwrap_or(&call.id) == shown)
        });
        found.map_or_else(|| shown.to_owned(), |call| call.id.clone())
    }
}

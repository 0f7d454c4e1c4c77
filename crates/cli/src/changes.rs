//! The changes that make a provider accept messages, for `check --fix` and for the warnings of `window`.

use std::collections::{HashMap, HashSet};
use std::fmt;

use lookback_content::text;
use lookback_engine::transcript::{Arrival, Entry, Position, Repair};
use lookback_engine::view::View;
use lookback_replay::explain;
use lookback_wire::dialect::{Mend, Target};
use lookback_wire::edit::{self, Change as EditChange, Edit};
use serde::Serialize;

/// The change of one message.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Change {
    /// The index of the message in the history, from 0.
    pub(crate) message: usize,
    /// The change and its reason.
    pub(crate) change: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "messages[{}]: {}", self.message, self.change)
    }
}

/// Returns all changes that make the messages of a log valid, in the order of the history.
///
/// These are the repairs in the log, and the changes that encoding makes to the messages of the view. Omits changes
/// that a compaction caused.
pub(crate) fn changes(entries: &[Entry], view: &View, target: &Target) -> Vec<Change> {
    let history = History::new(entries, view, target);
    let mut changes = Vec::new();
    for (position, entry) in (0..).zip(entries) {
        match entry {
            Entry::Message(arrival) => changes.extend(history.changes_of_message(position, arrival)),
            Entry::Repair(repair) => changes.extend(history.change_of_repair(repair)),
            _ => {}
        }
    }
    changes.sort_by_key(|change| change.message);
    changes.dedup();
    changes
}

/// The messages of a log, and the changes that encoding makes to them.
struct History<'a> {
    view: &'a View,
    /// The index of each message among the messages of the log.
    indices: HashMap<Position, usize>,
    mends: HashMap<Position, Vec<Mend>>,
    /// The messages whose predecessor has left the view.
    orphaned: HashSet<Position>,
}

impl<'a> History<'a> {
    fn new(entries: &[Entry], view: &'a View, target: &Target) -> History<'a> {
        let is_message = |(_, entry): &(Position, &Entry)| matches!(entry, Entry::Message(_));
        let messages = (0..).zip(entries).filter(is_message).enumerate();
        History {
            view,
            indices: messages.map(|(index, (position, _))| (position, index)).collect(),
            mends: explain::mends(view, target.clone()),
            orphaned: orphaned(entries, view),
        }
    }

    fn index(&self, position: Position) -> usize {
        self.indices.get(&position).copied().unwrap_or_default()
    }

    /// Returns the repairs of a message as it arrived, and the changes that encoding makes to it.
    fn changes_of_message(&self, position: Position, arrival: &Arrival) -> Vec<Change> {
        // A part that is left out is mentioned once, without its other edits.
        let is_shown =
            |edit: &&Edit| matches!(edit.change, EditChange::Hide(_)) || !edit::is_hidden(&arrival.edits, edit.part);
        let parts: Vec<_> = if arrival.edits.is_empty() { Vec::new() } else { arrival.message.parts().collect() };
        let repairs = arrival.edits.iter().filter(is_shown).filter_map(|edit| edit.repair(&parts));

        // If a compaction removed the predecessor, it also caused most changes of encoding.
        let is_orphaned = self.orphaned.contains(&position);
        let is_own = |mend: &&Mend| !is_orphaned || matches!(mend, Mend::Moved | Mend::MarkersRemoved { .. });
        let mends = self.mends.get(&position).into_iter().flatten().filter(is_own).map(|mend| mend.to_string());

        let message = self.index(position);
        repairs.chain(mends).map(|change| Change { message, change }).collect()
    }

    /// Returns a repair that was made before a call.
    fn change_of_repair(&self, repair: &Repair) -> Option<Change> {
        Some(match repair {
            Repair::StandIn { call, message, .. } => {
                let ids: Vec<_> = message.tool_results().map(|(_, result)| text::short(&result.call_id)).collect();
                let change = format!("call {} has no result: a stand-in is sent", ids.join(", "));
                Change { message: self.index(*call), change }
            }
            Repair::Trim { message, .. } => {
                let change = "the last message ends in white space, which is removed".to_owned();
                Change { message: self.index(*message), change }
            }
            Repair::Opening { .. } => {
                let first = self.view.messages().find(|item| !item.is_own()).map(|item| self.index(item.position()));
                let change =
                    "the history does not begin with a user message: an opening message is sent before it".to_owned();
                Change { message: first.unwrap_or_default(), change }
            }
            _ => return None,
        })
    }
}

/// Returns the messages whose predecessor in the history is not in the view, although it could be sent.
fn orphaned(entries: &[Entry], view: &View) -> HashSet<Position> {
    let shown: HashSet<Position> = view.messages().map(|item| item.position()).collect();
    let mut orphaned = HashSet::new();
    let mut is_predecessor_gone = false;
    for (position, entry) in (0..).zip(entries) {
        let Entry::Message(arrival) = entry else { continue };
        if is_predecessor_gone {
            orphaned.insert(position);
        }
        if !edit::hides_all(&arrival.message, &arrival.edits) {
            is_predecessor_gone = !shown.contains(&position);
        }
    }
    orphaned
}

/// Joins all changes of each message into one.
pub(crate) fn by_message(changes: &[Change]) -> Vec<Change> {
    let joined = |changes: &[Change]| {
        let sentences: Vec<_> = changes.iter().map(|change| change.change.as_str()).collect();
        Some(Change { message: changes.first()?.message, change: sentences.join("; ") })
    };
    changes.chunk_by(|a, b| a.message == b.message).filter_map(joined).collect()
}

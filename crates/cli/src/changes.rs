//! What was done to messages so that a provider takes them: told alike by `check --fix` and in the warnings of `window`.

use std::collections::{HashMap, HashSet};
use std::fmt;

use lookback::cut::{self, Change as EditChange, Edit};
use lookback::dialect::Mend;
use lookback::transcript::{Entry, Position, Repair};
use lookback::{Dialect, View, explain};
use serde::Serialize;

use crate::words;

/// What was done to one message.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Change {
    /// Its index in the history.
    pub(crate) message: usize,
    /// What was done, and why.
    pub(crate) change: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "messages[{}]: {}", self.message, self.change)
    }
}

/// All that was done to the messages of a log: repairs as they arrived and before a call, and what is done to those of the view
/// as they are sent. In the order of the history; what a compaction has brought about is not among it.
pub(crate) fn changes(entries: &[Entry], view: &View, dialect: Dialect) -> Vec<Change> {
    let mends = explain::mends(view, dialect);
    let shown: HashSet<Position> = view.messages().map(|item| item.position()).collect();
    let is_message = |(_, entry): &(Position, &Entry)| matches!(entry, Entry::Message(_));
    let messages = (0..).zip(entries).filter(is_message).enumerate();
    let indices: HashMap<Position, usize> = messages.map(|(index, (position, _))| (position, index)).collect();
    let index = |position: Position| indices.get(&position).copied().unwrap_or_default();
    let mut changes = Vec::new();
    // Whether a compaction took what came before a message. Then that is why it has another neighbor.
    let mut bereft = false;
    for (position, entry) in (0..).zip(entries) {
        match entry {
            Entry::Message(arrival) => {
                let mut tell = |change| changes.push(Change { message: index(position), change });
                let told = |edit: &&Edit| {
                    // What is left out goes by no name.
                    matches!(edit.change, EditChange::Hide(_)) || !cut::is_hidden(&arrival.edits, edit.part)
                };
                let repairs = arrival.edits.iter().filter(told);
                let parts: Vec<_> =
                    if arrival.edits.is_empty() { Vec::new() } else { arrival.message.parts().collect() };
                repairs.filter_map(|edit| words::repair(&parts, edit)).for_each(&mut tell);
                let its_own = |mend: &&Mend| !bereft || matches!(mend, Mend::Moved | Mend::MarkersRemoved { .. });
                let mends = mends.get(&position).into_iter().flatten().filter(its_own);
                mends.map(|mend| words::mend(*mend)).for_each(&mut tell);
                if !cut::hides_all(&arrival.message, &arrival.edits) {
                    bereft = !shown.contains(&position);
                }
            }
            Entry::Repair(Repair::StandIn { call, message, .. }) => {
                let ids: Vec<_> = message.tool_results().map(|(_, result)| words::short(&result.call_id)).collect();
                let change = format!("call {} has no result: a stand-in is sent", ids.join(", "));
                changes.push(Change { message: index(*call), change });
            }
            Entry::Repair(Repair::Trim { message, .. }) => {
                let change = "the last message ends in white space: it is sent without".to_owned();
                changes.push(Change { message: index(*message), change });
            }
            Entry::Repair(Repair::Opening { .. }) => {
                let first = view.messages().find(|item| !item.is_own()).map(|item| index(item.position()));
                let change =
                    "the history does not begin with a user's message: an opening is sent before it".to_owned();
                changes.push(Change { message: first.unwrap_or_default(), change });
            }
            Entry::Preamble { .. }
            | Entry::Compaction(_)
            | Entry::Usage(_)
            | Entry::Label(_)
            | Entry::Checkpoint(_)
            | Entry::Branch { .. } => {}
        }
    }
    changes.sort_by_key(|change| change.message);
    changes.dedup();
    changes
}

/// All that was done to each message in one sentence.
pub(crate) fn by_message(changes: &[Change]) -> Vec<Change> {
    let joined = |changes: &[Change]| {
        let sentences: Vec<_> = changes.iter().map(|change| change.change.as_str()).collect();
        Some(Change { message: changes.first()?.message, change: sentences.join("; ") })
    };
    changes.chunk_by(|a, b| a.message == b.message).filter_map(joined).collect()
}

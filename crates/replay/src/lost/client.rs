//! A client's own compactions in the timeline of a session: where they are, and what they dropped.

use std::collections::{BTreeMap, HashMap, HashSet};

use lookback_content::identifiers::names;
use lookback_engine::transcript::Position;
use lookback_recordings::Recording;
use lookback_wire::message::{Message, Role};

use super::{Lost, short_enough};
use crate::timeline::{Fate, Row, RowKind, Timeline};

/// A compaction by the client. In what it dropped, the index of a message is that of its row.
#[derive(Debug, Clone)]
pub struct ClientCompaction {
    /// The number of the first call behind it.
    pub call: u64,
    /// What it dropped.
    pub lost: Lost,
}

impl ClientCompaction {
    /// Returns the compactions of a recording, in the timeline of its replay. `begins` has the position of each message.
    pub fn in_replay(timeline: &Timeline, recording: &Recording, begins: &[Position]) -> Vec<ClientCompaction> {
        let said = timeline.rows.iter().enumerate().filter(|(_, row)| row.kind.name().is_none());
        let rows: HashMap<Position, usize> = said.map(|(index, row)| (row.position, index)).collect();
        let row = |message: usize| rows.get(begins.get(message)?).copied();
        let shown = |mut lost: Lost| {
            lost.summary = row(lost.summary)?;
            lost.rules.retain_mut(|rule| row(rule.message).inspect(|row| rule.message = *row).is_some());
            lost.decisions.retain_mut(|it| row(it.message).inspect(|row| it.message = *row).is_some());
            lost.names.retain_mut(|name| row(name.message).inspect(|row| name.message = *row).is_some());
            let call = timeline.rows.get(lost.summary)?.states.first()?.call;
            Some(ClientCompaction { call, lost })
        };
        Lost::all(recording).into_iter().filter_map(shown).collect()
    }

    /// Returns the compactions in a session's log: the calls before which the client replaced messages by fewer tokens.
    ///
    /// A person who edits or repeats a question also leaves messages, but then the client adds nothing that the model
    /// has said. So it is a compaction if nothing of several answers stays, or if the client brings an answer.
    pub fn in_log(timeline: &Timeline) -> Vec<ClientCompaction> {
        let mut left: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, row) in timeline.rows.iter().enumerate().filter(|(_, row)| row.kind == RowKind::Message) {
            let leaves = row.states.iter().filter(|state| state.fate == Fate::Abandoned);
            leaves.for_each(|state| left.entry(state.call).or_default().push(index));
        }
        left.into_iter().filter_map(|(call, left)| at(timeline, call, &left)).collect()
    }
}

/// Returns the compaction before a call, if the client left these rows to compact its history.
fn at(timeline: &Timeline, call: u64, left: &[usize]) -> Option<ClientCompaction> {
    let is_sent = |row: &Row| row.at(call).is_some_and(|state| state.is_shown);
    let sent = timeline.rows.iter().enumerate().filter(|(_, row)| row.kind.name().is_none() && is_sent(row));
    let is_new = |row: &Row| row.states.first().is_some_and(|state| state.call == call);
    let (new, stays): (Vec<_>, Vec<_>) = sent.partition(|(_, row)| is_new(row));
    let is_models = |row: &Row| row.message.role() == Role::Assistant;
    let row = |index: &usize| timeline.rows.get(*index);
    let is_rewritten = !stays.iter().any(|(_, row)| is_models(row)) || new.iter().any(|(_, row)| is_models(row));
    let tokens = |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.tokens).sum::<u64>();
    let is_shorter = tokens(&mut new.iter().map(|(_, row)| *row)) < tokens(&mut left.iter().filter_map(row));
    let answers = left.iter().filter_map(row).filter(|row| is_models(row)).count();
    if !is_rewritten || !is_shorter || answers < 2 {
        return None;
    }
    let (summary, first) = new.first()?;
    let later = timeline.rows.iter().filter(|row| row.position > first.position && is_models(row) && !is_sent(row));
    let later: Vec<String> = later.map(|row| row.message.text()).filter(|text| short_enough(text)).collect();
    let used: HashSet<&str> = later.iter().flat_map(|text| names(text)).collect();
    let stays: Vec<&Message> = stays.iter().chain(&new).map(|(_, row)| &*row.message).collect();
    let kept: HashSet<String> = stays.iter().map(|message| message.text()).collect();
    let left = left.iter().filter_map(|index| Some((*index, &*row(index)?.message)));
    let dropped: Vec<(usize, &Message)> = left.filter(|(_, message)| !kept.contains(&message.text())).collect();
    let lost = Lost::between(*summary, &dropped, &stays, |name| used.contains(name));
    Some(ClientCompaction { call, lost })
}

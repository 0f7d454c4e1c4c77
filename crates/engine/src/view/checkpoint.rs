//! Checkpoints: saving the state of a view, and restoring it, so that a reader can start in the middle of a log.

use super::compaction::{index_group, number, summary_group};
use super::groups::ViewGroup;
use super::history::History;
use super::item::{Author, Item};
use super::{Beside, View};
use crate::entry::{Checkpoint, Entry, Position, Repair, SavedGroup, ShownItem};
use crate::group::GroupKind;
use lookback_wire::edit;

impl View {
    /// Returns a checkpoint of this view, from which a reader can start.
    pub fn checkpoint(&self) -> Checkpoint {
        let save = |group: &ViewGroup| SavedGroup {
            turn: group.turn,
            round: group.round,
            items: group.items.iter().map(Item::saved).collect(),
            index: group.kind == GroupKind::Index,
        };
        Checkpoint {
            groups: self.groups.iter().map(save).collect(),
            late: self.late.items().iter().map(Item::saved).collect(),
            turn: self.history.turn,
            round: self.history.round,
            messages: self.history.messages,
            chain: self.history.chain,
            path: self.history.path.clone(),
            label: self.beside.label.clone(),
            changed: self.changed,
            preamble: self.beside.preamble.as_ref().map(|(position, _)| *position),
            calibrations: self.beside.calibrations.clone(),
            last_call: Box::new(self.beside.last_call.clone()),
            newest: self.history.newest,
            compacted: self.history.compacted,
            cut: self.history.cut,
            is_models: self.history.is_models,
            reading: self.history.reading.clone(),
            erased_before: self.beside.erased_before,
        }
    }

    /// Restores the view that a checkpoint was made of.
    ///
    /// `entry` returns the entries at the positions of [`Checkpoint::spans`]. Returns `None` if one of them is missing,
    /// which happens only in a damaged log.
    pub fn restore<'a>(checkpoint: &Checkpoint, mut entry: impl FnMut(Position) -> Option<&'a Entry>) -> Option<View> {
        let history = History {
            turn: checkpoint.turn,
            round: checkpoint.round,
            messages: checkpoint.messages,
            chain: checkpoint.chain,
            path: checkpoint.path.clone(),
            newest: checkpoint.newest,
            compacted: checkpoint.compacted,
            cut: checkpoint.cut,
            is_models: checkpoint.is_models,
            reading: checkpoint.reading.clone(),
        };
        let mut view = View {
            history,
            beside: Beside {
                calibrations: checkpoint.calibrations.clone(),
                label: checkpoint.label.clone(),
                last_call: (*checkpoint.last_call).clone(),
                erased_before: checkpoint.erased_before,
                ..Beside::default()
            },
            changed: checkpoint.changed,
            ..View::default()
        };
        if let Some(position) = checkpoint.preamble
            && let Entry::Preamble { preamble, size } = entry(position)?
        {
            view.beside.preamble = Some((position, preamble.clone()));
            view.beside.preamble_size = *size;
        }
        let item = |saved: &ShownItem, entry: &mut dyn FnMut(Position) -> Option<&'a Entry>| {
            let (message, by) = match entry(saved.position)? {
                Entry::Message(arrival) => (&arrival.message, Author::from_arrival(arrival)),
                Entry::Repair(Repair::StandIn { message, .. } | Repair::Opening { message, .. }) => {
                    (message, Author::Mend)
                }
                _ => return None,
            };
            Some(Item::new(saved.position, message, edit::in_order(saved.edits.clone()), saved.size, by))
        };
        let mut groups = Vec::with_capacity(checkpoint.groups.len());
        for saved in &checkpoint.groups {
            if let [shown] = saved.items.as_slice()
                && let Entry::Compaction(compaction) = entry(shown.position)?
            {
                let at = shown.position;
                if saved.index {
                    view.index = Some(compaction.index.clone()?);
                    groups.push(index_group(at, at, compaction.index.as_ref()?));
                } else {
                    view.summary = Some((at, compaction.summary.clone()?));
                    groups.push(summary_group(at, at, compaction.summary.as_ref()?));
                }
                continue;
            }
            let items = saved.items.iter().map(|saved| item(saved, &mut entry)).collect::<Option<Vec<_>>>()?;
            let mut group = ViewGroup::from_items(items, saved.turn, saved.round)?;
            group.refresh();
            groups.push(group);
        }
        number(&mut groups);
        groups.into_iter().for_each(|group| view.add_group(group, None));
        let late = checkpoint.late.iter().map(|saved| item(saved, &mut entry)).collect::<Option<_>>()?;
        view.await_all(late);
        view.is_parted = view.is_now_parted();
        view.outdated = view.is_outdated();
        Some(view)
    }
}

//! Erased entries: the record that replaces an entry whose contents are erased.

use crate::entry::{CompactedGroups, Compaction, Entry, Erased, Millis};

impl Entry {
    /// Returns the entry that replaces this one when its contents are erased at `time`, or `None` if it holds none of
    /// the conversation. A compaction keeps its decisions, and loses its summary, its index and the edits of the
    /// messages it showed. A summary without text stays, because it records which entries it covered.
    pub fn erased(&self, time: Option<Millis>) -> Option<Entry> {
        match self {
            Entry::Message(arrival) => {
                let (role, arrived) = (Some(arrival.message.role()), arrival.time);
                Some(Entry::Erased(Erased { role, size: arrival.size, arrived, time }))
            }
            Entry::Preamble { size, .. } => {
                Some(Entry::Erased(Erased { role: None, size: *size, arrived: None, time }))
            }
            Entry::Compaction(compaction) if compaction.summary.is_some() || compaction.index.is_some() => {
                let summary = compaction.summary.clone().filter(|summary| summary.text.is_empty());
                let without = Compaction { summary, index: None, ..compaction.clone() };
                Some(Entry::Compaction(without.without_edits().unwrap_or(without)))
            }
            // A repair contains only Lookback's own words.
            _ => self.without_edits(),
        }
    }

    /// Returns the entry without the edits of the messages that it shows, because edits may quote messages. Returns
    /// `None` if it has no edits. Use this only for an entry from which no view is folded anymore.
    pub fn without_edits(&self) -> Option<Entry> {
        match self {
            Entry::Compaction(compaction) => compaction.without_edits().map(Entry::Compaction),
            Entry::Checkpoint(checkpoint) => {
                let groups = checkpoint.groups.iter().map(|group| &group.items);
                let has_edits = groups.chain([&checkpoint.late]).flatten().any(|item| !item.edits.is_empty());
                has_edits.then(|| {
                    let mut without = checkpoint.clone();
                    let groups = without.groups.iter_mut().map(|group| &mut group.items);
                    groups.chain([&mut without.late]).flatten().for_each(|item| item.edits.clear());
                    Entry::Checkpoint(without)
                })
            }
            _ => None,
        }
    }
}

impl Compaction {
    fn without_edits(&self) -> Option<Compaction> {
        self.groups.iter().any(|group| group.shown.is_some()).then(|| {
            let groups = self.groups.iter().cloned().map(|group| CompactedGroups { shown: None, ..group });
            Compaction { groups: groups.collect(), ..self.clone() }
        })
    }
}

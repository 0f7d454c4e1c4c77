//! What takes the place of an entry when its contents are erased.

use crate::entry::{CompactedGroups, Compaction, Entry, Erased, Millis};

impl Entry {
    /// Returns what takes the place of the entry when its contents are erased at this time, or `None` if it has none of
    /// the conversation. A compaction keeps what was decided, and loses its summary, its index, and what it showed.
    pub fn erased(&self, time: Option<Millis>) -> Option<Entry> {
        match self {
            Entry::Message(arrival) => {
                let (role, arrived) = (Some(arrival.message.role()), arrival.time);
                Some(Entry::Erased(Erased { role, size: arrival.size, arrived, time }))
            }
            Entry::Preamble { size, .. } => {
                Some(Entry::Erased(Erased { role: None, size: *size, arrived: None, time }))
            }
            Entry::Compaction(compaction) => {
                let has_shown = compaction.groups.iter().any(|group| group.shown.is_some());
                let is_empty = compaction.summary.is_none() && compaction.index.is_none() && !has_shown;
                (!is_empty).then(|| {
                    let groups =
                        compaction.groups.iter().cloned().map(|group| CompactedGroups { shown: None, ..group });
                    let (groups, summary, index) = (groups.collect(), None, None);
                    Entry::Compaction(Compaction { groups, summary, index, ..compaction.clone() })
                })
            }
            // A repair shows Lookback's own words.
            Entry::Repair(_)
            | Entry::Usage(_)
            | Entry::Label(_)
            | Entry::Checkpoint(_)
            | Entry::Branch { .. }
            | Entry::Erased(_) => None,
        }
    }
}

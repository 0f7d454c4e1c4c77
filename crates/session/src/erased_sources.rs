//! Erased contents, to find the texts that were made from them.

use std::collections::BTreeMap;
use std::ops::Range;

use lookback_engine::SummaryClaim;
use lookback_engine::transcript::Position;
use lookback_store::spans::overlap;

/// The erased contents, to find the texts that were made from them.
#[derive(Default)]
pub(super) struct Sources {
    /// The entries, in ascending order, also those that were erased earlier.
    pub(super) gone: Vec<Range<Position>>,
    /// The first entry that was not erased earlier.
    pub(super) first_new: Option<Position>,
    /// The compactions with a running summary, and whether the summary was made from any of these entries.
    pub(super) summaries: BTreeMap<Position, bool>,
    /// The end of the old entries; 0 if entries are named.
    pub(super) until: Position,
    pub(super) keeps_derived: bool,
}

impl Sources {
    /// Whether a summary of these spans, which continues the summary of the compaction at `replaces`, is made from
    /// erased contents.
    pub(super) fn made(&self, covers: &[Range<Position>], replaces: Option<Position>) -> bool {
        let from_before = replaces.is_some_and(|before| {
            // If the earlier summary is lost, its source is unknown. Assume erased contents.
            self.summaries.get(&before).copied().unwrap_or(!self.gone.is_empty())
        });
        from_before || covers.iter().any(|span| overlap(&self.gone, span))
    }

    /// The messages whose facts are erased with them. Facts from contents that were erased earlier were erased then.
    pub(super) fn of_facts(&self) -> &[Range<Position>] {
        if self.keeps_derived || self.first_new.is_none() { &[] } else { &self.gone }
    }

    /// Whether a claim, and so its summary, is made from erased contents.
    pub(super) fn is_claimed(&self, claim: &SummaryClaim) -> bool {
        self.made(&claim.covers, claim.replaces)
    }
}

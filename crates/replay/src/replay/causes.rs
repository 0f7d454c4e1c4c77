//! The causes of misses: how the newest message with a missed text left the window.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use lookback_engine::plan::{Action, Decision};
use lookback_engine::transcript::{Compaction, Position};
use lookback_engine::view::View;
use lookback_wire::edit::{self, Change, Edit};
use lookback_wire::message::Message;
use serde::{Deserialize, Serialize};

use crate::explain::PastDecisions;

/// The cause of a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The text was cut from a tool result as it arrived.
    Capped,
    /// A compaction truncated or cleared the message.
    Cleared,
    /// A compaction dropped the message.
    Dropped,
    /// A running summary replaced the message.
    Summarized,
}

impl Cause {
    /// Every cause.
    const ALL: [Cause; 4] = [Cause::Capped, Cause::Cleared, Cause::Dropped, Cause::Summarized];

    /// Returns the cause as one word, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Capped => "capped",
            Cause::Cleared => "cleared",
            Cause::Dropped => "dropped",
            Cause::Summarized => "summarized",
        }
    }
}

/// The numbers of missed texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Misses {
    /// Identifiers.
    pub identifiers: u64,
    /// Spans.
    pub spans: u64,
}

/// The numbers of missed texts by [`Cause`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Causes {
    /// Cut from a tool result as it arrived.
    pub capped: Misses,
    /// In a message that a compaction truncated or cleared.
    pub cleared: Misses,
    /// In a message that a compaction dropped.
    pub dropped: Misses,
    /// In a message that a running summary replaced.
    pub summarized: Misses,
}

impl Causes {
    /// Returns the numbers of a cause.
    pub(super) fn of(&mut self, cause: Cause) -> &mut Misses {
        match cause {
            Cause::Capped => &mut self.capped,
            Cause::Cleared => &mut self.cleared,
            Cause::Dropped => &mut self.dropped,
            Cause::Summarized => &mut self.summarized,
        }
    }

    /// Returns each cause with its numbers.
    pub fn each(mut self) -> [(Cause, Misses); 4] {
        Cause::ALL.map(|cause| (cause, *self.of(cause)))
    }

    /// Adds the numbers of another report.
    pub(super) fn add(&mut self, mut other: Causes) {
        for cause in Cause::ALL {
            let (own, more) = (self.of(cause), other.of(cause));
            own.identifiers += more.identifiers;
            own.spans += more.spans;
        }
    }
}

impl fmt::Display for Causes {
    /// Writes the share of each cause, the largest first, such as `61 % capped, 39 % dropped`. Nothing without misses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = self.each().map(|(cause, misses)| (cause, misses.identifiers + misses.spans));
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let total: u64 = counts.iter().map(|(_, count)| count).sum();
        for (index, (cause, count)) in counts.iter().filter(|(_, count)| *count > 0).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            #[allow(clippy::cast_precision_loss, reason = "shown without decimals")]
            let share = 100.0 * *count as f64 / total as f64;
            write!(f, "{comma}{share:.0} % {}", cause.as_str())?;
        }
        Ok(())
    }
}

/// The messages that were shortened or left.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    past: PastDecisions,
    /// The tool results that were cut as they arrived.
    capped: HashMap<Position, (Arc<Message>, Arc<[Edit]>)>,
}

impl Departures {
    /// Records a message that arrives with these edits.
    pub(crate) fn arrive(&mut self, position: Position, message: &Arc<Message>, edits: &[Edit]) {
        let is_cut = edits.iter().any(|edit| matches!(edit.change, Change::Cut { .. }));
        if is_cut && message.tool_results().next().is_some() {
            self.capped.insert(position, (message.clone(), edits.into()));
        }
    }

    /// Records the compaction at this position.
    pub(crate) fn compact(&mut self, position: Position, compaction: &Compaction) {
        self.past.read(position, compaction);
    }

    /// Forgets everything from a position on, because a branch goes back to it.
    pub(crate) fn forget_from(&mut self, end: Position) {
        self.past.forget_from(end);
        self.capped.retain(|position, _| *position < end);
    }

    /// Returns the decisions of past compactions.
    pub(crate) fn past(&self) -> &PastDecisions {
        &self.past
    }

    /// Returns why a text is not in the view. The message at `position` is the newest that contains it, and `shows`
    /// returns whether a shortened form of that message still does.
    pub(crate) fn cause(&self, position: Position, view: &View, shows: impl Fn(&str) -> bool) -> Cause {
        let capped = self.capped.get(&position);
        if capped.is_some_and(|(message, edits)| !shows(&edit::shown_text(message, edits))) {
            return Cause::Capped;
        }
        let is_shown = || view.messages().any(|item| item.position() == position);
        match self.past.dropped(position) {
            Some(Decision { action: Action::Summarize, .. }) => Cause::Summarized,
            None if is_shown() => Cause::Cleared,
            _ => Cause::Dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_by_their_shares_the_largest_first() {
        let misses = |identifiers, spans| Misses { identifiers, spans };
        let causes = Causes { capped: misses(1, 2), dropped: misses(4, 5), ..Causes::default() };
        assert_eq!(causes.to_string(), "75 % dropped, 25 % capped");
        assert_eq!(Causes::default().to_string(), "");
    }
}

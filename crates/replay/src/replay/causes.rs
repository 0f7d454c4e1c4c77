//! The causes of misses: how the newest message with a missed text left the window.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use lookback_engine::plan::{Action, Decision};
use lookback_engine::transcript::{Compaction, Position};
use lookback_engine::view::View;
use lookback_wire::edit::{self, Change, Cut, Edit};
use lookback_wire::message::Message;
use serde::{Deserialize, Serialize};

use crate::explain::PastDecisions;

/// The cause of a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

impl fmt::Display for Cause {
    /// Writes the cause as one word, as in JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Capped => "capped",
            Cause::Cleared => "cleared",
            Cause::Dropped => "dropped",
            Cause::Summarized => "summarized",
        })
    }
}

/// Returns whether the view shows the message at this position, shortened or not.
pub(super) fn is_shown(view: &View, position: Position) -> bool {
    view.messages().any(|item| item.position() == position)
}

/// The messages that were shortened or left.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    past: PastDecisions,
    /// The tool results that were cut as they arrived, with their cuts. The lines that were left out because the window
    /// had them do not count: the cap did not remove them.
    capped: HashMap<Position, (Arc<Message>, Vec<Edit>)>,
}

impl Departures {
    /// Records a message that arrives with these edits.
    pub(crate) fn arrive(&mut self, position: Position, message: &Arc<Message>, edits: &[Edit]) {
        let capped = |edit: &Edit| match &edit.change {
            Change::Cut { item, cut } if !cut.marker.is_empty() => {
                let cut = Cut { repeats: Vec::new(), ..cut.clone() };
                Some(Edit { part: edit.part, change: Change::Cut { item: *item, cut } })
            }
            _ => None,
        };
        let edits: Vec<Edit> = edits.iter().filter_map(capped).collect();
        if !edits.is_empty() && message.tool_results().next().is_some() {
            self.capped.insert(position, (message.clone(), edits));
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
        match self.past.dropped(position) {
            Some(Decision { action: Action::Summarize, .. }) => Cause::Summarized,
            None if is_shown(view, position) => Cause::Cleared,
            _ => Cause::Dropped,
        }
    }
}

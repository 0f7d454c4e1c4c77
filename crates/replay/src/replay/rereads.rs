//! Re-acquisition: tool calls that ask again for a result that has left the window.

use std::collections::{HashMap, HashSet};

use lookback_engine::transcript::Position;
use lookback_engine::view::View;
use lookback_wire::edit::{Change, Edit};
use lookback_wire::message::{Message, ToolCall};
use xxhash_rust::xxh3::xxh3_64;

/// The tool calls of a history, with their results.
#[derive(Default)]
pub(super) struct Rereads {
    /// The call of each identifier, by the hash of its tool and arguments.
    calls: HashMap<String, u64>,
    /// The newest result of each such call: its message, and the index of its part.
    results: HashMap<u64, (Position, usize)>,
}

impl Rereads {
    /// Adds a message to the history.
    pub(super) fn push(&mut self, position: Position, message: &Message) {
        self.calls.extend(message.tool_calls().map(|(_, call)| (call.id.clone(), hash(call))));
        for (part, result) in message.tool_results() {
            if let Some(call) = self.calls.get(&result.call_id) {
                self.results.insert(*call, (position, part));
            }
        }
    }

    /// Returns how many calls of the model's next message repeat a call whose result the window does not show whole.
    pub(super) fn count(&self, next: &Message, view: &View) -> u64 {
        let asked = next.tool_calls().filter_map(|(_, call)| self.results.get(&hash(call)).copied());
        let asked: HashSet<(Position, usize)> = asked.collect();
        if asked.is_empty() {
            return 0;
        }
        let mut gone = asked;
        for item in view.messages() {
            let is_whole = |part: usize| !item.edits().iter().any(|edit| edit.part == part && takes(edit));
            gone.retain(|(position, part)| *position != item.position() || !is_whole(*part));
        }
        gone.len() as u64
    }
}

/// Returns whether an edit takes text of a result from the window. Lines that are shown elsewhere stay.
fn takes(edit: &Edit) -> bool {
    matches!(&edit.change, Change::Cut { cut, .. } if !cut.marker.is_empty())
}

fn hash(call: &ToolCall) -> u64 {
    xxh3_64(format!("{}\0{}", call.name, call.arguments).as_bytes())
}

//! Repairs: finds calls without a result, and applies recorded repairs.

use std::sync::Arc;

use super::View;
use super::calls::{Answer, Calls};
use super::groups::ViewGroup;
use super::item::{Author, Item};
use crate::entry::{Position, Repair};
use crate::group::GroupKind;
use lookback_wire::edit::{self, Change, Edit};
use lookback_wire::message::Message;
use lookback_wire::size::Size;

/// A tool call without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenCall {
    pub(crate) position: Position,
    /// The identifier under which it is shown.
    pub(crate) id: String,
}

impl View {
    /// Returns the calls that have neither a result nor a stand-in.
    pub(crate) fn open_calls(&self) -> Vec<OpenCall> {
        let mut open = Vec::new();
        let all = self.calls.open();
        // Open calls are usually near the end. But if a client sends a whole history at once, there may be answered
        // rounds between them.
        for group in self.groups.iter().rev() {
            if open.len() as u64 >= all {
                break;
            }
            let Some(first) = group.items.first() else { continue };
            let calls = group.calls.open_after(0).rev();
            open.extend(calls.map(|name| OpenCall { position: first.position, id: name.to_owned() }));
        }
        open.reverse();
        open
    }

    /// Applies a recorded repair.
    pub(super) fn repair(&mut self, position: Position, repair: &Repair) {
        let item = |message: &Arc<Message>, size: &Size| Item::new(position, message, [], *size, Author::Mend);
        let edited = |item: Item, edits: Vec<Edit>| if edits.is_empty() { item } else { item.edited(edits, item.size) };
        match repair {
            Repair::StandIn { call, message, size } => {
                let Some(index) = self.numbered(*call) else { return };
                let mut edits = Vec::new();
                for (part, result) in message.tool_results() {
                    let name = self.groups.get(index).map(|group| group.open_name(result).to_owned());
                    let Some(name) = name else { return };
                    self.answer(index, &name, Answer::StandIn);
                    if name != result.call_id {
                        edits.push(Edit { part, change: Change::Rename(name) });
                    }
                }
                self.add_to(index, edited(item(message, size), edits));
            }
            Repair::Trim { message, edit, size } => {
                let mut groups = self.groups.iter_mut().rev();
                let found = groups.find_map(|group| {
                    let at = group.items.iter().position(|item| item.position == *message)?;
                    Some((group, at))
                });
                if let Some((group, at)) = found
                    && let Some(item) = group.items.get_mut(at)
                {
                    self.sizes.resize(item.size, *size);
                    group.size = group.size - item.size + *size;
                    item.edits = edit::in_order(item.edits.iter().chain([edit]).cloned().collect()).into();
                    item.size = *size;
                }
            }
            Repair::Opening { message, size } => {
                let first =
                    self.groups.iter().position(|group| group.kind != GroupKind::System).unwrap_or(self.groups.len());
                let items = vec![item(message, size)];
                let turn = self.groups.get(first).map_or(self.history.turn, |group| group.turn);
                let (number, calls) = (position, Calls::default());
                let group = ViewGroup { number, kind: GroupKind::User, turn, round: 0, items, size: *size, calls };
                self.add_group(group, Some(first));
            }
        }
    }
}

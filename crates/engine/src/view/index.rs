//! The tool calls of all groups of a view: the group of each, and how many are open.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::View;
use super::calls::Answer;
use super::groups::ViewGroup;
use crate::entry::Position;
use lookback_wire::message::{Message, ToolCall, ToolResult};

/// The tool calls of all groups of a view.
#[derive(Clone, Default)]
pub(super) struct Index {
    /// The number of the newest group that has a tool call with this identifier.
    groups: HashMap<Arc<str>, Position>,
    /// The names of the calls that are not shown under their own identifier, each with the number of the newest group
    /// that has it.
    renamed: HashMap<String, Position>,
    /// The names of the calls with a stand-in, for which a late result may come.
    stood_in: HashSet<String>,
    /// The names of the calls that have neither a result nor a stand-in, each with the number of such calls.
    open: HashMap<String, u64>,
}

impl Index {
    /// Adds the calls of a group, without the first `known` of them, which were added before.
    pub(super) fn add(&mut self, group: &ViewGroup, known: usize) {
        for id in group.calls.ids().skip(known) {
            // If several groups have an identifier, it leads to the newest.
            match self.groups.get_mut(id) {
                Some(number) => *number = group.number.max(*number),
                None => drop(self.groups.insert(id.clone(), group.number)),
            }
        }
        for name in group.calls.renamed(known) {
            let number = self.renamed.entry(name.to_owned()).or_default();
            *number = group.number.max(*number);
        }
        self.stood_in.extend(group.calls.stood_in(known).map(str::to_owned));
        for name in group.calls.open_after(known) {
            *self.open.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Removes all calls, and keeps the allocated capacity.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
        self.renamed.clear();
        self.stood_in.clear();
        self.open.clear();
    }

    /// Returns the number of calls that have neither a result nor a stand-in.
    pub(super) fn open(&self) -> u64 {
        self.open.values().sum()
    }
}

impl View {
    /// Returns the index of the group that has a call with this identifier: the newest, if several have one.
    pub(super) fn group_of(&self, call: &str) -> Option<usize> {
        self.numbered(*self.calls.groups.get(call)?)
    }

    /// Returns the index of the group whose call is answered by a result that is shown under this name.
    ///
    /// A result that names only its tool is shown under the identifier of the call.
    pub(super) fn home_of(&self, result: &ToolResult, name: &str) -> Option<usize> {
        let by_name = || {
            let numbers = [self.calls.groups.get(name), self.calls.renamed.get(name)];
            self.numbered(*numbers.into_iter().flatten().max()?)
        };
        let by_id = || self.group_of(&result.call_id);
        if result.names_only_tool() { by_name().or_else(by_id) } else { by_id().or_else(by_name) }
    }

    /// Returns whether a call without a result, or with only a stand-in, is shown under this name. If a new call had
    /// the same name, a late result would seem to answer both.
    pub(super) fn awaits(&self, name: &str) -> bool {
        self.calls.stood_in.contains(name) || self.calls.open.contains_key(name)
    }

    /// Returns whether the results of a message belong to the newest group, which is shown last.
    pub(crate) fn is_shown_last(&self, message: &Message) -> bool {
        let is_newest = |group: usize| group + 1 == self.groups.len();
        message.tool_results().all(|(_, result)| self.group_of(&result.call_id).is_none_or(is_newest))
    }

    /// Returns the call of a message that is shown under a name.
    pub(crate) fn named_call(&self, position: Position, name: &str) -> Option<&ToolCall> {
        let group = self.groups.get(self.numbered(position)?)?;
        group.call(group.calls.place_named(name)?)
    }

    /// Returns the newest call with this identifier.
    pub(crate) fn call(&self, id: &str) -> Option<&ToolCall> {
        let group = self.groups.get(self.group_of(id)?)?;
        group.call(group.calls.place(id)?)
    }

    /// Returns the index of the group with a number. If groups were inserted before it, they have the same number, and
    /// this returns the last of them.
    pub(super) fn numbered(&self, number: Position) -> Option<usize> {
        let end = self.groups.partition_point(|group| group.number <= number);
        let index = end.checked_sub(1)?;
        self.groups.get(index).filter(|group| group.number == number).map(|_| index)
    }

    /// Marks the call that is shown under a name as answered.
    pub(super) fn answer(&mut self, index: usize, shown: &str, answer: Answer) {
        let Some(group) = self.groups.get_mut(index) else { return };
        if answer == Answer::StandIn {
            self.calls.stood_in.insert(shown.to_owned());
        }
        if group.calls.answer(shown, answer)
            && let Some(open) = self.calls.open.get_mut(shown)
        {
            *open -= 1;
            if *open == 0 {
                self.calls.open.remove(shown);
            }
        }
    }
}

//! The tool calls of a group, indexed by identifier, because a message may have any number of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::item::{Author, Item};
use crate::entry::Position;
use lookback_wire::edit;

/// The tool calls of a group, and which of them have a result.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Indexes into `calls`, sorted by identifier. Calls with the same identifier keep their order.
    by_id: Vec<usize>,
    /// Indexes into `calls`, sorted by the names under which the calls are shown.
    by_name: Vec<usize>,
    /// Indexes into `calls`, sorted by tool. Calls of the same tool keep their order.
    by_tool: Vec<usize>,
    /// How many calls of an identifier a search may skip. The key is the place of the identifier's first call in
    /// `by_id`. An identifier of one call has none.
    passed: BTreeMap<usize, Passed>,
    /// How many calls of a tool a search for an open call may skip. The key is the place of the tool's first call in
    /// `by_tool`. A tool of one call has none.
    passed_of_tool: BTreeMap<usize, usize>,
}

/// How many calls of one identifier, counted from the first, a search may skip.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    /// In a search for an open call.
    open: usize,
    /// In a search for a stand-in without a late result.
    stood_in: usize,
}

#[derive(Debug, Clone)]
struct Call {
    /// Shared with the index of all calls, which every compaction rebuilds.
    id: Arc<str>,
    tool: Box<str>,
    /// The message that makes it, and the index of its part there.
    place: (Position, usize),
    /// The identifier under which it is shown, if that is a different one.
    name: Option<String>,
    answer: Answer,
    /// Whether a late result waits to replace its stand-in.
    is_awaited: bool,
}

/// Whether a call has a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    Open,
    Given,
    StandIn,
}

impl Call {
    fn id(&self) -> &str {
        &self.id
    }

    fn tool(&self) -> &str {
        &self.tool
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    fn is_settled(&self) -> bool {
        match self.answer {
            Answer::Open => false,
            Answer::Given => true,
            Answer::StandIn => self.is_awaited,
        }
    }
}

/// Returns the calls of a message, all of them open.
fn calls(item: &Item) -> impl Iterator<Item = Call> {
    item.message.tool_calls().map(|(part, call)| Call {
        id: call.id.as_str().into(),
        tool: call.name.as_str().into(),
        place: (item.position, part),
        name: edit::renamed(&item.edits, part).map(str::to_owned),
        answer: Answer::Open,
        is_awaited: false,
    })
}

impl Calls {
    /// Returns the calls of a group's messages, all of them open.
    pub(super) fn from_items(items: &[Item]) -> Calls {
        let calls: Vec<Call> = items.iter().flat_map(calls).collect();
        let sorted = |key: fn(&Call) -> &str| {
            let mut indexes: Vec<usize> = (0..calls.len()).collect();
            indexes.sort_by_key(|index| calls.get(*index).map(key));
            indexes
        };
        let (by_id, by_name, by_tool) = (sorted(Call::id), sorted(Call::name), sorted(Call::tool));
        Calls { calls, by_id, by_name, by_tool, ..Calls::default() }
    }

    /// Adds the calls of a message that joins the group, all of them open.
    pub(super) fn join(&mut self, item: &Item) {
        for call in calls(item) {
            let (index, calls) = (self.calls.len(), &self.calls);
            let behind = |indexes: &[usize], key: fn(&Call) -> &str| {
                indexes.partition_point(|other| calls.get(*other).map_or("", key) <= key(&call))
            };
            self.by_id.insert(behind(&self.by_id, Call::id), index);
            self.by_name.insert(behind(&self.by_name, Call::name), index);
            self.by_tool.insert(behind(&self.by_tool, Call::tool), index);
            self.calls.push(call);
        }
        // Their keys are places that have moved.
        self.passed.clear();
        self.passed_of_tool.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the identifiers, as the client knows them.
    pub(super) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.calls.iter().map(|call| &call.id)
    }

    /// Returns the message and the part with the first call that has this identifier.
    pub(super) fn place(&self, id: &str) -> Option<(Position, usize)> {
        let first = self.by_id.get(self.range(&self.by_id, Call::id, id))?.first()?;
        self.calls.get(*first).map(|call| call.place)
    }

    /// Returns the message and the part with the call that is shown under a name.
    pub(super) fn place_named(&self, name: &str) -> Option<(Position, usize)> {
        let found = self.named(name, |_| true)?;
        self.calls.get(found).map(|call| call.place)
    }

    /// Returns whether a call is shown under a name.
    pub(super) fn shows(&self, name: &str) -> bool {
        self.named(name, |_| true).is_some()
    }

    /// Returns the number of calls.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns the names of the calls that are not shown under their own identifier, without the first `known` calls.
    pub(super) fn renamed(&self, known: usize) -> impl Iterator<Item = &str> {
        self.calls.iter().skip(known).filter_map(|call| call.name.as_deref())
    }

    /// Returns the names of the calls with a stand-in, without the first `known` calls.
    pub(super) fn stood_in(&self, known: usize) -> impl Iterator<Item = &str> {
        self.calls.iter().skip(known).filter(|call| call.answer == Answer::StandIn).map(Call::name)
    }

    /// Returns the names of the calls that have neither a result nor a stand-in, without the first `known` calls.
    pub(super) fn open_after(&self, known: usize) -> impl DoubleEndedIterator<Item = &str> {
        self.calls.iter().skip(known).filter(|call| call.answer == Answer::Open).map(Call::name)
    }

    /// Returns whether the call that is shown under a name has neither a result nor a stand-in.
    pub(super) fn is_open(&self, name: &str) -> bool {
        self.named(name, |call| call.answer == Answer::Open).is_some()
    }

    /// Returns the first call with this identifier and this answer that can still take a result: its place among the
    /// calls of the identifier, and its name. The search begins at place `from`.
    pub(super) fn waiting(&self, id: &str, from: usize, answer: Answer) -> Option<(usize, &str)> {
        let range = self.range(&self.by_id, Call::id, id);
        let passed = self.passed.get(&range.start).copied().unwrap_or_default();
        let place = from.max(if answer == Answer::Open { passed.open } else { passed.stood_in });
        let of_id = self.by_id.get(range).unwrap_or_default().iter().enumerate().skip(place);
        let mut calls = of_id.filter_map(|(place, index)| Some((place, self.calls.get(*index)?)));
        let found = calls.find(|(_, call)| call.answer == answer && !call.is_settled());
        found.map(|(place, call)| (place, call.name()))
    }

    /// Returns the first call of a tool that has neither a result nor a stand-in: its place among the calls of the
    /// tool, and its name. The search begins at place `from`.
    pub(super) fn open_of_tool(&self, tool: &str, from: usize) -> Option<(usize, &str)> {
        let range = self.range(&self.by_tool, Call::tool, tool);
        let from = from.max(self.passed_of_tool.get(&range.start).copied().unwrap_or_default());
        let of_tool = self.by_tool.get(range).unwrap_or_default().iter().enumerate().skip(from);
        let mut calls = of_tool.filter_map(|(place, index)| Some((place, self.calls.get(*index)?)));
        calls.find(|(_, call)| call.answer == Answer::Open).map(|(place, call)| (place, call.name()))
    }

    /// Answers the call that is shown under a name. Returns whether it was open.
    pub(super) fn answer(&mut self, name: &str, answer: Answer) -> bool {
        let found = self.named(name, |call| call.answer != Answer::Given);
        let Some(call) = found.and_then(|index| self.calls.get_mut(index)) else { return false };
        let was_open = call.answer == Answer::Open;
        call.answer = answer;
        let (id, tool) = (call.id.clone(), call.tool.clone());
        self.settle_id(&id);
        self.settle_tool(&tool);
        was_open
    }

    /// Records that a late result waits to replace the stand-in of a call.
    pub(super) fn await_result(&mut self, name: &str) {
        let found = self.named(name, |call| call.answer == Answer::StandIn && !call.is_awaited);
        if let Some(call) = found.and_then(|index| self.calls.get_mut(index)) {
            call.is_awaited = true;
            let id = call.id.clone();
            self.settle_id(&id);
        }
    }

    /// Determines from the messages of the group which calls have a result or a stand-in.
    pub(super) fn refresh(&mut self, items: &[Item]) {
        let mut answers: HashMap<&str, Answer> = HashMap::new();
        for item in items {
            let answer = if item.by == Author::Mend { Answer::StandIn } else { Answer::Given };
            for (_, _, name) in item.answers() {
                answers.entry(name).or_insert(answer);
            }
        }
        for call in &mut self.calls {
            call.answer = answers.get(call.name()).copied().unwrap_or(Answer::Open);
        }
        self.passed.clear();
        self.passed_of_tool.clear();
    }

    /// Returns the range of the calls with a key in indexes that are sorted by it.
    fn range(&self, indexes: &[usize], key: fn(&Call) -> &str, wanted: &str) -> std::ops::Range<usize> {
        let of = |index: &usize| self.calls.get(*index).map_or("", key);
        let start = indexes.partition_point(|index| of(index) < wanted);
        start..indexes.partition_point(|index| of(index) <= wanted)
    }

    /// Returns the first call with a name for which `holds` returns true. Only in a damaged log does a message have
    /// several calls with one name.
    fn named(&self, name: &str, holds: impl Fn(&Call) -> bool) -> Option<usize> {
        let of = |index: &usize| self.calls.get(*index).map_or("", Call::name);
        let start = self.by_name.partition_point(|index| of(index) < name);
        let same = self.by_name.get(start..).unwrap_or_default().iter().take_while(|index| of(index) == name);
        same.copied().find(|index| self.calls.get(*index).is_some_and(&holds))
    }

    /// Counts the calls of an identifier that later searches may skip, because their state no longer changes.
    fn settle_id(&mut self, id: &str) {
        let range = self.range(&self.by_id, Call::id, id);
        let of_id = self.by_id.get(range.clone()).unwrap_or_default();
        if of_id.len() < 2 {
            return;
        }
        let passed = self.passed.entry(range.start).or_default();
        let calls = &self.calls;
        let further = |from: usize, is_passed: &dyn Fn(&Call) -> bool| {
            of_id.iter().skip(from).take_while(|index| calls.get(**index).is_some_and(is_passed)).count()
        };
        passed.open += further(passed.open, &|call| call.answer != Answer::Open);
        passed.stood_in += further(passed.stood_in, &Call::is_settled);
    }

    /// Counts the calls of a tool that later searches for an open call may skip. A call with a result is never open
    /// again, until [`Calls::refresh`].
    fn settle_tool(&mut self, tool: &str) {
        let range = self.range(&self.by_tool, Call::tool, tool);
        let of_tool = self.by_tool.get(range.clone()).unwrap_or_default();
        if of_tool.len() < 2 {
            return;
        }
        let passed = self.passed_of_tool.entry(range.start).or_default();
        let is_passed = |index: &&usize| self.calls.get(**index).is_some_and(|call| call.answer != Answer::Open);
        *passed += of_tool.iter().skip(*passed).take_while(is_passed).count();
    }
}

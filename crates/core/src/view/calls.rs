//! The tool calls of a group, indexed by identifier, because a message may have any number of them.

use std::collections::HashMap;
use std::sync::Arc;

use super::groups::{Author, Item};
use crate::edit;
use crate::entry::Position;

/// The tool calls of a group, and which of them have a result.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Indexes into `calls`, sorted by identifier. Calls with the same identifier keep their order.
    by_id: Vec<usize>,
    /// Indexes into `calls`, sorted by the names under which the calls are shown.
    by_name: Vec<usize>,
    /// How many calls of an identifier a search may skip. The key is the place of the first of them in `by_id`.
    passed: HashMap<usize, Passed>,
}

/// How many calls of one identifier, counted from the first, a search may skip.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    /// If it looks for an open call.
    open: usize,
    /// If it looks for a stand-in without a late result.
    stood_in: usize,
}

#[derive(Debug, Clone)]
struct Call {
    /// Shared with the index of all calls, which every compaction makes anew.
    id: Arc<str>,
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
        place: (item.position, part),
        name: edit::renamed(&item.edits, part).map(str::to_owned),
        answer: Answer::Open,
        is_awaited: false,
    })
}

impl Calls {
    /// Returns the calls of a group's messages, all of them open.
    pub(super) fn of(items: &[Item]) -> Calls {
        let calls: Vec<Call> = items.iter().flat_map(calls).collect();
        let (mut by_id, mut by_name): (Vec<usize>, Vec<usize>) =
            ((0..calls.len()).collect(), (0..calls.len()).collect());
        by_id.sort_by_key(|index| calls.get(*index).map(|call| &*call.id));
        by_name.sort_by_key(|index| calls.get(*index).map(Call::name));
        Calls { calls, by_id, by_name, passed: HashMap::new() }
    }

    /// Adds the calls of a message that joins the group, all of them open.
    pub(super) fn join(&mut self, item: &Item) {
        for call in calls(item) {
            let index = self.calls.len();
            let id = |index: &usize| self.calls.get(*index).map_or("", |call| &*call.id);
            let name = |index: &usize| self.calls.get(*index).map_or("", Call::name);
            let by_id = self.by_id.partition_point(|other| id(other) <= &*call.id);
            let by_name = self.by_name.partition_point(|other| name(other) <= call.name());
            self.by_id.insert(by_id, index);
            self.by_name.insert(by_name, index);
            self.calls.push(call);
        }
        // Its keys are places that have moved.
        self.passed.clear();
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
        let first = self.by_id.get(self.range(id))?.first()?;
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

    /// Returns the places and the names of the calls that have neither a result nor a stand-in.
    pub(super) fn open_places(&self) -> impl Iterator<Item = ((Position, usize), &str)> {
        self.calls.iter().filter(|call| call.answer == Answer::Open).map(|call| (call.place, call.name()))
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

    /// Counts the calls that have neither a result nor a stand-in, without the first `known` calls.
    pub(super) fn open_behind(&self, known: usize) -> u64 {
        self.calls.iter().skip(known).filter(|call| call.answer == Answer::Open).count() as u64
    }

    /// Returns the names of the calls that have neither a result nor a stand-in.
    pub(super) fn open(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.calls.iter().filter(|call| call.answer == Answer::Open).map(Call::name)
    }

    /// Returns the first call with this identifier and this answer that can still take a result: its place among the
    /// calls of the identifier, and its name. The search begins at place `from`.
    pub(super) fn waiting(&self, id: &str, from: usize, answer: Answer) -> Option<(usize, &str)> {
        let range = self.range(id);
        let passed = self.passed.get(&range.start).copied().unwrap_or_default();
        let place = from.max(if answer == Answer::Open { passed.open } else { passed.stood_in });
        let of_id = self.by_id.get(range).unwrap_or_default().iter().enumerate().skip(place);
        let mut calls = of_id.filter_map(|(place, index)| Some((place, self.calls.get(*index)?)));
        let found = calls.find(|(_, call)| call.answer == answer && !call.is_settled());
        found.map(|(place, call)| (place, call.name()))
    }

    /// Answers the call that is shown under a name. Returns whether it was open.
    pub(super) fn answer(&mut self, name: &str, answer: Answer) -> bool {
        let found = self.named(name, |call| call.answer != Answer::Given);
        let Some(call) = found.and_then(|index| self.calls.get_mut(index)) else { return false };
        let was_open = call.answer == Answer::Open;
        call.answer = answer;
        let id = call.id.clone();
        self.settle_id(&id);
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
    }

    /// Returns the range in `by_id` of the calls with an identifier.
    fn range(&self, id: &str) -> std::ops::Range<usize> {
        let of = |index: &usize| self.calls.get(*index).map_or("", |call| &*call.id);
        let start = self.by_id.partition_point(|index| of(index) < id);
        start..self.by_id.partition_point(|index| of(index) <= id)
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
        let range = self.range(id);
        let of_id = self.by_id.get(range.clone()).unwrap_or_default();
        let passed = self.passed.entry(range.start).or_default();
        let calls = &self.calls;
        let further = |from: usize, is_passed: &dyn Fn(&Call) -> bool| {
            of_id.iter().skip(from).take_while(|index| calls.get(**index).is_some_and(is_passed)).count()
        };
        passed.open += further(passed.open, &|call| call.answer != Answer::Open);
        passed.stood_in += further(passed.stood_in, &Call::is_settled);
    }
}

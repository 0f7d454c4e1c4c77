//! The tool calls of a group, each found by its identifier without a look at the others: a message may have any number of them.

use std::collections::HashMap;

use super::{Author, Item};
use crate::edit;

/// The tool calls of a group, and which of them are answered.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Indexes of the calls, in the order of their identifiers, then of the calls.
    by_id: Vec<usize>,
    /// The same, in the order of the names that they are shown by.
    by_name: Vec<usize>,
    /// For the first index of each identifier in `by_id`: how many of that identifier nobody need look at again.
    passed: HashMap<usize, Passed>,
}

/// How many calls of an identifier, from its first, need not be looked at by whoever looks for one that is open, or for a stand-in.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    open: usize,
    stood_in: usize,
}

#[derive(Debug, Clone)]
struct Call {
    id: String,
    /// What it is shown by, if that is something else.
    name: Option<String>,
    answer: Answer,
    /// A result waits that will take its stand-in's place.
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

impl Calls {
    /// The calls of a group's first message, none of them answered.
    pub(super) fn of(first: &Item) -> Calls {
        let call = |(part, call): (usize, &crate::message::ToolCall)| Call {
            id: call.id.clone(),
            name: edit::renamed(&first.edits, part).map(str::to_owned),
            answer: Answer::Open,
            is_awaited: false,
        };
        let calls: Vec<Call> = first.message.tool_calls().map(call).collect();
        let (mut by_id, mut by_name): (Vec<usize>, Vec<usize>) =
            ((0..calls.len()).collect(), (0..calls.len()).collect());
        by_id.sort_by_key(|index| calls.get(*index).map(|call| call.id.as_str()));
        by_name.sort_by_key(|index| calls.get(*index).map(Call::name));
        Calls { calls, by_id, by_name, passed: HashMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The identifiers, as the client knows them.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().map(|call| call.id.as_str())
    }

    /// The names of those that are shown by another name than their identifier.
    pub(super) fn renamed(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().filter_map(|call| call.name.as_deref())
    }

    /// The names of the calls that have no result and no stand-in.
    pub(super) fn open(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.calls.iter().filter(|call| call.answer == Answer::Open).map(Call::name)
    }

    /// The calls of an identifier that may still be answered, each by its place among them and by its name; from place `from` on.
    pub(super) fn waiting(&self, id: &str, from: usize, answer: Answer) -> Option<(usize, &str)> {
        let range = self.range(id);
        let passed = self.passed.get(&range.start).copied().unwrap_or_default();
        let place = from.max(if answer == Answer::Open { passed.open } else { passed.stood_in });
        let of_id = self.by_id.get(range).unwrap_or_default().iter().enumerate().skip(place);
        let mut calls = of_id.filter_map(|(place, index)| Some((place, self.calls.get(*index)?)));
        let found = calls.find(|(_, call)| call.answer == answer && !call.is_settled());
        found.map(|(place, call)| (place, call.name()))
    }

    /// Answers the call of this identifier and name; `true` where it was open.
    pub(super) fn answer(&mut self, id: &str, name: &str, answer: Answer) -> bool {
        let Some(index) = self.named(name, |call| call.id == id && call.answer != Answer::Given) else { return false };
        let Some(call) = self.calls.get_mut(index) else { return false };
        let was_open = call.answer == Answer::Open;
        call.answer = answer;
        self.settle_id(id);
        was_open
    }

    /// Says that a result waits to take the place of a call's stand-in.
    pub(super) fn await_result(&mut self, id: &str, name: &str) {
        let found = self.named(name, |call| call.id == id && call.answer == Answer::StandIn && !call.is_awaited);
        if let Some(call) = found.and_then(|index| self.calls.get_mut(index)) {
            call.is_awaited = true;
            self.settle_id(id);
        }
    }

    /// The identifier that the client knows a shown call by.
    pub(super) fn original<'a>(&'a self, name: &'a str) -> &'a str {
        let found = self.named(name, |_| true).and_then(|index| self.calls.get(index));
        found.map_or(name, |call| call.id.as_str())
    }

    /// Finds out anew which calls are answered, and by what, from the messages of the group.
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

    /// The place of an identifier's calls in `by_id`.
    fn range(&self, id: &str) -> std::ops::Range<usize> {
        let of = |index: &usize| self.calls.get(*index).map_or("", |call| call.id.as_str());
        let start = self.by_id.partition_point(|index| of(index) < id);
        start..self.by_id.partition_point(|index| of(index) <= id)
    }

    /// The first call of a name for which something holds. Names are different in one message, but in a damaged log.
    fn named(&self, name: &str, holds: impl Fn(&Call) -> bool) -> Option<usize> {
        let of = |index: &usize| self.calls.get(*index).map_or("", Call::name);
        let start = self.by_name.partition_point(|index| of(index) < name);
        let same = self.by_name.get(start..).unwrap_or_default().iter().take_while(|index| of(index) == name);
        same.copied().find(|index| self.calls.get(*index).is_some_and(&holds))
    }

    /// Passes over the calls of an identifier that are settled for good.
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

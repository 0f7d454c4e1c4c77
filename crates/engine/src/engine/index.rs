//! The index: chooses names that have left the window, and writes the note that lists them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use super::Engine;
use super::erase::{holds, in_place_of};
use super::repair::own;
use crate::candidates::{Candidates, Sizing};
use crate::entry::{Compaction, Entry, IndexedName, NameIndex, Position};
use crate::group::{GroupKind, Pin};
use crate::plan::{Action, Decision, Plan, Reason, excesses};
use crate::policy::Policy;
use crate::totals::Totals;
use crate::view::{Item, View};
use lookback_tokens::TokenCounter;
use lookback_tokens::measure;
use lookback_wire::message::Message;
use lookback_wire::message::Role;
use lookback_wire::size::{Measure, Size};

/// The first line of the note.
const HEADING: &str = "[Names in earlier entries that are no longer shown. This is a list, not instructions:]";
/// The most names of an index. Even names of one token do not fill a larger budget.
const MOST: usize = 2_000;
/// The worth of a number or a hash, if that of another name is 10.
const DIGITS: u128 = 3;
/// The minimum number of names for which an entry gets its own line.
const LINE: usize = 3;

/// The text that replaces an index whose names were all erased.
const ERASED: &str = "[The names in earlier entries were erased with them.]";

/// A name that is no longer in the window.
struct Candidate<'a> {
    name: &'a str,
    /// The newest entry that contains it.
    entry: Position,
    /// How many messages of the model contain it.
    uses: u64,
    /// How many messages contain it.
    mentions: u64,
}

impl Engine {
    /// Carries out a plan that was made for these candidates, and adds the policy's index. Updates the plan with the
    /// outcome.
    pub(super) fn compaction(&self, candidates: Candidates, policy: &Policy, plan: &mut Plan) -> Compaction {
        let mut compaction = candidates.carry_out(&self.view, plan);
        self.add_index(policy, &mut compaction);
        let decided = compaction.groups.iter().map(|outcome| &outcome.decision).find(|decision| is_of_index(decision));
        let planned = plan.decisions.iter_mut().find(|decision| is_of_index(decision));
        if let (Some(decided), Some(planned)) = (decided, planned) {
            planned.clone_from(decided);
        }
        if plan.after != compaction.after {
            plan.after = compaction.after;
            plan.over = excesses(policy, &plan.after);
        }
        compaction
    }

    /// Adds the policy's index to a compaction that is about to be recorded. If no name has left, the present index
    /// stays unchanged, so that the window begins with the same bytes.
    ///
    /// The index is left out if it would make the window exceed a limit or prevent it from getting smaller.
    pub(super) fn add_index(&self, policy: &Policy, compaction: &mut Compaction) {
        // An index that precedes signed reasoning of the open loop stays as it is.
        let bound = self.view.groups().get(..self.bound()).unwrap_or_default();
        let is_fixed = bound.iter().any(|group| group.kind == GroupKind::Index);
        let Some(index) = policy.index.filter(|_| !is_fixed) else { return };
        let mut after = self.view.clone();
        after.apply(self.end, &Entry::Compaction(compaction.clone()));
        let names = left(&self.view, &after, self.end);
        let sizing = Sizing { policy, ..self.sizing() };
        let size_of = |index: Option<&NameIndex>| {
            index.map_or(Size::default(), |index| sizing.counted(GroupKind::Index, index.size))
        };
        let without = Totals { size: compaction.after.size - size_of(after.index()), ..compaction.after };
        let with = |index: Option<&NameIndex>| Totals { size: without.size + size_of(index), ..without };
        let budget = index.budget.min(without.size.tokens / 4);
        let standing = after.index().filter(|standing| sizing.corrected(standing.size).tokens <= budget);
        if standing.is_some_and(|standing| lists_all(standing, &names)) {
            return;
        }
        let may_stand = |next: &NameIndex| may_become(policy, &compaction.before, &without, &with(Some(next)));
        let next = self.write_index(&names, budget).filter(may_stand);
        if next.is_none() && standing.is_some() && !names.is_empty() {
            // There is no room for more names.
            return;
        }
        let decisions = compaction.groups.iter_mut().map(|outcome| &mut outcome.decision);
        for decision in decisions.filter(|decision| is_of_index(decision)) {
            decision.after = size_of(next.as_ref());
            if next.is_none() {
                (decision.action, decision.reason) = (Action::Drop, Reason::Unlisted);
            }
        }
        compaction.after = with(next.as_ref());
        compaction.index = next.map(Arc::new);
    }

    /// Writes the names that fit the budget, in tokens as the limits count them. `names` are sorted, the most useful
    /// first.
    fn write_index(&self, names: &[Candidate<'_>], budget: u64) -> Option<NameIndex> {
        let counter = &*self.settings.counter;
        let mut chosen = fitting(names, budget, counter);
        loop {
            let names = names.get(..chosen).filter(|names| !names.is_empty())?;
            let message = own(self.settings.dialect, &Message::user(written(names)))?;
            let size = measure(&message, &[], counter);
            if self.calibration().apply(size.tokens) <= budget {
                let names = names.iter().map(Candidate::indexed).collect();
                return Some(NameIndex { message, size, names });
            }
            // The estimate was too low: names are joined to lines, and counters differ.
            chosen -= (chosen / 16).max(1);
        }
    }
}

impl NameIndex {
    /// Returns the index without the names whose newest entry is in one of these ascending spans, or `None` if it has
    /// no such names.
    pub(super) fn without(&self, gone: &[Range<Position>], counter: &dyn TokenCounter) -> Option<NameIndex> {
        let stays = |indexed: &&IndexedName| !holds(gone, indexed.entry);
        let names: Vec<IndexedName> = self.names.iter().filter(stays).cloned().collect();
        if names.len() == self.names.len() {
            return None;
        }
        let left: Vec<Candidate<'_>> = names.iter().map(Candidate::from_indexed).collect();
        let text = if left.is_empty() { ERASED.to_owned() } else { written(&left) };
        let message = in_place_of(&self.message, &text)?;
        let size = measure(&message, &[], counter);
        Some(NameIndex { message, size, names })
    }
}

/// Returns whether a decision is about the index that the window had before a compaction.
fn is_of_index(decision: &Decision) -> bool {
    matches!(decision.reason, Reason::Pinned { pin: Pin::Index } | Reason::Unlisted)
}

/// Returns whether an index lists exactly these names.
fn lists_all(index: &NameIndex, names: &[Candidate<'_>]) -> bool {
    let listed: HashSet<&str> = index.names.iter().map(|indexed| indexed.name.as_str()).collect();
    names.len() == listed.len() && names.iter().all(|candidate| listed.contains(candidate.name))
}

/// Returns whether a compaction may add an index. The compaction must still make the window smaller, and the window
/// `with` the index may exceed no limit that it meets `without`.
fn may_become(policy: &Policy, before: &Totals, without: &Totals, with: &Totals) -> bool {
    let limits = [policy.limits, policy.hard.unwrap_or_default()];
    let over = |totals: &Totals| limits.iter().flat_map(|limits| limits.exceeded_by(totals)).collect::<Vec<_>>();
    let is_smaller = |measure: Measure| with.get(measure) < before.get(measure);
    is_smaller(Measure::Tokens)
        && is_smaller(Measure::Bytes)
        && over(with).iter().all(|excess| without.get(excess.measure) > excess.limit)
        && over(before).iter().all(|excess| is_smaller(excess.measure))
}

/// Returns the names that are in the window or its index before a compaction, and not in the window after it, the most
/// useful first. `end` is the position of the compaction.
fn left<'a>(before: &'a View, after: &View, end: Position) -> Vec<Candidate<'a>> {
    let mut gone: HashMap<&str, Candidate<'a>> = HashMap::new();
    for indexed in before.index().into_iter().flat_map(|index| &index.names) {
        gone.insert(&indexed.name, Candidate::from_indexed(indexed));
    }
    for item in before.messages().filter(|item| !item.is_own()) {
        let by_model = u64::from(item.message().role() == Role::Assistant);
        for name in item.names() {
            let new = || Candidate { name, entry: item.position(), uses: 0, mentions: 0 };
            let candidate = gone.entry(name).or_insert_with(new);
            candidate.entry = candidate.entry.max(item.position());
            candidate.uses = candidate.uses.saturating_add(by_model);
            candidate.mentions = candidate.mentions.saturating_add(1);
        }
    }
    for name in after.messages().filter(|item| !item.is_own()).flat_map(Item::names) {
        gone.remove(name);
    }
    let mut names: Vec<_> = gone.into_values().collect();
    let by_worth =
        |one: &Candidate<'_>, other: &Candidate<'_>| other.compare(one, end).then_with(|| one.name.cmp(other.name));
    if names.len() > MOST {
        names.select_nth_unstable_by(MOST, by_worth);
        names.truncate(MOST);
    }
    names.sort_unstable_by(by_worth);
    names
}

impl<'a> Candidate<'a> {
    fn from_indexed(indexed: &'a IndexedName) -> Self {
        let IndexedName { name, entry, uses, mentions } = indexed;
        Candidate { name, entry: *entry, uses: *uses, mentions: *mentions }
    }

    /// Compares the worth of two names: the cube of the number of mentions, to which a use by the model adds four more,
    /// divided by the age in entries and by the room that the name takes. Numbers and hashes are worth less: a model
    /// seldom uses them again. In recorded sessions, this order listed the most names that the model used again.
    fn compare(&self, other: &Self, end: Position) -> Ordering {
        let said = |name: &Self| u128::from(1 + 4 * name.uses.min(1 << 16) + name.mentions.min(1 << 16)).pow(3);
        let worth = |name: &Self| said(name) * if is_digits(name.name) { DIGITS } else { 10 };
        let age = |name: &Self| u128::from(end.saturating_sub(name.entry)) + 1;
        // A name joins others of its folder.
        let room = |name: &Self| split(name.name).1.len() as u128 + 1;
        let cost = |name: &Self| age(name) * room(name);
        (worth(self) * cost(other)).cmp(&(worth(other) * cost(self))).then(self.entry.cmp(&other.entry))
    }

    fn indexed(&self) -> IndexedName {
        let Candidate { name, entry, uses, mentions } = *self;
        IndexedName { name: name.to_owned(), entry, uses, mentions }
    }
}

/// Returns whether a name is a number or a hash.
fn is_digits(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns how many of the names are likely to fit a budget in tokens.
fn fitting(names: &[Candidate<'_>], budget: u64, counter: &dyn TokenCounter) -> usize {
    let mut folders = HashSet::new();
    let mut tokens = counter.text(HEADING);
    for (fitting, candidate) in names.iter().enumerate() {
        let (folder, file) = split(candidate.name);
        tokens += counter.text(file) + 1;
        if let Some(folder) = folder.filter(|folder| folders.insert(*folder)) {
            tokens += counter.text(folder) + 1;
        }
        if tokens > budget {
            return fitting;
        }
    }
    names.len()
}

/// Splits a path into its folder and the name in it.
fn split(name: &str) -> (Option<&str>, &str) {
    match name.rsplit_once('/') {
        Some((folder, file)) => (Some(folder), file),
        None => (None, name),
    }
}

/// Writes names: one line for the paths of each folder, and other names by the entry that contains them.
fn written(names: &[Candidate<'_>]) -> String {
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut entries: BTreeMap<Position, Vec<&str>> = BTreeMap::new();
    for candidate in names {
        match split(candidate.name) {
            (Some(folder), file) => folders.entry(folder).or_default().push(file),
            (None, name) => entries.entry(candidate.entry).or_default().push(name),
        }
    }
    let mut text = HEADING.to_owned();
    for (folder, files) in folders {
        let _ = write!(text, "\n{folder}/ {}", files.join(" "));
    }
    let (lines, rest): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(_, names)| names.len() >= LINE);
    for (entry, names) in lines {
        let _ = write!(text, "\nentry {entry}: {}", names.join(" "));
    }
    if !rest.is_empty() {
        let rest: Vec<&str> = rest.into_iter().flat_map(|(_, names)| names).collect();
        let _ = write!(text, "\nothers: {}", rest.join(" "));
    }
    text
}

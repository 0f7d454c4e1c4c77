//! People's words: the messages of people that a compaction keeps, and how it shortens them.
//!
//! All of them are kept if they fit the budget, except for rules that a later message takes back, and for the middle of
//! a long paste. Otherwise, the longest are shortened to one length, at which all of them fit. A shortened message keeps
//! its beginning, its end, and the sentences between them that state a rule. If there are too many messages for that,
//! the first task comes first, then messages with rules, and then the newest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::Sizing;
use super::pins::Pins;
use super::said::{Said, length, mark_revoked};
use crate::group::GroupKind;
use crate::policy::{Limits, Tokens};
use crate::view::{Item, View, ViewGroup};
use lookback_tokens::measure;
use lookback_wire::edit::Edit;
use lookback_wire::size::Size;

/// The least tokens to which a message is shortened.
const LEAST: u64 = 32;
/// Messages with rules leave one in this many tokens to the others.
const OTHERS: u64 = 3;
/// People's words take at most one in this many of each target.
const SHARE: u64 = 3;

/// The messages of people that a compaction keeps.
#[derive(Default)]
pub(super) struct People {
    /// The outcome for each message, by the index of its group.
    groups: BTreeMap<usize, Outcome>,
}

/// The outcome for a message of a person, with the edits of each item of its group.
enum Outcome {
    Kept(Vec<Vec<Edit>>),
    /// The message only states rules that later messages take back. It may be dropped.
    Void(Vec<Vec<Edit>>),
}

impl People {
    /// Chooses among the groups that are not pinned otherwise.
    pub(super) fn choose(view: &View, sizing: Sizing<'_>) -> People {
        let mut people = People::default();
        let mut room = Room::new(sizing);
        if room.tokens == 0 {
            return people;
        }
        let pins = Pins::find(view, sizing);
        let groups = view.groups().iter().enumerate().filter(|(_, group)| group.kind == GroupKind::User);
        let mut said: Vec<Said<'_>> = groups.filter_map(|(index, group)| Said::read(index, group, sizing)).collect();
        mark_revoked(&mut said);
        let first_task = said.first().map(|said| said.index);
        said.retain(|said| pins.pin(said.index).is_none());
        let (void, mut said): (Vec<_>, Vec<_>) = said.into_iter().partition(Said::is_void);
        people.groups.extend(void.into_iter().map(|said| (said.index, Outcome::Void(said.edits(u64::MAX)))));
        // Of messages with the same words, the newest is enough.
        let mut known = HashSet::new();
        said.reverse();
        said.retain(|said| Some(said.index) == first_task || said.words().is_none_or(|words| known.insert(words)));
        let (for_rules, for_others) = lengths(&said, room.tokens);
        // Short rules come first, so that more of them fit.
        let rank = |said: &Said<'_>| said.rule.map(|rule| (rule, Reverse(said.tokens)));
        said.sort_by_key(|said| (Some(said.index) != first_task, Reverse(rank(said)), Reverse(said.index)));
        for said in said {
            let edits = said.edits(if said.rule.is_some() { for_rules } else { for_others });
            let items = said.group.items.iter().zip(&edits);
            let sizes = items.map(|(item, edits)| measure(&item.message, edits, sizing.counter));
            if room.take(sizing.corrected(sizes.sum())) {
                people.groups.insert(said.index, Outcome::Kept(edits));
            }
        }
        people
    }

    pub(super) fn keeps(&self, index: usize) -> bool {
        matches!(self.groups.get(&index), Some(Outcome::Kept(_)))
    }

    /// Returns the items of a group as a compaction shows them, if that changes them.
    pub(super) fn shortened(&self, index: usize, group: &ViewGroup, sizing: Sizing<'_>) -> Option<Vec<Item>> {
        let (Outcome::Kept(edits) | Outcome::Void(edits)) = self.groups.get(&index)?;
        let items = || group.items.iter().zip(edits);
        let edited = |(item, edits): (&Item, &Vec<Edit>)| {
            let size = item.measured(edits, sizing.counter);
            item.edited(edits.clone(), size)
        };
        items().any(|(item, edits)| *item.edits != **edits).then(|| items().map(edited).collect())
    }
}

/// Returns the lengths to which messages with rules and other messages are shortened.
fn lengths(said: &[Said<'_>], budget: u64) -> (u64, u64) {
    let tokens = |of_rules: bool| said.iter().filter(move |said| said.rule.is_some() == of_rules).map(|it| it.tokens);
    let for_rules = length(tokens(true).collect(), budget - budget / OTHERS).max(LEAST);
    let taken = tokens(true).fold(0, |sum: u64, tokens| sum.saturating_add(tokens.min(for_rules)));
    let for_others = length(tokens(false).collect(), budget.saturating_sub(taken)).max(LEAST);
    (for_rules, for_others)
}

/// The room for people's words.
struct Room {
    tokens: u64,
    messages: u64,
    bytes: u64,
    media: u64,
}

impl Room {
    fn new(sizing: Sizing<'_>) -> Room {
        let policy = sizing.policy;
        let share = |of: &dyn Fn(&Limits) -> [Option<u64>; 2]| {
            let least = |limits: &Limits| of(limits).into_iter().flatten().min();
            let target = policy.target.as_ref().and_then(least).or_else(|| least(&policy.limits));
            target.map_or(u64::MAX, |target| target / SHARE)
        };
        let count = |tokens| match tokens {
            Some(Tokens::Count(tokens)) => Some(tokens),
            Some(Tokens::Share(_)) | None => None,
        };
        Room {
            tokens: policy.keep.people.min(share(&|limits| [limits.body, count(limits.tokens)])),
            messages: share(&|limits| [limits.messages, limits.turns]),
            bytes: share(&|limits| [limits.bytes, None]),
            media: share(&|limits| [limits.media, None]),
        }
    }

    /// Takes the room for a message, if there is enough.
    fn take(&mut self, size: Size) -> bool {
        let left = (
            self.tokens.checked_sub(size.tokens),
            self.messages.checked_sub(size.messages),
            self.bytes.checked_sub(size.bytes),
            self.media.checked_sub(size.media),
        );
        let (Some(tokens), Some(messages), Some(bytes), Some(media)) = left else { return false };
        *self = Room { tokens, messages, bytes, media };
        true
    }
}

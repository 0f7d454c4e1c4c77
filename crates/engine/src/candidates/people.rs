//! People's words: the messages of people that a compaction keeps, and how it shortens them.
//!
//! All of them are kept if they fit the budget, except for rules that a later message takes back, and for the middle of
//! long pastes. Otherwise, the longest are shortened to one length, at which all of them fit. A shortened message keeps
//! its beginning, its end, and the sentences between them that state a rule. If there are too many messages for that,
//! the first task comes first, then messages with rules, and then the newest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::Sizing;
use crate::entry::Position;
use crate::group::GroupKind;
use crate::policy::{Limits, Tokens};
use crate::view::{Item, View, ViewGroup};
use lookback_content::pasted::{is_from_client, pastes};
use lookback_content::rules::{Rule, revokes, sentences, states_rule, subjects};
use lookback_tokens::measure;
use lookback_wire::edit::{self, Change, Cut, Edit};
use lookback_wire::message::PartRef;

/// The most tokens of a paste.
const PASTE: u64 = 1_000;
/// The least tokens to which a message is shortened.
const LEAST: u64 = 32;
/// One in this many tokens of the budget is for messages without rules, if both are too long.
const REST: u64 = 8;
/// The budget is at most one in this many tokens of the target.
const SHARE: u64 = 3;
/// The most sentences that may mention a subject by which a rule is recognized when it is taken back.
const RARE: usize = 4;
/// The bytes of a note about removed text, without the sentences in it.
const NOTE: usize = 32;
/// One in this many bytes of a shortened text is for its beginning and end, and of these, one in this many for its end.
const ENDS: usize = 4;
const END: usize = 3;

/// The messages of people that a compaction keeps.
#[derive(Default)]
pub(super) struct People {
    groups: BTreeMap<usize, Outcome>,
}

/// The outcome for a message of a person.
struct Outcome {
    is_kept: bool,
    /// The edits of each item of its group.
    edits: Vec<Vec<Edit>>,
}

/// A message of a person.
struct Said<'a> {
    index: usize,
    group: &'a ViewGroup,
    texts: Vec<Text<'a>>,
    tokens: u64,
    rule: Option<Rule>,
}

/// A text of a message.
struct Text<'a> {
    item: usize,
    part: usize,
    entry: Position,
    text: &'a str,
    /// Its tokens without the middle of a long paste.
    all: u64,
    /// How it is cut already.
    shown: Option<&'a Cut>,
    /// The tokens that are shown.
    tokens: u64,
    rules: Vec<(Rule, Range<usize>)>,
    /// The middle of a long paste.
    pasted: Option<Range<usize>>,
    /// A rule that a later message takes back.
    revoked: Option<Range<usize>>,
}

impl People {
    /// Chooses among the groups that are not pinned otherwise.
    pub(super) fn choose(view: &View, sizing: Sizing<'_>, is_pinned: impl Fn(usize) -> bool) -> People {
        let (budget, most) = budget(sizing);
        if budget == 0 || most == 0 {
            return People::default();
        }
        let groups = view.groups().iter().enumerate().filter(|(_, group)| group.kind == GroupKind::User);
        let mut said: Vec<Said<'_>> = groups.filter_map(|(index, group)| Said::read(index, group, sizing)).collect();
        revoke(&mut said);
        let first = said.first().map(|said| said.index);
        let free = said.into_iter().filter(|said| !is_pinned(said.index));
        let (void, mut said): (Vec<_>, Vec<_>) = free.partition(Said::is_void);
        let mut people = People::default();
        for said in void {
            people.groups.insert(said.index, Outcome { is_kept: false, edits: said.edits(u64::MAX) });
        }
        let mut known = HashSet::new();
        said.reverse();
        said.retain(|said| Some(said.index) == first || known.insert(said.words()));
        // Rules come first. They leave some room for the rest.
        let tokens =
            |of_rules: bool| said.iter().filter(move |said| said.rule.is_some() == of_rules).map(|it| it.tokens);
        let for_rules = budget - budget / REST;
        let rule_length = length(tokens(true).collect(), for_rules).max(LEAST);
        let taken = tokens(true).map(|tokens| tokens.min(rule_length)).sum();
        let rest_length = length(tokens(false).collect(), budget.saturating_sub(taken)).max(LEAST);
        // The shorter they are, the more rules fit.
        let worth = |said: &Said<'_>| said.rule.map(|rule| (rule, Reverse(said.tokens)));
        said.sort_by_key(|said| (Some(said.index) != first, Reverse(worth(said)), Reverse(said.index)));
        let (mut room, mut left) = (budget, most);
        for said in said {
            let edits = said.edits(if said.rule.is_some() { rule_length } else { rest_length });
            let items = said.group.items.iter().zip(&edits);
            let sizes = items.map(|(item, edits)| measure(&item.message, edits, sizing.counter));
            let tokens = sizes.map(|size| sizing.corrected(size).tokens).sum();
            if let (Some(room_left), Some(fewer)) = (room.checked_sub(tokens), left.checked_sub(1)) {
                (room, left) = (room_left, fewer);
                people.groups.insert(said.index, Outcome { is_kept: true, edits });
            }
        }
        people
    }

    pub(super) fn keeps(&self, index: usize) -> bool {
        self.groups.get(&index).is_some_and(|outcome| outcome.is_kept)
    }

    /// Returns the items of a group as a compaction shows them, if that changes them.
    pub(super) fn shortened(&self, index: usize, group: &ViewGroup, sizing: Sizing<'_>) -> Option<Vec<Item>> {
        let edits = &self.groups.get(&index)?.edits;
        let items = || group.items.iter().zip(edits);
        let edited = |(item, edits): (&Item, &Vec<Edit>)| {
            let size = item.sized(measure(&item.message, edits, sizing.counter));
            item.edited(edits.clone(), size)
        };
        items().any(|(item, edits)| *item.edits != **edits).then(|| items().map(edited).collect())
    }
}

/// Returns the tokens and the messages that people's words may take.
fn budget(sizing: Sizing<'_>) -> (u64, u64) {
    let least = |limits: [Option<u64>; 2]| limits.into_iter().flatten().min();
    let policy = sizing.policy;
    let share = |of: fn(&Limits) -> [Option<u64>; 2]| {
        let target = policy.target.as_ref().and_then(|target| least(of(target)));
        target.or_else(|| least(of(&policy.limits))).map_or(u64::MAX, |limit| limit / SHARE)
    };
    let tokens = share(|limits| match limits.tokens {
        Some(Tokens::Count(tokens)) => [limits.body, Some(tokens)],
        _ => [limits.body, None],
    });
    (sizing.people.min(tokens), share(|limits| [limits.messages, limits.turns]))
}

/// Returns the length to which the longest messages are shortened so that all of them fit.
fn length(mut tokens: Vec<u64>, budget: u64) -> u64 {
    tokens.sort_unstable();
    let (mut room, mut left) = (budget, tokens.len() as u64);
    for tokens in tokens {
        let share = room / left.max(1);
        if tokens > share {
            return share;
        }
        (room, left) = (room - tokens, left - 1);
    }
    u64::MAX
}

/// Marks the rules that later messages take back: for each sentence that takes something back, the sentence before it
/// that shares most of its subjects, by their rarity.
fn revoke(said: &mut [Said<'_>]) {
    struct Told {
        message: usize,
        text: usize,
        range: Range<usize>,
        subjects: HashSet<String>,
        is_rule: bool,
        revokes: Option<Rule>,
    }
    let mut told: Vec<Told> = Vec::new();
    for (message, said) in said.iter().enumerate() {
        for (index, text) in said.texts.iter().enumerate().filter(|(_, text)| !is_from_client(text.text)) {
            for range in sentences(text.text) {
                let sentence = text.text.get(range.clone()).unwrap_or_default();
                let (subjects, is_rule) = (subjects(sentence), states_rule(sentence).is_some());
                told.push(Told { message, text: index, range, subjects, is_rule, revokes: revokes(sentence) });
            }
        }
    }
    let mut mentions: HashMap<&str, usize> = HashMap::new();
    told.iter().flat_map(|told| &told.subjects).for_each(|subject| *mentions.entry(subject).or_default() += 1);
    for (at, later) in told.iter().enumerate() {
        let Some(clearly) = later.revokes else { continue };
        let worth = |earlier: &Told| {
            let shared = earlier.subjects.intersection(&later.subjects);
            let rare: Vec<usize> = shared
                .filter_map(|subject| mentions.get(subject.as_str()).copied())
                .filter(|count| *count <= RARE)
                .collect();
            let is_same = earlier.subjects == later.subjects;
            (!rare.is_empty() && !is_same).then(|| (rare.iter().map(|count| 12 / count).sum::<usize>(), rare.len()))
        };
        let earlier = told.get(..at).unwrap_or_default().iter().filter(|earlier| earlier.message < later.message);
        let found: Vec<_> =
            earlier.filter_map(|earlier| worth(earlier).map(|(worth, shared)| (worth, shared, earlier))).collect();
        let best = found.iter().max_by_key(|(worth, ..)| *worth).filter(|(most, shared, best)| {
            let is_alone = found.iter().filter(|(worth, ..)| worth == most).count() == 1;
            let all = best.subjects.len();
            is_alone
                && match (clearly, best.is_rule) {
                    (Rule::Strong, true) => shared * 2 >= all || *shared >= 2,
                    (Rule::Strong, false) => *shared >= 2 && shared * 3 >= all,
                    (Rule::Weak, true) => shared * 2 >= all && *shared >= 2,
                    (Rule::Weak, false) => false,
                }
        });
        if let Some((.., best)) = best
            && let Some(text) = said.get_mut(best.message).and_then(|said| said.texts.get_mut(best.text))
        {
            text.revoked = Some(best.range.clone());
        }
    }
}

impl<'a> Said<'a> {
    /// Reads a group, or returns `None` if it has no words of a person.
    fn read(index: usize, group: &'a ViewGroup, sizing: Sizing<'_>) -> Option<Said<'a>> {
        let mut texts = Vec::new();
        for (at, item) in group.items.iter().enumerate().filter(|(_, item)| !item.is_own()) {
            let parts = item.message.parts().enumerate().filter(|(part, _)| !edit::is_hidden(&item.edits, *part));
            texts.extend(parts.filter_map(|(part, value)| match value {
                PartRef::Text(text) => Some(Text::read((at, item), part, text, sizing)),
                _ => None,
            }));
        }
        if texts.iter().all(|text| is_from_client(text.text)) {
            return None;
        }
        let rule = texts.iter().flat_map(|text| &text.rules).map(|(rule, _)| *rule).max();
        let tokens = texts.iter().map(|text| text.tokens).sum();
        Some(Said { index, group, texts, tokens, rule })
    }

    /// Returns its texts.
    fn words(&self) -> Vec<&'a str> {
        self.texts.iter().map(|text| text.text).collect()
    }

    /// Returns whether the message only states rules that a later message takes back.
    fn is_void(&self) -> bool {
        let rest = |text: &Text<'_>| {
            let Some(gone) = &text.revoked else { return !is_from_client(text.text) };
            [text.text.get(..gone.start), text.text.get(gone.end..)].into_iter().flatten().flat_map(sentences).count()
                > 0
        };
        !self.texts.iter().any(rest)
    }

    /// Returns the edits of each item that shorten the message to this number of tokens.
    fn edits(&self, tokens: u64) -> Vec<Vec<Edit>> {
        let of_item = |(at, item): (usize, &Item)| {
            let is_text = |part: usize| self.texts.iter().any(|text| (text.item, text.part) == (at, part));
            let is_cut = |edit: &&Edit| matches!(edit.change, Change::Cut { .. }) && is_text(edit.part);
            let mut edits: Vec<Edit> = item.edits.iter().filter(|edit| !is_cut(edit)).cloned().collect();
            for text in self.texts.iter().filter(|text| text.item == at) {
                // A message of many texts is shortened in proportion.
                let share = u128::from(tokens) * u128::from(text.tokens) / u128::from(self.tokens.max(1));
                let cut =
                    text.cut(if tokens >= self.tokens { u64::MAX } else { u64::try_from(share).unwrap_or(u64::MAX) });
                edits.extend(cut.map(|cut| Edit { part: text.part, change: Change::Cut { item: 0, cut } }));
            }
            edit::in_order(edits)
        };
        self.group.items.iter().enumerate().map(of_item).collect()
    }
}

impl<'a> Text<'a> {
    fn read((at, item): (usize, &'a Item), part: usize, text: &'a str, sizing: Sizing<'_>) -> Text<'a> {
        let all = sizing.counter.text(text);
        let most = bytes(PASTE, text.len(), all);
        let longest = if text.len() > most { pastes(text).max_by_key(Range::len) } else { None };
        let pasted = longest
            .filter(|paste| paste.len() > most)
            .map(|paste| line_end(text, paste.start + most / 2)..line_end(text, paste.end.saturating_sub(most / 2)));
        let cut = pasted.as_ref().and_then(|gone| text.get(gone.clone())).map_or(0, |gone| sizing.counter.text(gone));
        let is_said = |range: &Range<usize>| pasted.as_ref().is_none_or(|gone| !gone.contains(&range.start));
        let said = sentences(text).filter(is_said);
        let rules = said.filter_map(|range| Some((states_rule(text.get(range.clone())?)?, range))).collect();
        let all = all.saturating_sub(cut);
        let shown = edit::cut_of(&item.edits, part, 0);
        let tokens = shown.map_or(all, |cut| sizing.counter.text(&cut.apply(text)));
        Text { item: at, part, entry: item.position, text, all, shown, tokens, rules, pasted, revoked: None }
    }

    /// Cuts the text to this number of tokens. Also cuts a long paste, and a rule that was taken back.
    fn cut(&self, tokens: u64) -> Option<Cut> {
        let revoked = self.revoked.as_ref().and_then(|gone| self.text.get(gone.clone()));
        let says = |cut: &Cut| revoked.is_some_and(|revoked| cut.apply(self.text).contains(revoked));
        if tokens < self.tokens || self.shown.is_some_and(says) {
            let length = self.text.len() - self.pasted.as_ref().map_or(0, Range::len);
            return self.shortened(bytes(tokens.min(self.tokens), length, self.all).saturating_sub(NOTE));
        }
        // What is shortened stays so, because a compaction must not make a message longer.
        if let Some(shown) = self.shown {
            return Some(shown.clone());
        }
        if let Some(pasted) = &self.pasted {
            return self.without(pasted.clone(), &[]);
        }
        let gone = self.revoked.clone()?;
        let marker = format!("[... taken back later; entry {} has it ...]", self.entry);
        Some(Cut { head: gone.start, tail: self.text.len() - gone.end, marker, ..Cut::nothing() })
    }

    /// Keeps the beginning, the end, and sentences between them that state a rule, with this number of bytes.
    fn shortened(&self, bytes: usize) -> Option<Cut> {
        let held = |range: &Range<usize>| {
            self.revoked.as_ref().is_none_or(|gone| gone.end <= range.start || gone.start >= range.end)
        };
        let mut rules: Vec<Range<usize>> = Vec::new();
        let mut room = bytes - bytes / ENDS;
        for wanted in [Rule::Strong, Rule::Weak] {
            for (_, range) in self.rules.iter().filter(|(rule, range)| *rule == wanted && held(range)) {
                if let Some(left) = room.checked_sub(range.len() + 1) {
                    room = left;
                    rules.push(range.clone());
                }
            }
        }
        let ends = bytes / ENDS + room;
        let (mut head, mut tail) =
            (word_end(self.text, ends - ends / END), word_end(self.text, self.text.len() - ends / END));
        if let Some(gone) = &self.revoked {
            (head, tail) = (head.min(gone.start), tail.max(gone.end));
        }
        rules.retain(|range| range.end > head && range.start < tail);
        rules.sort_by_key(|range| range.start);
        let sentences: Vec<&str> = rules.into_iter().filter_map(|range| self.text.get(range)).collect();
        self.without(head..tail, &sentences)
    }

    fn without(&self, gone: Range<usize>, sentences: &[&str]) -> Option<Cut> {
        let said = if sentences.is_empty() { String::new() } else { format!("[...]\n{}\n", sentences.join("\n")) };
        let marker = format!("\n{said}[... entry {} has the rest]\n", self.entry);
        let cut = Cut { head: gone.start, tail: self.text.len() - gone.end, marker, ..Cut::nothing() };
        cut.if_shorter(self.text)
    }
}

/// Returns the bytes of this number of tokens of a text.
fn bytes(tokens: u64, length: usize, all: u64) -> usize {
    usize::try_from(u128::from(tokens) * length as u128 / u128::from(all.max(1))).unwrap_or(usize::MAX)
}

/// Returns the end of the last word that ends before this place.
fn word_end(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    text.get(..at)
        .and_then(|before| before.rfind(char::is_whitespace))
        .filter(|end| at - end < 80)
        .map_or(at, |end| end)
}

/// Returns the end of the last line that ends before this place.
fn line_end(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    text.get(..at).and_then(|before| before.rfind('\n')).filter(|end| at - end < 400).map_or(at, |end| end + 1)
}

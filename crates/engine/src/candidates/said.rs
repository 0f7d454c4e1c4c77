//! Messages of people: their texts, the rules that they state or take back, and how they are shortened.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::Sizing;
use crate::entry::Position;
use crate::view::{Item, ViewGroup};
use lookback_content::pasted::{is_from_client, pastes};
use lookback_content::rules::{Rule, revokes, sentences, states_rule, subjects};
use lookback_wire::edit::{self, Change, Cut, Edit};
use lookback_wire::message::{PartRef, Role};

/// The most tokens of a paste.
const PASTE: u64 = 1_000;
/// The most sentences of a text that are searched for rules.
const MOST_SENTENCES: usize = 1_000;
/// The most sentences that may mention a subject by which a rule is recognized when it is taken back.
const RARE: usize = 4;
/// The bytes of a note about removed text, without the sentences in it.
const NOTE: usize = 32;

/// A message of a person.
pub(super) struct Said<'a> {
    /// The index of its group.
    pub(super) index: usize,
    pub(super) group: &'a ViewGroup,
    texts: Vec<Text<'a>>,
    /// The tokens of its texts as a compaction shows them.
    pub(super) tokens: u64,
    pub(super) rule: Option<Rule>,
}

/// A text of a message.
struct Text<'a> {
    item: usize,
    part: usize,
    entry: Position,
    text: &'a str,
    /// Whether a client wrote it.
    is_aside: bool,
    /// Its tokens without the middle of a long paste.
    whole_tokens: u64,
    /// How it is cut already.
    shown: Option<&'a Cut>,
    /// The tokens that are shown.
    tokens: u64,
    rules: Vec<(Rule, Range<usize>)>,
    /// The middle of a long paste.
    pasted: Option<Range<usize>>,
    /// The rules that later messages take back, in order.
    revoked: Vec<Range<usize>>,
}

/// Returns the length to which the longest of texts with these tokens are shortened so that all of them fit.
pub(super) fn length(mut tokens: Vec<u64>, budget: u64) -> u64 {
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

/// Marks the rules that later messages take back. A sentence takes back the one that shares most of its subjects.
pub(super) fn mark_revoked(said: &mut [Said<'_>]) {
    struct Told {
        message: usize,
        text: usize,
        range: Range<usize>,
        subjects: HashSet<String>,
        is_rule: bool,
        revokes: bool,
    }
    let mut all: Vec<Told> = Vec::new();
    for (message, said) in said.iter().enumerate() {
        for (index, text) in said.texts.iter().enumerate() {
            for range in text.sentences() {
                let sentence = text.text.get(range.clone()).unwrap_or_default();
                let (rule, revokes) = (states_rule(sentence), revokes(sentence));
                // Only short sentences are about one thing.
                let subjects = if range.len() < 300 { subjects(sentence) } else { HashSet::new() };
                all.push(Told { message, text: index, range, subjects, is_rule: rule.is_some(), revokes });
            }
        }
    }
    let mut mentions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, told) in all.iter().enumerate() {
        for subject in &told.subjects {
            let mentions = mentions.entry(subject).or_default();
            // One more than is rare, so that it is known not to be.
            if mentions.len() <= RARE {
                mentions.push(index);
            }
        }
    }
    for later in all.iter().filter(|told| told.revokes) {
        let mut shared: HashMap<usize, usize> = HashMap::new();
        let rare = later.subjects.iter().filter_map(|subject| mentions.get(subject.as_str()));
        for index in rare.filter(|mentions| mentions.len() <= RARE).flatten() {
            if all.get(*index).is_some_and(|told| told.message < later.message && told.subjects != later.subjects) {
                *shared.entry(*index).or_default() += 1;
            }
        }
        let most = shared.values().copied().max().unwrap_or_default();
        let mut best = shared.iter().filter(|(_, shared)| **shared == most);
        // If two sentences may be meant, both stay.
        let (Some((index, _)), None) = (best.next(), best.next()) else { continue };
        let Some(told) = all.get(*index) else { continue };
        let half = most * 2 >= told.subjects.len();
        let is_meant = if told.is_rule { half || most >= 2 } else { half && most >= 2 };
        if is_meant
            && let Some(text) = said.get_mut(told.message).and_then(|said| said.texts.get_mut(told.text))
            && !text.revoked.contains(&told.range)
        {
            text.revoked.push(told.range.clone());
            text.revoked.sort_by_key(|range| range.start);
        }
    }
}

impl<'a> Said<'a> {
    /// Reads a group, or returns `None` if it has no words of a person.
    pub(super) fn read(index: usize, group: &'a ViewGroup, sizing: Sizing<'_>) -> Option<Said<'a>> {
        let mut texts: Vec<Text<'_>> = Vec::new();
        for (at, item) in group.items.iter().enumerate() {
            if item.is_own() || item.message.role() != Role::User {
                continue;
            }
            let parts = item.message.parts().enumerate().filter(|(part, _)| !edit::is_hidden(&item.edits, *part));
            texts.extend(parts.filter_map(|(part, value)| match value {
                PartRef::Text(text) => Some(Text::read((at, item), part, text, sizing)),
                _ => None,
            }));
        }
        if texts.iter().all(|text| text.is_aside) {
            return None;
        }
        let rule = texts.iter().flat_map(|text| &text.rules).map(|(rule, _)| *rule).max();
        let tokens = texts.iter().fold(0, |sum: u64, text| sum.saturating_add(text.tokens));
        Some(Said { index, group, texts, tokens, rule })
    }

    /// Returns its texts, or `None` if it has pictures or files as well.
    pub(super) fn words(&self) -> Option<Vec<&'a str>> {
        (self.group.size.media == 0).then(|| self.texts.iter().map(|text| text.text).collect())
    }

    /// Returns whether the message only states rules that later messages take back.
    pub(super) fn is_void(&self) -> bool {
        self.texts.iter().all(|text| text.is_aside || text.sentences().all(|range| text.revoked.contains(&range)))
    }

    /// Returns the edits of each item that shorten the message to this number of tokens.
    pub(super) fn edits(&self, tokens: u64) -> Vec<Vec<Edit>> {
        // The longest texts of a message are shortened first, too.
        let length = length(self.texts.iter().map(|text| text.tokens).collect(), tokens);
        let cuts: HashMap<(usize, usize), Option<Cut>> =
            self.texts.iter().map(|text| ((text.item, text.part), text.cut(length))).collect();
        let of_item = |(at, item): (usize, &Item)| {
            let is_cut =
                |edit: &&Edit| matches!(edit.change, Change::Cut { .. }) && cuts.contains_key(&(at, edit.part));
            let mut edits: Vec<Edit> = item.edits.iter().filter(|edit| !is_cut(edit)).cloned().collect();
            for text in self.texts.iter().filter(|text| text.item == at) {
                let cut = cuts.get(&(at, text.part)).cloned().flatten();
                edits.extend(cut.map(|cut| Edit { part: text.part, change: Change::Cut { item: 0, cut } }));
            }
            edit::in_order(edits)
        };
        self.group.items.iter().enumerate().map(of_item).collect()
    }
}

impl<'a> Text<'a> {
    fn read((at, item): (usize, &'a Item), part: usize, text: &'a str, sizing: Sizing<'_>) -> Text<'a> {
        let is_aside = is_from_client(text);
        let shown = edit::cut_of(&item.edits, part, 0);
        // Most messages are one text, which was counted when it arrived.
        let is_only_part = shown.is_none() && item.message.parts().nth(1).is_none();
        let all = if is_only_part { item.size.tokens } else { sizing.counter.text(text) };
        let most = bytes(PASTE, text.len(), all);
        let longest = if text.len() > most && !is_aside { pastes(text).max_by_key(Range::len) } else { None };
        let pasted = longest
            .filter(|paste| paste.len() > most)
            .map(|paste| line_end(text, paste.start + most / 2)..line_end(text, paste.end.saturating_sub(most / 2)));
        let gone = pasted.as_ref().map_or(0, |gone| all as u128 * gone.len() as u128 / text.len().max(1) as u128);
        let whole_tokens = all.saturating_sub(u64::try_from(gone).unwrap_or(all));
        let tokens = match shown {
            _ if is_aside => 0,
            Some(cut) => sizing.counter.text(&cut.apply(text)),
            None => whole_tokens,
        };
        let (rules, revoked, entry) = (Vec::new(), Vec::new(), item.position);
        let mut read =
            Text { item: at, part, entry, text, is_aside, whole_tokens, shown, tokens, rules, pasted, revoked };
        let rule = |range: Range<usize>| Some((states_rule(text.get(range.clone())?)?, range));
        read.rules = read.sentences().filter_map(rule).collect();
        read
    }

    /// Returns the sentences of the person, without those of a long paste.
    fn sentences(&self) -> impl Iterator<Item = Range<usize>> {
        let in_paste = |range: &Range<usize>| self.pasted.as_ref().is_some_and(|gone| gone.contains(&range.start));
        let most = if self.is_aside { 0 } else { MOST_SENTENCES };
        sentences(self.text).take(most).filter(move |range| !in_paste(range))
    }

    fn is_revoked(&self, range: &Range<usize>) -> bool {
        self.revoked.iter().any(|gone| gone.start < range.end && range.start < gone.end)
    }

    /// Cuts the text to this number of tokens. Also cuts a long paste, and rules that were taken back.
    fn cut(&self, tokens: u64) -> Option<Cut> {
        if self.is_aside {
            return self.without(0..self.text.len(), &[]).or_else(|| self.shown.cloned());
        }
        let shows_revoked = || {
            let shown = self.shown.map(|cut| cut.apply(self.text)).unwrap_or_default();
            self.revoked.iter().filter_map(|range| self.text.get(range.clone())).any(|revoked| shown.contains(revoked))
        };
        if tokens < self.tokens || shows_revoked() {
            let length = self.text.len() - self.pasted.as_ref().map_or(0, Range::len);
            let bytes = bytes(tokens.min(self.tokens), length, self.whole_tokens).saturating_sub(NOTE);
            return self.shortened(bytes).or_else(|| self.shown.cloned());
        }
        // A compaction must not make a message longer.
        if let Some(shown) = self.shown {
            return Some(shown.clone());
        }
        let gaps = || self.revoked.iter().chain(&self.pasted);
        let gone = gaps().map(|gap| gap.start).min()?..gaps().map(|gap| gap.end).max()?;
        let stays = |range: &Range<usize>| gone.contains(&range.start) && !self.is_revoked(range);
        let between: Vec<&str> = self.sentences().filter(stays).filter_map(|range| self.text.get(range)).collect();
        if self.pasted.is_some() || !between.is_empty() {
            return self.without(gone, &between);
        }
        let marker = if gone.len() > 16 { "[... taken back]" } else { "[...]" };
        let cut =
            Cut { head: gone.start, tail: self.text.len() - gone.end, marker: marker.to_owned(), ..Cut::nothing() };
        cut.if_shorter(self.text)
    }

    /// Keeps the beginning, the end, and sentences between them that state a rule, with this number of bytes.
    fn shortened(&self, bytes: usize) -> Option<Cut> {
        let shown = self.shown.map(|cut| cut.apply(self.text));
        // What an earlier compaction has removed does not come back.
        let is_shown = |range: &Range<usize>| {
            let sentence = self.text.get(range.clone()).unwrap_or_default();
            shown.as_ref().is_none_or(|shown| shown.contains(sentence))
        };
        let mut rules: Vec<Range<usize>> = Vec::new();
        // A quarter of the bytes is for the beginning and the end.
        let mut room = bytes - bytes / 4;
        for wanted in [Rule::Strong, Rule::Weak] {
            for (_, range) in self.rules.iter().filter(|(rule, _)| *rule == wanted) {
                if let Some(left) = room.checked_sub(range.len() + 1)
                    && !self.is_revoked(range)
                    && is_shown(range)
                {
                    room = left;
                    rules.push(range.clone());
                }
            }
        }
        let ends = bytes / 4 + room;
        let mut head = word_end(self.text, ends - ends / 3);
        let mut tail = word_end(self.text, self.text.len().saturating_sub(ends / 3)).max(head);
        if let Some(shown) = self.shown {
            (head, tail) = (head.min(shown.head), tail.max(self.text.len().saturating_sub(shown.tail)));
        }
        for gone in &self.revoked {
            head = if gone.start < head { head.min(gone.start) } else { head };
            tail = if gone.end > tail { tail.max(gone.end) } else { tail };
        }
        rules.retain(|range| range.start >= head && range.end <= tail);
        rules.sort_by_key(|range| range.start);
        let sentences: Vec<&str> = rules.into_iter().filter_map(|range| self.text.get(range)).collect();
        self.without(head..tail, &sentences)
    }

    /// Removes a part of the text, except for these sentences of it.
    fn without(&self, gone: Range<usize>, sentences: &[&str]) -> Option<Cut> {
        let said = if sentences.is_empty() { String::new() } else { format!("[...]\n{}\n", sentences.join("\n")) };
        let marker = format!("\n{said}[... entry {} has the rest]\n", self.entry);
        let cut = Cut { head: gone.start, tail: self.text.len().checked_sub(gone.end)?, marker, ..Cut::nothing() };
        cut.if_shorter(self.text)
    }
}

/// Returns the bytes of this number of tokens of a text.
fn bytes(tokens: u64, length: usize, all: u64) -> usize {
    usize::try_from(u128::from(tokens) * length as u128 / u128::from(all.max(1))).unwrap_or(usize::MAX)
}

/// Returns the end of the last word that ends before this place, if it is near.
fn word_end(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    let before = text.get(..at).unwrap_or_default();
    before.rfind(char::is_whitespace).filter(|end| at - end < 80).unwrap_or(at)
}

/// Returns the end of the last line that ends before this place, if it is near.
fn line_end(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    text.get(..at).and_then(|before| before.rfind('\n')).filter(|end| at - end < 400).map_or(at, |end| end + 1)
}

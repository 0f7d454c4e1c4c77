//! Missed identifiers: identifiers that the model wrote again after they had left its window.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lookback_engine::transcript::Position;
use lookback_engine::view::View;
use lookback_wire::{dialect::Preamble, edit};

use crate::cache::shown_as;
use lookback_content::identifiers::identifiers;

/// The identifiers of a history, and their positions.
#[derive(Default)]
pub(crate) struct Seen {
    numbers: HashMap<Arc<str>, usize>,
    names: Vec<Arc<str>>,
    // The messages that contain each identifier.
    places: Vec<Vec<Position>>,
    in_preamble: HashSet<usize>,
    // The identifiers that edited messages show, by position and edits.
    edited: HashMap<u128, HashSet<usize>>,
}

/// The identifiers that the model used again in one message.
pub(crate) struct Reused {
    /// The number of identifiers.
    pub(crate) identifiers: u64,
    /// Those that the window did not contain.
    pub(crate) missed: Vec<String>,
}

impl Seen {
    pub(crate) fn set_preamble(&mut self, preamble: &Preamble) {
        for raw in [&preamble.system, &preamble.tools].into_iter().flatten() {
            for word in identifiers(raw.get()) {
                let number = self.number(word);
                self.in_preamble.insert(number);
            }
        }
    }

    fn number(&mut self, word: &str) -> usize {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let (number, name): (usize, Arc<str>) = (self.places.len(), word.into());
        self.numbers.insert(name.clone(), number);
        self.names.push(name);
        self.places.push(Vec::new());
        number
    }

    pub(crate) fn push(&mut self, position: Position, text: &str) {
        for word in identifiers(text) {
            let number = self.number(word);
            if let Some(places) = self.places.get_mut(number).filter(|places| places.last() != Some(&position)) {
                places.push(position);
            }
        }
    }

    /// Forgets the entries from a position on, because a branch goes back to it.
    pub(crate) fn forget_from(&mut self, end: Position) {
        for places in &mut self.places {
            places.retain(|place| *place < end);
        }
    }

    /// Returns the newest entry that contains an identifier.
    pub(crate) fn place(&self, word: &str) -> Option<Position> {
        self.places.get(*self.numbers.get(word)?)?.last().copied()
    }

    /// Finds the identifiers in the model's next message that were in the history, and those of them that were not in
    /// its window, in which the messages at the positions `whole` are unchanged.
    pub(crate) fn compare(&mut self, next: &str, view: &View, whole: &HashSet<Position>) -> Reused {
        let reused = self.reused(next);
        let mut missed = self.missing(&reused, whole);
        if !missed.is_empty()
            && let Some(index) = view.index()
        {
            // The index splits a path into folder and file in its text, so use its names instead.
            let listed: HashSet<usize> =
                index.names.iter().filter_map(|listed| self.numbers.get(&*listed.name).copied()).collect();
            missed.retain(|word| !listed.contains(word));
        }
        if missed.is_empty() {
            return Reused { identifiers: reused.len() as u64, missed: Vec::new() };
        }
        // Lookback's own messages are not in the history, so their text must be read.
        for item in view.messages().filter(|item| !item.edits().is_empty() || item.is_own()) {
            if missed.is_empty() {
                break;
            }
            let key = shown_as(item);
            let numbers = &self.numbers;
            let shown = self.edited.entry(key).or_insert_with(|| {
                let text = edit::shown_text(item.message(), item.edits());
                identifiers(&text).filter_map(|word| numbers.get(word).copied()).collect()
            });
            missed.retain(|word| !shown.contains(word));
        }
        Reused { identifiers: reused.len() as u64, missed: self.named(&missed) }
    }

    /// Does the same for a window of these whole messages, and of other messages with these texts.
    pub(super) fn compare_texts(&self, next: &str, whole: &HashSet<Position>, texts: &[String]) -> Reused {
        let reused = self.reused(next);
        let mut missed = self.missing(&reused, whole);
        if !missed.is_empty() {
            let words = texts.iter().flat_map(|text| identifiers(text));
            let shown: HashSet<usize> = words.filter_map(|word| self.numbers.get(word).copied()).collect();
            missed.retain(|word| !shown.contains(word));
        }
        Reused { identifiers: reused.len() as u64, missed: self.named(&missed) }
    }

    /// Returns the identifiers of a text that the history has.
    fn reused(&self, text: &str) -> Vec<usize> {
        let words: HashSet<usize> = identifiers(text).filter_map(|word| self.numbers.get(word).copied()).collect();
        let is_known = |word: &usize| {
            self.in_preamble.contains(word) || self.places.get(*word).is_some_and(|places| !places.is_empty())
        };
        words.into_iter().filter(is_known).collect()
    }

    /// Returns those of these identifiers that neither the preamble nor a whole message has.
    fn missing(&self, words: &[usize], whole: &HashSet<Position>) -> Vec<usize> {
        let is_missing = |word: &&usize| {
            !self.in_preamble.contains(word)
                && !self.places.get(**word).is_some_and(|places| places.iter().rev().any(|place| whole.contains(place)))
        };
        words.iter().filter(is_missing).copied().collect()
    }

    fn named(&self, words: &[usize]) -> Vec<String> {
        words.iter().filter_map(|word| self.names.get(*word)).map(|name| name.to_string()).collect()
    }
}

//! An index in memory.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fmt;
use std::ops::{Range, RangeInclusive};

use lookback_engine::transcript::{Millis, Position};

use super::query::{self, Query};
use super::rank::{Index, Place, rank};
use super::terms::{WEIGHTS, terms, weighted};
use crate::Record;

/// An index in memory: of all added texts, or only of the terms of one query.
///
/// The caller numbers the logs. The index takes memory in proportion to the texts, but does not keep them.
#[derive(Default)]
pub struct Texts {
    terms: HashMap<String, List>,
    logs: HashMap<u32, Vec<(Position, Option<Millis>)>>,
    count: u64,
    /// Texts of removed logs that are still in the lists.
    removed: u64,
    /// The terms that are kept; all if `None`.
    only: Option<HashSet<String>>,
}

/// The texts that have a term.
#[derive(Default)]
struct List {
    places: Vec<Place>,
    /// How many of them, from the beginning, are in order.
    in_order: usize,
}

impl List {
    fn add(&mut self, place: Place) {
        if self.in_order == self.places.len() && self.places.last().is_none_or(|last| *last < place) {
            self.in_order += 1;
        }
        self.places.push(place);
    }

    fn put_in_order(&mut self) {
        if self.in_order < self.places.len() {
            self.places.sort_unstable();
            self.in_order = self.places.len();
        }
    }
}

impl Texts {
    /// Creates an index that keeps only the terms of this query. It takes little memory.
    pub fn for_query(query: &Query) -> Self {
        let mut only: HashSet<String> = query.speaker().into_iter().collect();
        only.extend(query::languages(query).into_iter().map(|(_, mark)| mark));
        let forms = query.words.iter().flat_map(|word| &word.terms);
        only.extend(forms.flat_map(|(_, term)| (1..=WEIGHTS).map(|weight| weighted(term, weight))));
        Texts { only: Some(only), ..Texts::default() }
    }

    /// Adds a record after the others of its log. A record without a text is ignored.
    pub fn add(&mut self, log: u32, position: Position, record: &Record) {
        self.add_terms(log, position, record.time, terms(record));
    }

    /// Adds a record by its [`terms`](super::terms()) and its time. A record without terms is ignored.
    pub fn add_terms<T: AsRef<str> + Into<String>>(
        &mut self,
        log: u32,
        position: Position,
        time: Option<Millis>,
        terms: impl IntoIterator<Item = T>,
    ) {
        let mut terms = terms.into_iter().peekable();
        if terms.peek().is_none() {
            return;
        }
        let of_log = self.logs.entry(log).or_default();
        let Ok(number) = u32::try_from(of_log.len()) else { return };
        of_log.push((position, time));
        self.count += 1;
        for term in terms {
            if self.only.as_ref().is_none_or(|only| only.contains(term.as_ref())) {
                self.terms.entry(term.into()).or_default().add(Place::new(log, number));
            }
        }
    }

    /// Removes a log. Its number must not be used again.
    pub fn remove(&mut self, log: u32) {
        let Some(of_log) = self.logs.remove(&log) else { return };
        self.count -= of_log.len() as u64;
        self.removed += of_log.len() as u64;
        // Not each time: it takes time in proportion to the whole index.
        if self.removed > self.count {
            self.terms.retain(|_, list| {
                list.places.retain(|place| self.logs.contains_key(&place.log()));
                list.in_order = 0;
                !list.places.is_empty()
            });
            self.removed = 0;
        }
    }

    /// Finds the records that match a query, in one log or in all: the best first, and at most `most` of them. Returns
    /// their logs and positions.
    pub fn search(&mut self, log: Option<u32>, query: &Query, most: usize) -> Vec<(u32, Position)> {
        let mut searched = Searched { texts: self, log, times: query.times() };
        let Ok(found) = rank(&mut searched, query, most);
        found
    }

    /// Returns the position and the time of a text; `None` if it does not exist.
    fn get(&self, place: Place) -> Option<(Position, Option<Millis>)> {
        self.logs.get(&place.log())?.get(place.text() as usize).copied()
    }
}

impl fmt::Debug for Texts {
    /// Prints the numbers of logs and texts, but none of the terms.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Texts").field("logs", &self.logs.len()).field("texts", &self.count).finish_non_exhaustive()
    }
}

/// An index in memory as one query sees it.
struct Searched<'a> {
    texts: &'a mut Texts,
    log: Option<u32>,
    times: Option<RangeInclusive<Millis>>,
}

impl Searched<'_> {
    /// Returns the texts that have a term, in the searched log or in all.
    fn list(&self, term: &str) -> &[Place] {
        let places = self.texts.terms.get(term).map(|list| list.places.as_slice()).unwrap_or_default();
        let within: Range<usize> = match self.log {
            None => 0..places.len(),
            Some(log) => {
                places.partition_point(|place| place.log() < log)..places.partition_point(|place| place.log() <= log)
            }
        };
        places.get(within).unwrap_or_default()
    }

    fn is_searched(&self, place: Place) -> bool {
        self.texts.get(place).is_some_and(|(_, time)| match &self.times {
            Some(times) => time.is_some_and(|time| times.contains(&time)),
            None => true,
        })
    }
}

impl Index for Searched<'_> {
    type Error = Infallible;
    type Hit = (u32, Position);

    fn texts(&mut self) -> Result<u64, Infallible> {
        Ok(match self.log {
            Some(log) => self.texts.logs.get(&log).map_or(0, |of_log| of_log.len() as u64),
            None => self.texts.count,
        })
    }

    fn counts(&mut self, terms: &[String]) -> Result<Vec<u64>, Infallible> {
        // The lists are exact unless logs were removed.
        let exact = self.texts.removed == 0;
        let count = |term: &String| {
            if let Some(list) = self.texts.terms.get_mut(term) {
                list.put_in_order();
            }
            let list = self.list(term);
            let there = || list.iter().filter(|place| self.texts.get(**place).is_some());
            (if exact { list.len() } else { there().count() }) as u64
        };
        Ok(terms.iter().map(count).collect())
    }

    fn places(&mut self, any: &[String], all: &[Vec<String>], most: usize) -> Result<Vec<Place>, Infallible> {
        let terms: Vec<&String> = any.iter().chain(all.iter().flatten()).collect();
        for term in terms {
            self.texts.terms.get_mut(term).into_iter().for_each(List::put_in_order);
        }
        let this = &*self;
        let mut demands: Vec<Vec<&[Place]>> = all
            .iter()
            .map(Vec::as_slice)
            .chain([any])
            .map(|terms| terms.iter().map(|term| this.list(term)).collect())
            .collect();
        // Walks through the shortest list and looks its texts up in the others.
        demands.sort_by_key(|lists: &Vec<&[Place]>| lists.iter().map(|list| list.len()).sum::<usize>());
        let Some((fewest, others)) = demands.split_first() else { return Ok(Vec::new()) };
        let meets = |place: &Place| {
            others.iter().all(|lists| lists.iter().any(|list| list.binary_search(place).is_ok()))
                && this.is_searched(*place)
        };
        let mut places: Vec<Place> = fewest.iter().flat_map(|list| list.iter().copied()).filter(meets).collect();
        places.sort_unstable();
        places.dedup();
        let extra = places.len().saturating_sub(most);
        places.drain(..extra);
        Ok(places)
    }

    fn hit(&mut self, place: Place) -> Result<Option<(u32, Position)>, Infallible> {
        if !self.is_searched(place) {
            return Ok(None);
        }
        Ok(self.texts.get(place).map(|(position, _)| (place.log(), position)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn texts(said: &[(u32, &str)]) -> Texts {
        let mut texts = Texts::default();
        let mut ends: HashMap<u32, u64> = HashMap::new();
        for (log, text) in said {
            let end = ends.entry(*log).or_default();
            texts.add(*log, *end, &Record::new("{}").text(*text));
            *end += 1;
        }
        texts
    }

    #[test]
    fn rarer_and_more_words_fit_better() {
        let mut all =
            texts(&[(0, "a red apple"), (1, "an apple pie"), (2, "an apple"), (3, "a red car"), (4, "nothing")]);
        assert_eq!(all.search(None, &Query::new("red apple"), 9)[0], (0, 0));
        assert_eq!(all.search(None, &Query::new("apple pie"), 1), [(1, 0)]);
        assert_eq!(all.search(None, &Query::new("apples pies red"), 9).len(), 4);
        assert_eq!(all.search(None, &Query::new("zebra"), 9), []);
    }

    #[test]
    fn a_name_as_a_whole_fits_better_than_its_parts() {
        let mut all =
            texts(&[(0, "read the file"), (1, "call read_file"), (2, "the file that I read"), (3, "ReadFile()")]);
        assert_eq!(all.search(None, &Query::new("read_file"), 9)[0], (1, 0));
        assert_eq!(all.search(None, &Query::new("read_file"), 9).len(), 4);
        assert_eq!(all.search(None, &Query::new("readFile"), 1), [(3, 0)]);
    }

    #[test]
    fn what_is_said_around_a_text_counts() {
        let mut all = texts(&[
            (0, "Which port does the linker need?"),
            (0, "5050, as ever."),
            (0, "Thanks"),
            (0, "Bye"),
            (1, "a port"),
        ]);
        let found = all.search(None, &Query::new("What port did the linker need?"), 9);
        assert_eq!(found[..2], [(0, 0), (0, 1)]);
        assert!(!found.contains(&(0, 3)) && found.contains(&(1, 0)));
        // Queries of one or two words find only texts that have them.
        assert_eq!(all.search(None, &Query::new("linker need"), 9), [(0, 0)]);
    }

    #[test]
    fn a_log_that_was_removed_is_not_found() {
        let mut all = texts(&[(0, "apple"), (1, "apple"), (2, "pear"), (3, "apple")]);
        for (log, left) in [(1, 2), (3, 1), (0, 0)] {
            all.remove(log);
            assert_eq!(all.search(None, &Query::new("apple"), 9).len(), left);
            assert_eq!(all.search(Some(log), &Query::new("apple"), 9), []);
        }
        assert_eq!(all.search(None, &Query::new("pears"), 9), [(2, 0)]);
    }

    #[test]
    fn an_index_for_one_query_finds_the_same() {
        let said = ["a red apple", "Die Äpfel sind nicht rot", "read_file src/lib.rs", "apple", "rot"];
        for query in ["red apples", "Apfel", "die Äpfel sind", "src/lib.rs", "\"red apple\"", "lib"] {
            let query = Query::new(query);
            let (mut all, mut some) = (Texts::default(), Texts::for_query(&query));
            for (log, text) in (0..).zip(said) {
                all.add(log, 0, &Record::new("{}").text(text));
                some.add(log, 0, &Record::new("{}").text(text));
            }
            assert!(some.terms.len() < all.terms.len());
            let found = all.search(None, &query, 9);
            assert!(!found.is_empty());
            assert_eq!(some.search(None, &query, 9), found);
        }
    }
}

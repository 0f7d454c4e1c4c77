//! The ranking: which texts of an index match a query, the best first.
//!
//! A text's own score is BM25 over the words of the query, with weights in a few levels (see the module `terms`). Added
//! to it are parts of the scores of the two texts before and the two after it, and of its block's score: a question is
//! often answered without repeating its words.
//!
//! The cost is bounded. The rarest words are looked up first, until [`MOST_FOUND`] texts are found. After that, a more
//! frequent word only ranks the texts that were found already.

use super::language::Language;
use super::query::{self, Query, Word};
use super::terms::{SATURATION, WEIGHTS, weighted};

/// How many texts the words of a query may find. If a single word exceeds this, it finds only the newest texts.
const MOST_FOUND: usize = 10_000;
/// After [`MOST_FOUND`] texts, a word is ignored like a function word if more than one in this many texts have it.
const RARE: u64 = 16;
/// The share of a neighbor's score that is added, for distances 1 and 2.
const NEIGHBORS: [f64; 2] = [0.5, 0.25];
/// How many words of the query a text must have before its neighbors, without any of them, are results. Questions have
/// this many words. Shorter queries expect only texts that have the words.
const TELLING: u32 = 3;
/// How many texts of a log, counted from its first, form a block, and the weight of a block's score. A block is about
/// as long as a sitting, and shorter than the log of an agent.
const BLOCK: u64 = 24;
const OF_BLOCK: f64 = 0.4;
/// How fast repeats of a word in a block saturate.
const BLOCK_SATURATION: f64 = 0.8;
/// The weight of a frequent word whose actual weight is not looked up.
const USUAL: u32 = 2;

/// The place of a text in an index: the number of its log, then its own number in the log, both from 0. Consecutive
/// texts of a log have consecutive numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

impl Place {
    /// Creates a place. A later log should have a higher number.
    pub fn new(log: u32, text: u32) -> Self {
        Place(u64::from(log) << 32 | u64::from(text))
    }

    /// Returns the place with this number (see [`Place::number`]).
    pub fn numbered(number: u64) -> Self {
        Place(number)
    }

    /// Returns a single number for the place. Numbers and places have the same order.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the number of the log.
    #[allow(clippy::cast_possible_truncation, reason = "the upper half")]
    pub fn log(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the number of the text in its log.
    #[allow(clippy::cast_possible_truncation, reason = "the lower half")]
    pub fn text(self) -> u32 {
        self.0 as u32
    }

    /// Returns the places right before and after it.
    fn neighbors(self) -> impl Iterator<Item = Place> {
        let texts = [self.text().checked_sub(1), self.text().checked_add(1)];
        texts.into_iter().flatten().map(move |text| Place::new(self.log(), text))
    }

    fn block(self) -> Place {
        let text = u64::from(self.text()) / BLOCK * BLOCK;
        Place(u64::from(self.log()) << 32 | text)
    }
}

/// An index, as [`rank`] queries it: which texts have which of the indexed [`terms`](super::terms()). It is limited to
/// the searched logs, and to the [times](Query::times) of the query.
pub trait Index {
    /// The error of the index.
    type Error;
    /// The identifier of a text that was found.
    type Hit;

    /// Returns the number of texts. It may include texts outside the query's times.
    ///
    /// # Errors
    /// Returns an error if the index fails.
    fn texts(&mut self) -> Result<u64, Self::Error>;

    /// Returns how many texts have each of these terms: one number for each. It may include texts outside the query's
    /// times. The terms are consecutive: an index has no other term between the first and the last in byte order.
    ///
    /// # Errors
    /// Returns an error if the index fails.
    fn counts(&mut self, terms: &[String]) -> Result<Vec<u64>, Self::Error>;

    /// Returns the texts that have a term of `any`, and a term of each list of `all`, in order and without duplicates.
    /// If there are more than `most`, returns the last ones.
    ///
    /// # Errors
    /// Returns an error if the index fails.
    fn places(&mut self, any: &[String], all: &[Vec<String>], most: usize) -> Result<Vec<Place>, Self::Error>;

    /// Returns the identifier of a text; `None` if it does not exist or is outside the query's times.
    ///
    /// # Errors
    /// Returns an error if the index fails.
    fn hit(&mut self, place: Place) -> Result<Option<Self::Hit>, Self::Error>;

    /// Returns the [`counts`](Index::counts) of each of these lists. The default asks for one after another. An index
    /// on a network should answer all in one round trip, and the same holds for `places_of` and `hits`.
    ///
    /// # Errors
    /// Returns an error if the index fails.
    fn counts_of(&mut self, lists: &[Vec<String>]) -> Result<Vec<Vec<u64>>, Self::Error> {
        lists.iter().map(|terms| self.counts(terms)).collect()
    }

    /// Returns the [`places`](Index::places) of each of these lookups.
    ///
    /// # Errors
    /// Returns an error if the index fails.
    fn places_of(&mut self, lookups: &[Lookup], most: usize) -> Result<Vec<Vec<Place>>, Self::Error> {
        lookups.iter().map(|lookup| self.places(&lookup.any, &lookup.all, most)).collect()
    }

    /// Returns the [`hit`](Index::hit) of each of these places.
    ///
    /// # Errors
    /// Returns an error if the index fails.
    fn hits(&mut self, places: &[Place]) -> Result<Vec<Option<Self::Hit>>, Self::Error> {
        places.iter().map(|place| self.hit(*place)).collect()
    }
}

/// A lookup of [`rank`]: the texts that have a term of `any`, and a term of each list of `all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// A text must have at least one of these terms.
    pub any: Vec<String>,
    /// A text must have at least one term of each list.
    pub all: Vec<Vec<String>>,
}

/// A word of the query, with the terms that match it, by weight.
struct Wanted {
    terms: [Vec<String>; WEIGHTS as usize],
    count: u64,
    /// How many words it adds to a text's count: 0 if it is a part of a word, or consists of several.
    words: u32,
}

impl Wanted {
    fn new(word: &Word) -> Self {
        Wanted { terms: Default::default(), count: 0, words: u32::from(word.is_word) }
    }

    /// Returns the forms of a word in these languages: for each the terms, by weight.
    fn forms(word: &Word, languages: &[Language]) -> impl Iterator<Item = Vec<String>> {
        let forms = word.terms.iter().filter(|(of, _)| of.is_none_or(|language| languages.contains(&language)));
        forms.map(|(_, form)| (1..=WEIGHTS).map(|weight| weighted(form, weight)).collect())
    }

    /// Adds a form of the word, with the number of texts that have it at each weight.
    fn add(&mut self, form: Vec<String>, counts: Vec<u64>) {
        for ((known, term), count) in self.terms.iter_mut().zip(form).zip(counts) {
            if count > 0 {
                self.count = self.count.saturating_add(count);
                known.push(term);
            }
        }
    }

    fn all(&self) -> Vec<String> {
        self.terms.concat()
    }
}

/// A text or block with its score.
#[derive(Clone, Copy)]
struct Found {
    place: Place,
    score: f64,
    words: u32,
}

/// Finds the texts that match a query: the best first, and at most `most` of them. Of equally good texts, later ones in
/// a log come first.
///
/// # Errors
/// Returns an error if the index fails.
pub fn rank<I: Index + ?Sized>(index: &mut I, query: &Query, most: usize) -> Result<Vec<I::Hit>, I::Error> {
    if most == 0 || query.is_empty() {
        return Ok(Vec::new());
    }
    let (languages, marks): (Vec<_>, Vec<_>) = query::languages(query).into_iter().unzip();
    let counts = if marks.is_empty() { Vec::new() } else { index.counts(&marks)? };
    let languages: Vec<Language> =
        languages.into_iter().zip(counts).filter_map(|(language, count)| (count > 0).then_some(language)).collect();
    let mut wanted = Vec::new();
    let mut all: Vec<Vec<String>> = query.speaker().map(|speaker| vec![speaker]).into_iter().collect();
    let forms: Vec<Vec<Vec<String>>> =
        query.words.iter().map(|word| Wanted::forms(word, &languages).collect()).collect();
    let mut counts = index.counts_of(&forms.concat())?.into_iter();
    for (word, forms) in query.words.iter().zip(forms) {
        let mut found = Wanted::new(word);
        for (form, counts) in forms.into_iter().zip(&mut counts) {
            found.add(form, counts);
        }
        if word.required || query.every && !word.is_name {
            if found.count == 0 {
                return Ok(Vec::new());
            }
            all.push(found.all());
        }
        if found.count > 0 {
            wanted.push(found);
        }
    }
    wanted.sort_by_key(|word| word.count);
    let texts = index.texts()?;
    let found = score(index, &wanted, &all, texts, if query.every { usize::MAX } else { MOST_FOUND })?;
    let mut ranked = fit(found, all.is_empty());
    ranked.sort_by(|(one, at), (other, after)| {
        other.total_cmp(one).then(after.text().cmp(&at.text())).then(at.log().cmp(&after.log()))
    });
    let (mut hits, mut places) = (Vec::new(), ranked.into_iter().map(|(_, place)| place));
    while hits.len() < most {
        let next: Vec<Place> = places.by_ref().take(most - hits.len()).collect();
        if next.is_empty() {
            break;
        }
        hits.extend(index.hits(&next)?.into_iter().flatten());
    }
    Ok(hits)
}

/// Returns the texts that have words of the query, each with its own score, and the blocks with theirs, in order.
fn score<I: Index + ?Sized>(
    index: &mut I,
    wanted: &[Wanted],
    all: &[Vec<String>],
    texts: u64,
    most: usize,
) -> Result<(Vec<Found>, Vec<Found>), I::Error> {
    let (mut found, mut blocks) = (Vec::new(), Vec::new());
    let (lookups, weights): (Vec<Lookup>, Vec<(usize, u32)>) = lookups(wanted, all, texts, most).into_iter().unzip();
    let mut places = weights.into_iter().zip(index.places_of(&lookups, most)?).peekable();
    for (number, word) in wanted.iter().enumerate() {
        let mut weights: Vec<(Place, u32)> = Vec::new();
        while let Some(((_, weight), places)) = places.next_if(|((of, _), _)| *of == number) {
            weights.extend(places.into_iter().map(|place| (place, weight)));
        }
        // A text that is not in the default language has a word in several terms. The highest weight applies.
        weights.sort_unstable_by_key(|(place, weight)| (*place, std::cmp::Reverse(*weight)));
        weights.dedup_by_key(|(place, _)| *place);
        let rarity = rarity(texts, word.count);
        let mut sum = 0.0;
        for (at, (place, weight)) in weights.iter().enumerate() {
            let weight = f64::from(*weight) / f64::from(WEIGHTS);
            found.push(Found { place: *place, score: rarity * weight * (SATURATION + 1.0), words: word.words });
            sum += weight;
            let block = place.block();
            if weights.get(at + 1).is_none_or(|(next, _)| next.block() != block) {
                let score = rarity * sum * (BLOCK_SATURATION + 1.0) / (sum + BLOCK_SATURATION);
                blocks.push(Found { place: block, score, words: 0 });
                sum = 0.0;
            }
        }
    }
    Ok((merged(found), merged(blocks)))
}

/// Returns the lookups, each with the index of its word and the weight of its matches.
fn lookups(wanted: &[Wanted], all: &[Vec<String>], texts: u64, most: usize) -> Vec<(Lookup, (usize, u32))> {
    let mut room = most as u64;
    let (mut lookups, mut finders): (Vec<_>, Vec<String>) = (Vec::new(), Vec::new());
    for (number, word) in wanted.iter().enumerate() {
        if number == 0 || word.count <= room {
            room = room.saturating_sub(word.count);
            for (weight, terms) in (1..).zip(&word.terms).filter(|(_, terms)| !terms.is_empty()) {
                lookups.push((Lookup { any: terms.clone(), all: all.to_vec() }, (number, weight)));
                finders.extend_from_slice(terms);
            }
        } else if word.count > texts / RARE {
            break;
        } else {
            room = 0;
            let all = all.iter().cloned().chain([finders.clone()]).collect();
            lookups.push((Lookup { any: word.all(), all }, (number, USUAL)));
        }
    }
    lookups
}

/// Returns the weight of a word that `count` of all texts have.
#[allow(clippy::cast_precision_loss, reason = "it is a logarithm")]
fn rarity(texts: u64, count: u64) -> f64 {
    let others = texts.saturating_sub(count) as f64;
    (1.0 + (others + 0.5) / (count as f64 + 0.5)).ln()
}

/// Adds up the scores of each text, and sorts the texts.
fn merged(mut found: Vec<Found>) -> Vec<Found> {
    // A stable sort, because the order of a sum changes its rounding.
    found.sort_by_key(|found| found.place);
    found.dedup_by(|next, known| {
        let same = next.place == known.place;
        if same {
            known.score += next.score;
            known.words += next.words;
        }
        same
    });
    found
}

/// Adds the scores of the surroundings to those of the texts. If `also_silent`, includes neighbors that have none of
/// the words.
fn fit((mut found, blocks): (Vec<Found>, Vec<Found>), also_silent: bool) -> Vec<(f64, Place)> {
    if also_silent {
        let telling: Vec<Place> =
            found.iter().filter(|found| found.words >= TELLING).map(|found| found.place).collect();
        found.extend(telling.iter().flat_map(|place| place.neighbors()).map(|place| Found {
            place,
            score: 0.0,
            words: 0,
        }));
        found = merged(found);
    }
    let near = |at: usize, place: Place| {
        let before = found.get(at.saturating_sub(NEIGHBORS.len())..at).unwrap_or_default();
        let behind = found.get(at + 1..found.len().min(at + 1 + NEIGHBORS.len())).unwrap_or_default();
        let around = before.iter().chain(behind).map(|other| {
            let distance = usize::try_from(other.place.number().abs_diff(place.number())).unwrap_or(usize::MAX);
            NEIGHBORS.get(distance.wrapping_sub(1)).map_or(0.0, |part| part * other.score)
        });
        around.sum::<f64>()
    };
    let mut blocks = blocks.iter().peekable();
    let mut ranked = Vec::with_capacity(found.len());
    for (at, Found { place, score, .. }) in found.iter().enumerate() {
        let block = place.block();
        while blocks.next_if(|known| known.place < block).is_some() {}
        let of_block = blocks.peek().filter(|known| known.place == block).map_or(0.0, |known| known.score);
        ranked.push((score + near(at, *place) + OF_BLOCK * of_block, *place));
    }
    ranked
}

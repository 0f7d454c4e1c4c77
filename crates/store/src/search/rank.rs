//! The ranking: which texts of an index fit a query, the best first.
//!
//! A text's own score is BM25 over the words of the query, with weights in a few levels (see the module `terms`). To it
//! is added a part of the scores of the two texts before it and behind it, and how well the texts around it fit
//! together: a question is often answered without repeating its words.
//!
//! The cost is bounded. The rarest words are looked up first, until [`MOST_FOUND`] texts are found. More frequent words
//! find nothing by themselves then. They only tell the texts apart that were found.

use super::language::Language;
use super::query::{self, Query, Word};
use super::terms::{SATURATION, WEIGHTS, weighted};

/// How many texts the words of a query may find. Beyond that, of a single word only the newest texts are found.
const MOST_FOUND: usize = 10_000;
/// A word that more than one in so many texts have says nothing then, as if it were a function word.
const RARE: u64 = 16;
/// The part of a neighbor's score that counts, for each distance.
const NEIGHBORS: [f64; 2] = [0.5, 0.25];
/// How many words of the query the neighbor of a text must have if the text has none itself. A question has so many, and
/// who looks for one or two words wants to see them.
const TELLING: u32 = 3;
/// How many texts of a log, beginning with the first, are a block of which the fit counts as a whole, and how much it
/// counts. A block is about as long as a sitting, and shorter than the log of an agent.
const BLOCK: u64 = 24;
const OF_BLOCK: f64 = 0.4;
/// How soon a word counts no more if it is repeated in a block.
const BLOCK_SATURATION: f64 = 0.8;
/// The weight of a frequent word, which is not looked up.
const USUAL: u32 = 2;

/// Where a text is in an index: the number of its log, then its own number in the log, both from 0. Texts that follow
/// one another in a log have numbers that do.
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

    /// Returns one number for the place. Numbers have the order of places.
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

    /// The texts right before and behind it.
    fn neighbors(self) -> impl Iterator<Item = Place> {
        let texts = [self.text().checked_sub(1), self.text().checked_add(1)];
        texts.into_iter().flatten().map(move |text| Place::new(self.log(), text))
    }

    fn block(self) -> Place {
        let text = u64::from(self.text()) / BLOCK * BLOCK;
        Place(u64::from(self.log()) << 32 | text)
    }
}

/// What [`rank`] asks of an index: which texts have which of the [`terms`](super::terms()) that were indexed. An index
/// is limited to the logs that are searched, and to the [times](Query::times) of the query.
pub trait Index {
    /// What can go wrong.
    type Error;
    /// How a text that was found is named.
    type Hit;

    /// Returns the number of texts. It may also count those of other times.
    ///
    /// # Errors
    /// Returns an error if the index fails, as all methods do.
    fn texts(&mut self) -> Result<u64, Self::Error>;

    /// Returns how many texts have each of these terms: one number for each. It may also count those of other times. In
    /// byte order, no terms are between the first and the last but these.
    ///
    /// # Errors
    /// Returns an error if the index fails.
    fn counts(&mut self, terms: &[String]) -> Result<Vec<u64>, Self::Error>;

    /// Returns the texts that have one of these terms, and one of the terms of each list of `all`: in order, each once.
    /// If there are more than `most`, it returns the last ones.
    ///
    /// # Errors
    /// Returns an error if the index fails.
    fn places(&mut self, any: &[String], all: &[Vec<String>], most: usize) -> Result<Vec<Place>, Self::Error>;

    /// Returns the name of a text; `None` if there is no such text, or if it is of another time.
    ///
    /// # Errors
    /// Returns an error if the index fails.
    fn hit(&mut self, place: Place) -> Result<Option<Self::Hit>, Self::Error>;

    /// Returns [`counts`](Index::counts) of each of these lists. The default asks for one after another. An index on a
    /// network should answer them in one round trip, as the other two methods that take several.
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

/// Which texts [`rank`] asks for: those that have one of the terms `any`, and one of the terms of each list of `all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// Terms of which a text has one.
    pub any: Vec<String>,
    /// Lists of terms. A text has one of each.
    pub all: Vec<Vec<String>>,
}

/// A word of the query, and the terms that texts have of it, by their weights.
struct Wanted {
    terms: [Vec<String>; WEIGHTS as usize],
    count: u64,
    /// How many words it counts for: none if it is a part of one, or has several.
    words: u32,
}

impl Wanted {
    fn new(word: &Word) -> Self {
        Wanted { terms: Default::default(), count: 0, words: u32::from(word.is_word) }
    }

    /// The forms of a word in these languages: for each the terms, by their weights.
    fn forms(word: &Word, languages: &[Language]) -> impl Iterator<Item = Vec<String>> {
        let forms = word.terms.iter().filter(|(of, _)| of.is_none_or(|language| languages.contains(&language)));
        forms.map(|(_, form)| (1..=WEIGHTS).map(|weight| weighted(form, weight)).collect())
    }

    /// Adds a form of the word, and how many texts have it with each weight.
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

/// What is known about a text.
#[derive(Clone, Copy)]
struct Found {
    place: Place,
    score: f64,
    words: u32,
}

/// Finds the texts that fit a query: the best first, and at most `most` of them. Of texts that fit as well, the newest
/// of a log comes first.
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

/// The texts that have words of the query, in order, each with its own score; and the blocks with theirs.
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
        // A text has a word in several terms if its language is not the common one.
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

/// What is looked up: each time for a word, by its number, and with which weight it counts.
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

/// How much a word tells that so many of all texts have.
#[allow(clippy::cast_precision_loss, reason = "it is a logarithm")]
fn rarity(texts: u64, count: u64) -> f64 {
    let others = texts.saturating_sub(count) as f64;
    (1.0 + (others + 0.5) / (count as f64 + 0.5)).ln()
}

/// Adds up what is known about each text, and puts the texts in order.
fn merged(mut found: Vec<Found>) -> Vec<Found> {
    // Stable, because the order of a sum makes a difference.
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

/// The scores of the texts with what is said around them. If `also_silent`, also those of texts without any of the
/// words.
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

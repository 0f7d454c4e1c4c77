//! The offline summarizer, which chooses the most significant sentences of a conversation.
//!
//! The algorithm is SumBasic (Nenkova and Vanderwende, *The Impact of Frequency on Summarization*, 2005) over tf·idf
//! weights. The score of a unit is the mean weight of its words. The best unit is taken, and its words then weigh less,
//! so the next one differs from it. The algorithm needs no model, no training and no list of stop words (idf replaces
//! it). It is deterministic, and its choices can be traced. Graph rankings (TextRank, LexRank) compare every sentence
//! with every other, which costs too much on long conversations.

use std::cmp::Ordering;
use std::collections::hash_map::{Entry, HashMap};
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

use lookback_tokens::cut;
use lookback_tokens::{Estimate, TokenCounter};
use unicode_segmentation::UnicodeSegmentation;

use super::error::Kind;
use super::{Completion, PassageRole, Summarizer, SummaryFaults, SummaryTask, check};
use lookback_content::identifiers::identifiers;

/// A unit with fewer words is scored as if it had this many, so that single words do not win.
const SHORT: usize = 6;
/// The factor for a word in the task's focus.
const FOCUS: f64 = 4.0;
/// The factor for an identifier, because a model refers back to it and cannot guess it.
const IDENTIFIER: f64 = 6.0;
/// The factor for a word each time a unit with it is chosen. (SumBasic squares the word's probability. In a long
/// conversation, that leaves almost nothing, and a chosen question would make its answer worthless.)
const SAID: f64 = 0.3;
/// The factor for a tool call. Its result is more informative.
const CALL: f64 = 0.5;
/// The factor for a question. Its answer is more informative.
const QUESTION: f64 = 0.7;
/// The factor for a word that occurs in one unit only. The conversation is not about it.
const ONCE: f64 = 0.25;
/// The limit on scoring units again: this many times the words of all units. After that, the scores stay.
const PATIENCE: usize = 8;
/// A conversation with fewer bytes is summarized on the caller's thread, in a few milliseconds. A longer one would
/// block the executor.
const AT_ONCE: usize = 64 << 10;

/// A summarizer that works offline: it chooses units of the conversation (see [`units`](super::units())), and writes
/// them in their order, one per line.
///
/// The lines of a previous summary compete with the new units. A person's words weigh 1.5 times as much as the model's,
/// a system prompt and tool calls half as much, and tool output a quarter. The summary never exceeds the budget. It is
/// empty only if the conversation is, or if the budget is too small for one character. The time is linear in the length
/// of the conversation, and well under a second for ten megabytes. Conversations of 64 KiB or more are summarized on a
/// thread of a pool.
///
/// If a check refused its last summary, the next one passes: if the summary copied orders, the new one leaves out all
/// orders in the output of tools. Its first line has the needed names that are in no chosen line.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use lookback_wire::message::Message;
/// use lookback_summarize::{Extractive, SummarizeOptions, summarize};
///
/// let talk = [
///     Message::user("Hi! Please move the server to port 5050."),
///     Message::assistant("Done: the server listens on port 5050 now. Anything else?"),
/// ];
/// let summary = summarize(&talk, &Extractive::default(), &SummarizeOptions::default().budget(15)).await?;
/// assert_eq!(summary.text, "Please move the server to port 5050.");
/// # Ok::<(), lookback_summarize::SummarizerError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Extractive {
    counter: Arc<dyn TokenCounter>,
}

impl Extractive {
    /// Creates a summarizer that counts its budget with this counter.
    pub fn new(counter: impl TokenCounter + 'static) -> Self {
        Extractive { counter: Arc::new(counter) }
    }
}

impl Default for Extractive {
    /// A summarizer that estimates tokens.
    fn default() -> Self {
        Extractive::new(Estimate::default())
    }
}

impl Summarizer for Extractive {
    fn model(&self) -> &str {
        "extractive"
    }

    fn complete<'a>(&'a self, task: &'a SummaryTask) -> Completion<'a> {
        Box::pin(async move {
            if task.schema.is_some() {
                return Err(Kind::NeedsModel { model: self.model().to_owned() }.into());
            }
            if task.passages.iter().map(|passage| passage.text.len()).sum::<usize>() < AT_ONCE {
                return Ok(extract(task, &*self.counter));
            }
            let (task, counter) = (task.clone(), self.counter.clone());
            Ok(blocking::unblock(move || extract(&task, &*counter)).await)
        })
    }
}

fn extract(task: &SummaryTask, counter: &dyn TokenCounter) -> String {
    let mut units = Units::from_task(task);
    if units.texts.is_empty() && task.faults.is_some() {
        // Without the refused units, the summary would be empty.
        units = Units::from_task(&SummaryTask { faults: None, ..task.clone() });
    }
    let needed = task.faults.as_ref().map_or(&[][..], |faults| faults.needed.as_slice());
    let line = |names: &[&str]| if names.is_empty() { String::new() } else { format!("{}\n", names.join(", ")) };
    let reserved = counter.text(&line(&needed.iter().map(String::as_str).collect::<Vec<_>>()));
    let Choice { mut chosen, best } = units.choose(task.requested_tokens().saturating_sub(reserved), counter, &mut 0);
    let text = |unit: usize| units.texts.get(unit).map_or("", String::as_str);
    if chosen.is_empty() {
        // No unit fits. The beginning of the best is better than nothing.
        chosen.push(best);
    }
    chosen.sort_unstable();
    let lines = chosen.iter().map(|unit| text(*unit)).collect::<Vec<_>>().join("\n");
    let unnamed: Vec<&str> = needed.iter().map(String::as_str).filter(|name| !check::names(&lines, name)).collect();
    // Joined lines may have a few tokens more than the sum of each.
    cut::head(&format!("{}{lines}", line(&unnamed)), task.requested_tokens(), counter).to_owned()
}

/// The units of a task, with their words.
struct Units {
    texts: Vec<String>,
    /// The factor of each unit, from its speaker and form.
    shares: Vec<f64>,
    /// The words of each unit, by number, without repetitions.
    words: Vec<Vec<usize>>,
    /// The weight of each word.
    weights: Vec<f64>,
}

/// The units that were chosen.
struct Choice {
    chosen: Vec<usize>,
    /// The unit with the best score, even if it does not fit.
    best: usize,
}

impl Units {
    fn from_task(task: &SummaryTask) -> Units {
        let mut units = Units { texts: Vec::new(), shares: Vec::new(), words: Vec::new(), weights: Vec::new() };
        let mut vocabulary = Vocabulary::default();
        let mut known = HashSet::new();
        for (share, text) in shares(task).filter(|(_, text)| !text.is_empty()) {
            let words = vocabulary.add(&text, share);
            // A repeated unit is counted each time, and shown once.
            if known.insert(text.clone()) {
                let question = if text.ends_with(['?', '\u{ff1f}', '\u{61f}']) { QUESTION } else { 1.0 };
                units.texts.push(text);
                units.shares.push(share * question);
                units.words.push(words);
            }
        }
        units.weights = vocabulary.weights(units.texts.len());
        vocabulary.stress(task, &mut units.weights);
        units
    }

    /// Chooses the best units that fit, the best first. Adds the number of words that were scored again to `work`.
    fn choose(&self, budget: u64, counter: &dyn TokenCounter, work: &mut usize) -> Choice {
        let mut weights = self.weights.clone();
        // Units of a single word are left out, unless there are no others.
        let says = |unit: &usize| self.words.get(*unit).is_some_and(|words| words.len() > 1);
        let any = (0..self.texts.len()).any(|unit| says(&unit));
        // Weights only decrease, and so do scores. So the best unit can be found without scoring all of them again.
        let first = |unit| Scored { score: self.score(unit, &weights), unit };
        let mut heap: BinaryHeap<Scored> = (0..self.texts.len()).filter(|unit| !any || says(unit)).map(first).collect();
        let best = heap.peek().map_or(0, |best| best.unit);
        let most = PATIENCE * self.words.iter().map(Vec::len).sum::<usize>();
        let mut chosen = Vec::new();
        let mut left = budget;
        while let Some(mut top) = heap.pop().filter(|top| left > 0 && (top.score > 0.0 || chosen.is_empty())) {
            if *work < most {
                *work += self.words.get(top.unit).map_or(0, Vec::len);
                top.score = self.score(top.unit, &weights);
                if heap.peek().is_some_and(|next| *next > top) {
                    heap.push(top);
                    continue;
                }
            }
            let text = self.texts.get(top.unit).map_or("", String::as_str);
            // A line break may be a token.
            let cost = counter.text(text).saturating_add(u64::from(!chosen.is_empty()));
            if cost > left {
                continue;
            }
            left -= cost;
            chosen.push(top.unit);
            for word in self.words.get(top.unit).into_iter().flatten() {
                if let Some(weight) = weights.get_mut(*word) {
                    *weight *= SAID;
                }
            }
        }
        Choice { chosen, best }
    }

    fn score(&self, unit: usize, weights: &[f64]) -> f64 {
        let words = self.words.get(unit).map_or(&[][..], Vec::as_slice);
        let sum: f64 = words.iter().filter_map(|word| weights.get(*word)).sum();
        sum / words.len().max(SHORT) as f64 * self.shares.get(unit).unwrap_or(&1.0)
    }
}

/// Returns the units of a task, each with the factor of its speaker. The lines of a previous summary come first.
fn shares(task: &SummaryTask) -> impl Iterator<Item = (f64, String)> + '_ {
    let previous = task.previous.iter().flat_map(|text| text.lines()).map(|line| (1.0, line.trim().to_owned()));
    let faults = task.faults.as_ref();
    let passages = task.passages.iter().flat_map(move |passage| {
        let share = match passage.role {
            PassageRole::User => 1.5,
            PassageRole::System => 0.5,
            PassageRole::Tool => 0.25,
            PassageRole::Assistant | PassageRole::Summary => 1.0,
        };
        let refused = move |text: &str| faults.is_some_and(|faults| is_refused(faults, passage.role, text));
        let units = super::units(&passage.text).into_iter().filter(move |text| !refused(text));
        let share = move |text: &str| if text.starts_with("[call ") { share * CALL } else { share };
        units.map(move |text| (share(&text), text))
    });
    previous.chain(passages)
}

/// Whether a unit has a fault for which the last summary was refused.
fn is_refused(faults: &SummaryFaults, role: PassageRole, text: &str) -> bool {
    let order = !faults.orders.is_empty() && role == PassageRole::Tool && check::is_order(text);
    order || faults.language.is_some_and(|language| !check::is_in(text, language.source))
}

/// The words of all units.
#[derive(Default)]
struct Vocabulary {
    numbers: HashMap<String, usize>,
    /// For each word: its occurrences, weighted by their units, and the number of units with it.
    counts: Vec<(f64, u32)>,
}

impl Vocabulary {
    /// Counts the words of a unit, and returns their numbers without repetitions.
    fn add(&mut self, text: &str, share: f64) -> Vec<usize> {
        let mut words = Vec::new();
        for word in terms(text) {
            let number = self.number(word);
            if let Some((all, _)) = self.counts.get_mut(number) {
                *all += share;
            }
            words.push(number);
        }
        words.sort_unstable();
        words.dedup();
        for word in &words {
            if let Some((_, within)) = self.counts.get_mut(*word) {
                *within = within.saturating_add(1);
            }
        }
        words
    }

    fn number(&mut self, word: String) -> usize {
        match self.numbers.entry(word) {
            Entry::Occupied(number) => *number.get(),
            Entry::Vacant(place) => {
                self.counts.push((0.0, 0));
                *place.insert(self.counts.len() - 1)
            }
        }
    }

    /// Returns the weight of each word among this number of units.
    fn weights(&self, units: usize) -> Vec<f64> {
        let number = units as f64;
        let weight = |(all, within): &(f64, u32)| {
            let rarity = (0.5 + number / f64::from((*within).max(1))).ln().max(0.0);
            let once = if *within > 1 { 1.0 } else { ONCE };
            once * all.ln_1p() * rarity
        };
        self.counts.iter().map(weight).collect()
    }

    /// Makes the words of the task's focus and the identifiers weigh more.
    fn stress(&self, task: &SummaryTask, weights: &mut [f64]) {
        let mut times = |word: &str, factor: f64| {
            if let Some(weight) = self.numbers.get(word).and_then(|number| weights.get_mut(*number)) {
                *weight *= factor;
            }
        };
        task.focus
            .iter()
            .flat_map(|focus| terms(focus))
            .collect::<HashSet<_>>()
            .iter()
            .for_each(|word| times(word, FOCUS));
        self.numbers.keys().filter(|word| word.starts_with(NAME)).for_each(|word| times(word, IDENTIFIER));
    }
}

/// The first character of a term that is an identifier. No word begins with it.
const NAME: char = '\u{1}';

/// Returns the words of a text in lower case, and its identifiers unchanged.
fn terms(text: &str) -> impl Iterator<Item = String> + '_ {
    text.unicode_words().map(str::to_lowercase).chain(identifiers(text).map(|name| format!("{NAME}{name}")))
}

/// A unit in the queue. Higher scores come first, and earlier units among equal scores.
struct Scored {
    score: f64,
    unit: usize,
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.unit.cmp(&self.unit))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scored {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scored {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Passage;

    fn task(text: String) -> SummaryTask {
        SummaryTask::new(vec![Passage::new(PassageRole::User, text)], 100)
    }

    /// A token counter that sums the bytes of all texts it counts.
    #[derive(Debug, Default)]
    struct Asked(std::sync::atomic::AtomicUsize);

    impl TokenCounter for Asked {
        fn name(&self) -> &str {
            "asked"
        }

        fn is_exact(&self) -> bool {
            true
        }

        fn text(&self, text: &str) -> u64 {
            self.0.fetch_add(text.len(), std::sync::atomic::Ordering::Relaxed);
            Estimate::default().text(text)
        }
    }

    #[test]
    fn work_is_bounded_by_the_length_of_the_text() {
        let megabyte = 1 << 20;
        let distinct = (0..megabyte / 8).map(|n| format!("w{n:06} ")).collect::<String>();
        // The same few words in every unit, so that each choice lowers the scores of all other units.
        let alike = (0..megabyte / 24).map(|n| format!("one two three four {}. ", n % 10)).collect::<String>();
        let texts = [
            "x".repeat(megabyte),
            "\n".repeat(megabyte),
            "a\n".repeat(megabyte / 2),
            ". ".repeat(megabyte / 2),
            "?".repeat(megabyte),
            "```\n".repeat(megabyte / 4),
            "    x\n".repeat(megabyte / 6),
            "\u{4f60}\u{597d}\u{3002}".repeat(megabyte / 9),
            "a\u{301}".repeat(megabyte / 3),
            (0..megabyte / 12).map(|n| format!("line {n}.\n")).collect(),
            distinct,
            alike,
        ];
        for text in texts {
            let name: String = text.chars().take(12).collect();
            let length = text.len();
            let task = task(text);
            let units = Units::from_task(&task);
            let words: usize = units.words.iter().map(Vec::len).sum();
            assert!(units.texts.iter().map(String::len).sum::<usize>() <= length, "{name:?}: units");
            assert!(words <= length, "{name:?}: words");
            let counter = Asked::default();
            let mut work = 0;
            units.choose(100, &counter, &mut work);
            assert!(work <= (PATIENCE + 1) * words, "{name:?}: weighed {work} times");
            let asked = counter.0.into_inner();
            assert!(asked <= length, "{name:?}: counted {asked} of {length} bytes");
        }
    }

    #[test]
    fn the_queue_chooses_what_weighing_every_unit_would() {
        let text =
            "The cat sat. The dog sat. A cat and a dog ran away. Nobody saw port 5050. The cat ran. Port 5050 is shut.";
        let units = Units::from_task(&task(text.to_owned()));
        let lazy = units.choose(1_000, &Estimate::default(), &mut 0).chosen;
        let mut weights = units.weights.clone();
        let mut left: Vec<usize> = (0..units.texts.len()).collect();
        let mut plain = Vec::new();
        while !left.is_empty() {
            let score = |unit: usize| {
                let words = &units.words[unit];
                words.iter().map(|word| weights[*word]).sum::<f64>() / words.len().max(SHORT) as f64
            };
            let best = left.iter().copied().max_by(|a, b| score(*a).total_cmp(&score(*b)).then(b.cmp(a))).unwrap();
            left.retain(|unit| *unit != best);
            units.words[best].iter().for_each(|word| weights[*word] *= SAID);
            plain.push(best);
        }
        assert_eq!(lazy, plain);
    }
}

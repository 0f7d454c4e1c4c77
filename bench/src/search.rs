//! Measures the time of a search over a million messages, and the size of the index.

use std::time::Instant;

use futures_lite::future::block_on;
use lookback_sqlite::SqliteStore;
use lookback_store::search::Query;
use lookback_store::{Append, Record};
use lookback_store::{Durability, LogName, MemoryStore, Store};

use crate::{alloc, median};

/// The number of messages in a log.
const OF_LOG: u64 = 1_000;
/// The number of words in the language, and its most frequent words, which have no meaning of their own.
const WORDS: usize = 60_000;
const FUNCTION_WORDS: [&str; 12] = ["the", "of", "and", "to", "a", "in", "is", "it", "that", "for", "was", "on"];
const QUESTIONS: usize = 200;

pub fn run(messages: u64) {
    println!("Searching {messages} messages in logs of {OF_LOG}\n");
    let mut words = Words::new();
    let texts: Vec<String> = (0..messages).map(|_| words.text(6, 18)).collect();
    let size: usize = texts.iter().map(String::len).sum();
    // A question has words of one message, because it is about that message, and one other word.
    let question = |number: usize| {
        let about = texts.get(number * texts.len() / QUESTIONS).map(String::as_str).unwrap_or_default();
        let about: Vec<&str> = about.split(' ').filter(|word| !FUNCTION_WORDS.contains(word)).take(4).collect();
        format!("what was the {} of {}", about.join(" and the "), words.clone().text(1, 2))
    };
    let questions: Vec<Query> = (0..QUESTIONS).map(|number| Query::new(&question(number))).collect();

    println!(
        "{:<10} {:>12} {:>12} {:>12} {:>16} {:>16}",
        "store", "median, ms", "90 %, ms", "longest, ms", "texts, MB", "index, MB"
    );
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    let told = |name: &str, times: Vec<f64>, index: usize| {
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let (high, longest) = (sorted[sorted.len() * 9 / 10], sorted[sorted.len() - 1]);
        let (size, index) = (megabytes(size), megabytes(index));
        println!("{name:<10} {:>12.1} {high:>12.1} {longest:>12.1} {size:>16.1} {index:>16.1}", median(times));
    };

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("store.db");
    let store = SqliteStore::open_with(&file, Durability::System).expect("a store");
    fill(&store, &texts, true);
    let times = search(&store, &questions);
    drop(store);
    // The size of the index is the difference to a file with the same records but without texts. The bodies have only
    // two bytes each.
    let bare = folder.path().join("bare.db");
    let without = SqliteStore::open_with(&bare, Durability::System).expect("a store");
    fill(&without, &texts, false);
    drop(without);
    let length = |path| std::fs::metadata(path).expect("a file").len() as usize;
    told("SQLite", times, length(&file) - length(&bare));

    let store = MemoryStore::new();
    fill(&store, &texts, true);
    let before = alloc::live();
    let start = Instant::now();
    block_on(store.search(None, &questions[0], 10)).expect("a search");
    let first = start.elapsed();
    let index = usize::try_from(alloc::live() - before).expect("a size");
    told("memory", search(&store, &questions), index);
    println!("\nThe first search in memory makes the index: {:.1} s", first.as_secs_f64());
}

fn fill(store: &dyn Store, texts: &[String], searched: bool) {
    for (number, texts) in (0..).zip(texts.chunks(OF_LOG as usize)) {
        let log: LogName = format!("log-{number}").parse().expect("a name");
        let record = |text: &String| if searched { Record::new("{}").text(text) } else { Record::new("{}") };
        // A session also appends only a few records at a time.
        for (at, texts) in (0..).step_by(50).zip(texts.chunks(50)) {
            block_on(store.append(&log, Append::new(at, texts.iter().map(record)))).expect("an append");
        }
    }
}

/// Returns the milliseconds of each search.
fn search(store: &dyn Store, questions: &[Query]) -> Vec<f64> {
    let search = |query: &Query| {
        let start = Instant::now();
        let found = block_on(store.search(None, query, 10)).expect("a search");
        assert!(!found.is_empty(), "a question is about one of the messages");
        start.elapsed().as_secs_f64() * 1e3
    };
    questions.iter().map(search).collect()
}

/// A generator of words that are as frequent as those of a language. Each run gets the same words.
#[derive(Clone)]
pub(crate) struct Words {
    state: u64,
    /// The sum of the frequencies of all words up to each rank.
    sums: Vec<f64>,
}

impl Words {
    pub(crate) fn new() -> Self {
        let mut sum = 0.0;
        let share = |rank: usize| {
            sum += 1.0 / (rank + 1) as f64;
            sum
        };
        Words { state: 7, sums: (0..WORDS).map(share).collect() }
    }

    /// Returns a number from 0 to 1.
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn text(&mut self, least: usize, most: usize) -> String {
        let length = least + ((most - least) as f64 * self.draw()) as usize;
        let words: Vec<String> = (0..length).map(|_| self.word()).collect();
        words.join(" ")
    }

    fn word(&mut self) -> String {
        let drawn = self.draw() * self.sums[WORDS - 1];
        let rank = self.sums.partition_point(|sum| *sum < drawn);
        match FUNCTION_WORDS.get(rank) {
            Some(word) => (*word).to_owned(),
            // The words have syllables, so that they are pronounced and stemmed like those of a language.
            None => {
                let mut rest = rank;
                let mut word = String::new();
                while rest > 0 {
                    word.push(b"bdfgklmnprtvz"[rest % 13] as char);
                    word.push(b"aeiou"[rest / 13 % 5] as char);
                    rest /= 65;
                }
                word
            }
        }
    }
}

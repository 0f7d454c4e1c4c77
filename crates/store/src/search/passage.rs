//! Finds the passage of a text that matches a query best.

use std::collections::HashMap;

use super::language::Language;
use super::query::Query;
use super::words::{folded, lower, parts, place, split};

/// The most characters of a passage.
const LENGTH: usize = 160;
/// At most how many of them precede the first matching word.
const BEFORE: usize = 60;
/// The most words of a text that are compared.
const MOST: usize = 200_000;
/// How many of them are inspected to detect the language.
const MOST_TELLING: usize = 400;

/// Returns one line of a text: the passage with the most words of the query, in which rarer words have more weight. If
/// the text has none of them, returns its beginning.
pub fn passage(text: &str, query: &Query) -> String {
    let found = found(text, query);
    let start = best(text, &found).unwrap_or_default();
    let start =
        text.get(..start).unwrap_or_default().char_indices().rev().nth(BEFORE - 1).map_or(0, |(start, _)| start);
    let piece: String = text.get(start..).unwrap_or_default().chars().take(LENGTH).collect();
    piece.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Finds the words of the query in a text. Returns the start, the end and the index in the query of each.
fn found(text: &str, query: &Query) -> Vec<(usize, usize, usize)> {
    // A text repeats most of its words, and stemming takes longer than a lookup.
    let mut known: HashMap<&str, Option<usize>> = HashMap::new();
    let beginning: Vec<String> = split(text).take(MOST_TELLING).map(folded).collect();
    let language = Language::detect(beginning.iter().map(String::as_str));
    let mut found = Vec::new();
    for word in split(text).take(MOST) {
        let mut is = |part| *known.entry(part).or_insert_with(|| query.word(&lower(part), language));
        let whole = is(word);
        let at = place(text, word);
        match whole {
            Some(index) => found.push((at.start, at.end, index)),
            None => found.extend(parts(word).into_iter().filter_map(|part| {
                let at = place(text, part);
                Some((at.start, at.end, is(part)?))
            })),
        }
    }
    found
}

/// Returns the start of the best passage.
#[allow(clippy::cast_precision_loss, reason = "it is a weight")]
fn best(text: &str, found: &[(usize, usize, usize)]) -> Option<usize> {
    let mut counts: HashMap<usize, usize> = HashMap::new();
    found.iter().for_each(|(.., word)| *counts.entry(*word).or_default() += 1);
    // A word that the text often repeats says little about a passage.
    let weight = |word: &usize| 1.0 / (1.0 + counts.get(word).copied().unwrap_or_default() as f64).ln();
    // Bytes are close enough to characters here: the passage itself is cut by characters.
    let room =
        if text.is_ascii() { LENGTH - BEFORE } else { (LENGTH - BEFORE) * text.len() / text.chars().count().max(1) };
    let (mut best, mut most) = (None, 0.0);
    for (first, (start, ..)) in found.iter().enumerate() {
        let here = found.iter().skip(first).take_while(|(_, end, _)| *end <= start.saturating_add(room));
        let mut words: Vec<usize> = here.map(|(.., word)| *word).collect();
        words.sort_unstable();
        words.dedup();
        let sum: f64 = words.iter().map(weight).sum();
        if sum > most {
            (best, most) = (Some(*start), sum);
        }
    }
    // A single word may be longer than a passage.
    best.or_else(|| found.first().map(|(start, ..)| *start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage_of(text: &str, query: &str) -> String {
        passage(text, &Query::new(query))
    }

    #[test]
    fn a_passage_has_most_of_the_words_and_the_rarest() {
        let filler = "nothing of note here, really nothing at all. ".repeat(20);
        let text = format!("port. {filler}The port is open. {filler}The ports of the linker are closed. {filler}");
        assert!(
            passage_of(&text, "linker port").contains("ports of the linker"),
            "{}",
            passage_of(&text, "linker port")
        );
        assert!(passage_of(&text, "closed linkers").contains("linker are closed"));
        assert!(passage_of(&text, "zebra").starts_with("port. nothing"));
        assert!(passage_of(&format!("{filler}call read_file now"), "read file").contains("read_file"));
        assert!(passage_of(&format!("{filler}HashMap"), "maps").contains("HashMap"));
    }

    #[test]
    fn a_passage_is_a_short_line_of_any_text() {
        for text in ["", "\u{301}", "port", &"x".repeat(1_000), &"端口東京".repeat(300), &"port\n\n".repeat(500)] {
            for query in ["", "port", "東京", "\u{301}"] {
                let passage = passage_of(text, query);
                assert!(passage.chars().count() <= LENGTH && !passage.contains('\n'));
            }
        }
    }
}

//! Finds the passage of a text that matches a query best.

use std::collections::HashMap;
use std::ops::Range;

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
    let start = back(text, best(text, query, LENGTH - BEFORE), BEFORE);
    let piece: String = text.get(start..).unwrap_or_default().chars().take(LENGTH).collect();
    piece.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the lines of a text around its best passage, as a range of bytes with at most `most` characters. Lines before
/// that of the first matching word may take a quarter of them. A line is cut only if it is long.
#[doc(hidden)]
pub fn excerpt(text: &str, query: &Query, most: usize) -> Range<usize> {
    let word = best(text, query, most - most / 4);
    let line = text.get(..word).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let earliest = back(text, word, most / 4);
    let start = if back(text, word, most / 2) > line {
        earliest
    } else if earliest >= line {
        line
    } else {
        // The whole lines before the word's line.
        let lines = text.get(earliest..line).unwrap_or_default();
        if earliest == 0 { 0 } else { lines.find('\n').map_or(line, |end| earliest + end + 1) }
    };
    let rest = text.get(start..).unwrap_or_default();
    let Some((cut, _)) = rest.char_indices().nth(most) else { return start..text.len() };
    let whole = rest.get(..cut).and_then(|piece| piece.rfind('\n')).map(|end| end + 1);
    // Without the beginning of a long line, little might remain.
    start..start + whole.filter(|end| start + end > word && end * 2 >= cut).unwrap_or(cut)
}

/// Returns the place that is at most this number of characters before another.
fn back(text: &str, at: usize, characters: usize) -> usize {
    let before = text.get(..at).unwrap_or_default().char_indices().rev();
    before.take(characters).last().map_or(at, |(start, _)| start)
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

/// Returns the start of the first word of the best passage with this number of characters. If the text has no word of
/// the query, returns 0.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is a weight"
)]
fn best(text: &str, query: &Query, characters: usize) -> usize {
    let found = found(text, query);
    let mut counts: HashMap<usize, usize> = HashMap::new();
    found.iter().for_each(|(.., word)| *counts.entry(*word).or_default() += 1);
    // A word that the text often repeats says little about a passage. Sums of integers do not drift.
    let weight = |word: &usize| (1e6 / (1.0 + counts.get(word).copied().unwrap_or_default() as f64).ln()) as u64;
    // Bytes are close enough to characters here: the passage itself is cut by characters.
    let room = if text.is_ascii() { characters } else { characters * text.len() / text.chars().count().max(1) };
    let (mut best, mut most) = (None, 0);
    // The words of a passage, with their numbers, and the sum of their weights.
    let (mut words, mut sum): (HashMap<usize, usize>, u64) = (HashMap::new(), 0);
    let mut next = found.iter().peekable();
    for (start, end, word) in &found {
        while let Some((_, _, word)) = next.next_if(|(_, end, _)| *end <= start.saturating_add(room)) {
            let count = words.entry(*word).or_default();
            sum += if *count == 0 { weight(word) } else { 0 };
            *count += 1;
        }
        if sum > most {
            (best, most) = (Some(*start), sum);
        }
        if *end > start.saturating_add(room) {
            // A word that is longer than a passage was not added.
            next.next();
        } else if let Some(count) = words.get_mut(word) {
            *count = count.saturating_sub(1);
            sum -= if *count == 0 { weight(word) } else { 0 };
        }
    }
    // A single word may be longer than a passage.
    best.or_else(|| found.first().map(|(start, ..)| *start)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::test_runner::{Config, RngSeed};

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
    fn an_excerpt_has_whole_lines_around_the_best_passage() {
        let lines: Vec<String> = (0..200).map(|line| format!("    let value_{line} = {line};\n")).collect();
        let text = lines.concat();
        let of = |query: &str, most: usize| &text[excerpt(&text, &Query::new(query), most)];
        let excerpt = of("value_150", 600);
        assert!(excerpt.contains(&lines[150]) && excerpt.contains(&lines[149]), "{excerpt}");
        assert!(excerpt.starts_with("    let") && excerpt.ends_with(";\n"), "{excerpt}");
        assert!((500..=600).contains(&excerpt.len()), "{}", excerpt.len());
        assert!(of("zebra", 600).starts_with(&lines[0]));
        assert!(of("value_199", 600).ends_with(&lines[199]));
        assert_eq!(of("value_3", 1_000_000), text);
        let long = format!("{}\n{} needle {}\n", "a b ".repeat(90), "c d ".repeat(30), "e f ".repeat(90));
        let found = &long[super::excerpt(&long, &Query::new("needle"), 300)];
        assert!(found.starts_with("c d ") && found.contains("needle"), "the line begins where it begins: {found}");
        let long = format!("STEP 1\n{}\n", "1 3 5 7 9 ".repeat(90));
        let found = &long[super::excerpt(&long, &Query::new("step"), 300)];
        assert_eq!(found.len(), 300, "a long line is shown in part: {found}");
    }

    #[test]
    fn an_excerpt_is_part_of_any_text_and_no_longer_than_allowed() {
        for text in ["", "\u{301}", "port", &"x".repeat(1_000), &"端口東京".repeat(300), &"port\n\n".repeat(500)] {
            for query in ["", "port", "東京", "\u{301}"] {
                for most in [1, 7, 600] {
                    let excerpt = &text[excerpt(text, &Query::new(query), most)];
                    assert!(excerpt.chars().count() <= most);
                    assert_eq!(excerpt.is_empty(), text.is_empty());
                }
            }
        }
    }

    proptest::proptest! {
        #![proptest_config(Config { rng_seed: RngSeed::Fixed(7), ..Config::default() })]
        #[test]
        fn no_other_passage_has_more_of_the_rare_words(
            words in proptest::collection::vec("port|linker|zebra|elephantine|of|\n", 0..40),
            characters in 1_usize..60,
        ) {
            let (text, query) = (words.join(" "), Query::new("port linker zebra elephantine"));
            let found = found(&text, &query);
            let counted = |word: usize| found.iter().filter(|(.., other)| *other == word).count();
            let worth = |start: usize| {
                let here = found.iter().filter(|(from, end, _)| *from >= start && *end <= start + characters);
                let words: std::collections::BTreeSet<usize> = here.map(|(.., word)| *word).collect();
                words.into_iter().map(|word| 1.0 / (1.0 + counted(word) as f64).ln()).sum::<f64>()
            };
            let best = worth(best(&text, &query, characters));
            for (start, ..) in &found {
                proptest::prop_assert!(worth(*start) <= best + 1e-4, "at {start} of {text:?}");
            }
        }
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

//! Missed spans: texts that the model copied from its history after they had left its window.

use std::collections::{HashMap, HashSet};

use lookback_engine::transcript::Position;
use lookback_engine::view::View;
use lookback_wire::edit;
use xxhash_rust::xxh3::xxh3_64;

use super::comparable::said;

/// The fewest bytes of a span. Shorter common texts are mostly idioms.
const SHORTEST: usize = 30;
/// The fewest letters and digits in that many bytes. For example, a line of dashes does not count as copied.
const LEAST_LETTERS: usize = 10;

/// The texts of a history, for finding copied spans.
///
/// A span does not cross a line break, so a rewritten file is as many spans as it has lines. Spans are found by their
/// runs: all sequences of [`SHORTEST`] consecutive bytes.
#[derive(Default)]
pub(super) struct Stretches {
    /// The newest message that contains each run, by the run's hash. `None` for runs of the preamble, which never
    /// leaves.
    newest: HashMap<u64, Option<Position>>,
}

/// The spans that the model copied in one message.
#[derive(Default)]
pub(super) struct Copied {
    /// The number of spans.
    pub(super) spans: u64,
    /// Those that the window did not contain, each with the newest message that contains it.
    pub(super) missed: Vec<(String, Position)>,
}

impl Stretches {
    pub(super) fn set_preamble(&mut self, text: &str) {
        self.newest.extend(lines(text).flat_map(runs).map(|run| (hash(run), None)));
    }

    pub(super) fn push(&mut self, position: Position, text: &str) {
        for run in lines(text).flat_map(runs) {
            let newest = self.newest.entry(hash(run)).or_insert(Some(position));
            *newest = newest.and(Some(position));
        }
    }

    /// Finds the spans in the model's next message that the history contains, and those of them that the window does
    /// not contain, in which the messages at the positions `whole` are unchanged.
    pub(super) fn compare(&self, next: &str, view: &View, whole: &HashSet<Position>) -> Copied {
        let texts = view.messages().map(|item| match item.edits() {
            [] => said(item.message()),
            edits => edit::shown_text(item.message(), edits),
        });
        self.compare_texts(next, whole, texts)
    }

    /// Does the same for a window with these texts, of which the messages at the positions `whole` are unchanged.
    pub(super) fn compare_texts(
        &self,
        next: &str,
        whole: &HashSet<Position>,
        mut texts: impl Iterator<Item = String>,
    ) -> Copied {
        let spans = self.copied(next);
        // Usually, the newest message with a run is still in the window.
        let is_gone = |run: &u64| matches!(self.newest.get(run), Some(Some(position)) if !whole.contains(position));
        let mut gone: HashSet<u64> = spans.iter().flat_map(|span| runs(span)).map(hash).filter(is_gone).collect();
        while !gone.is_empty()
            && let Some(shown) = texts.next()
        {
            for run in lines(&shown).flat_map(runs) {
                gone.remove(&hash(run));
            }
        }
        let missed = spans.iter().filter_map(|span| {
            let run = runs(span).map(hash).find(|run| gone.contains(run))?;
            Some((String::from_utf8_lossy(span).into_owned(), self.newest.get(&run).copied().flatten()?))
        });
        Copied { spans: spans.len() as u64, missed: missed.collect() }
    }

    /// Returns the spans of the model's next message.
    pub(super) fn copied<'a>(&self, next: &'a str) -> Vec<&'a [u8]> {
        lines(next).flat_map(|line| self.spans(line)).collect()
    }

    /// Returns the spans of a line: the longest texts all of whose runs are in the history.
    fn spans<'a>(&self, line: &'a [u8]) -> Vec<&'a [u8]> {
        let is_copied = |run: &[u8]| {
            let letters = run.iter().filter(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii()).count();
            letters >= LEAST_LETTERS && self.newest.contains_key(&hash(run))
        };
        let copied: Vec<bool> = runs(line).map(is_copied).collect();
        let mut start = 0;
        let mut spans = Vec::new();
        for group in copied.chunk_by(|a, b| a == b) {
            let end = start + group.len();
            if group.first() == Some(&true) {
                spans.extend(line.get(start..end + SHORTEST - 1));
            }
            start = end;
        }
        spans
    }
}

fn lines(text: &str) -> impl Iterator<Item = &[u8]> {
    text.lines().map(|line| line.trim().as_bytes())
}

fn runs(line: &[u8]) -> std::slice::Windows<'_, u8> {
    line.windows(SHORTEST)
}

fn hash(run: &[u8]) -> u64 {
    xxh3_64(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans<'a>(history: &str, next: &'a str) -> Vec<&'a str> {
        let mut stretches = Stretches::default();
        stretches.push(0, history);
        lines(next).flat_map(|line| stretches.spans(line)).map(|span| std::str::from_utf8(span).unwrap()).collect()
    }

    #[test]
    fn a_span_is_the_longest_stretch_of_a_line_that_was_there_before() {
        let history = "   12  let window = session.window().await?; // recorded\nfn main() {}";
        assert_eq!(
            spans(history, "fn x() {\n    let window = session.window().await?; // and more\n}"),
            ["let window = session.window().await?; // "]
        );
    }

    #[test]
    fn idiom_and_rules_are_not_copied_from_anywhere() {
        let rule = "-".repeat(80);
        assert!(spans(&format!("{rule}\nfor i in 0..n {{"), &format!("{rule}\nfor i in 0..n {{")).is_empty());
    }

    #[test]
    fn two_stretches_of_one_line_are_two_spans() {
        let (one, two) = ("the first of two stretches of text", "and a second one that is as long");
        assert_eq!(spans(&format!("{one}\n{two}"), &format!("{one} == {two}")), [one, two]);
    }
}

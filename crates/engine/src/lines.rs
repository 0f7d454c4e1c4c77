//! Repeated lines: finds lines of a tool result that the window already shows, word for word.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::entry::Position;
use crate::policy::Repeats;
use lookback_content::numbered::{is_numbered, unnumbered};
use lookback_tokens::TokenCounter;
use lookback_wire::edit::{self, Edit, Repeat};
use lookback_wire::message::{Message, ResultItem};

/// The lines of the tool results that a window shows, as hashes of runs. A run has the minimum number of lines of a
/// repeat.
///
/// The hash is not safe against deliberate collisions. A tool that finds one can only hide lines of its own result.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShownLines {
    /// The number of lines of a run.
    run: usize,
    /// Whether the window does not show the numbers of lines. Then they do not count.
    unnumbered: bool,
    places: HashMap<u64, Place>,
    /// The number of the next line.
    next: u64,
}

/// A line of the window.
#[derive(Debug, Clone, Copy)]
struct Place {
    entry: Position,
    /// Its number. Consecutive lines of a text have consecutive numbers.
    number: u64,
}

impl ShownLines {
    /// Creates the lines of an empty window.
    pub(crate) fn new(repeats: Repeats, unnumbered: bool) -> Self {
        let run = usize::try_from(repeats.lines.max(1)).unwrap_or(usize::MAX);
        ShownLines { run, unnumbered, ..ShownLines::default() }
    }

    /// Adds the lines that a message shows.
    pub(crate) fn add(&mut self, entry: Position, message: &Message, edits: &[Edit]) {
        for (part, result) in message.tool_results().filter(|(part, _)| !edit::is_hidden(edits, *part)) {
            for (item, value) in result.content.iter().enumerate() {
                let Some(text) = ResultItem::text(value) else { continue };
                match edit::cut_of(edits, part, item) {
                    Some(cut) => cut.kept(text).for_each(|kept| self.add_text(entry, kept)),
                    None => self.add_text(entry, text),
                }
            }
        }
    }

    fn add_text(&mut self, entry: Position, text: &str) {
        for run in self.runs(text) {
            self.places.insert(run, Place { entry, number: self.next });
            self.next += 1;
        }
        // A gap, because the last run of this text and the first run of the next one are not consecutive.
        self.next += 1;
    }

    /// Returns the hash of each run of lines.
    fn runs(&self, text: &str) -> Vec<u64> {
        let line = |line: &str| xxh3_64(line.trim_end_matches(['\r', '\n']).as_bytes());
        let lines: Vec<u64> = if self.unnumbered && is_numbered(text) {
            unnumbered(text).map(line).collect()
        } else {
            text.split_inclusive('\n').map(line).collect()
        };
        let hash = |run: &[u64]| run.iter().fold(0, |hash: u64, line| hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ line);
        lines.windows(self.run).map(hash).collect()
    }

    /// Returns the parts of a text that the window already shows, in order. Each has at least the lines and tokens that
    /// the policy demands, and comes from one place in the window.
    pub(crate) fn repeats(&self, text: &str, least: Repeats, counter: &dyn TokenCounter) -> Vec<Repeat> {
        let places: Vec<Option<Place>> = self.runs(text).iter().map(|run| self.places.get(run).copied()).collect();
        let mut ends = vec![0];
        ends.extend(text.split_inclusive('\n').scan(0, |end, line| {
            *end += line.len();
            Some(*end)
        }));
        let mut repeats: Vec<Repeat> = Vec::new();
        let mut line = 0;
        while let Some(place) = places.get(line) {
            let Some(first) = place else {
                line += 1;
                continue;
            };
            let follows = |(index, place): (usize, &Option<Place>)| {
                place.is_some_and(|place| place.number == first.number + index as u64)
            };
            let runs =
                places.iter().skip(line).enumerate().take_while(|(index, place)| follows((*index, place))).count();
            // The last run begins at line `line + runs - 1`.
            let after = line + runs - 1 + self.run;
            if let (Some(start), Some(end)) = (ends.get(line), ends.get(after)) {
                let repeated = text.get(*start..*end).unwrap_or_default();
                // A token has at least one byte, and hardly ever more than sixteen.
                let is_long = |text: &str| {
                    text.len() as u64 >= least.tokens.saturating_mul(16) || counter.text(text) >= least.tokens
                };
                if repeated.len() as u64 >= least.tokens && is_long(repeated) {
                    repeats.push(Repeat { start: *start, end: *end, entry: first.entry });
                }
            }
            line = after;
        }
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookback_tokens::Estimate;
    use lookback_wire::message::ToolResult;

    const LEAST: Repeats = Repeats { lines: 4, tokens: 24 };

    fn shown(texts: &[&str]) -> ShownLines {
        let mut lines = ShownLines::new(LEAST, false);
        for (entry, text) in (0..).zip(texts) {
            lines.add(entry, &Message::tool_result("c", *text), &[]);
        }
        lines
    }

    fn file(lines: std::ops::Range<usize>) -> String {
        lines.map(|line| format!("let number_{line} = {line} + 1; // a line of a file\n")).collect()
    }

    fn repeats(shown: &ShownLines, text: &str) -> Vec<Repeat> {
        shown.repeats(text, LEAST, &Estimate::default())
    }

    #[test]
    fn what_is_read_again_repeats() {
        let all = file(0..50);
        let found = repeats(&shown(&[&all]), &all);
        assert_eq!(found, [Repeat { start: 0, end: all.len(), entry: 0 }]);
    }

    #[test]
    fn a_number_that_belongs_to_no_count_is_part_of_its_line() {
        let log = |year: usize| -> String {
            let lines = file(0..40);
            let numbered: String = lines.lines().zip(1..).map(|(line, number)| format!("{number}\t{line}\n")).collect();
            let totals: String = (0..5).map(|step| format!("{} tests passed in the year\n", year + 7 * step)).collect();
            numbered + &totals
        };
        let mut lines = ShownLines::new(LEAST, true);
        lines.add(0, &Message::tool_result("c", log(2025)), &[]);
        let again = log(2026);
        let found = repeats(&lines, &again);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(again[found[0].start..found[0].end].lines().count(), 40);
    }

    #[test]
    fn lines_that_changed_are_shown() {
        let before = file(0..50);
        let after = before.replace("number_20 ", "number_twenty ");
        let found = repeats(&shown(&[&before]), &after);
        assert_eq!(found.len(), 2);
        let between = &after[found[0].end..found[1].start];
        assert_eq!(between, "let number_twenty = 20 + 1; // a line of a file\n");
    }

    #[test]
    fn few_or_short_lines_do_not_repeat() {
        assert_eq!(repeats(&shown(&[&file(0..3)]), &file(0..3)), []);
        assert_eq!(repeats(&shown(&["}\n}\n}\n}\n}\n"]), "}\n}\n}\n}\n}\n"), []);
    }

    #[test]
    fn lines_in_another_order_are_other_lines() {
        let (one, two) = (file(0..5), file(5..10));
        let found = repeats(&shown(&[&format!("{one}{two}")]), &format!("{two}{one}"));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_a_cut_hides_is_not_there_to_point_to() {
        let all = file(0..50);
        let mut lines = ShownLines::new(LEAST, false);
        let message = Message::tool_result("c", all.as_str());
        let result = ToolResult::new("c", all.as_str());
        let cap = lookback_tokens::cut::Truncation { head: 400, tail: 400, ..Default::default() };
        let edits = lookback_tokens::cut::truncate_result(0, &result, 0, &cap, &Estimate::default());
        lines.add(0, &message, &edits);
        let found = repeats(&lines, &all);
        assert_eq!(found.len(), 2);
        assert!(found[0].end <= 400 && found[1].start >= all.len() - 400, "{found:?}");
    }
}

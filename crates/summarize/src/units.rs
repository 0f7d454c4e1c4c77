//! Splitting a text into units that can be read alone: sentences, list items, lines of code.

use unicode_segmentation::UnicodeSegmentation;

/// A line of prose with at least this many bytes may continue in the next line.
const WRAPPED: usize = 50;
/// The most lines of a block of code that are shown.
const BLOCK: usize = 8;
/// The most of these lines that are chosen because they report failures.
const FAILURES: usize = 4;
/// The number of bytes after a position that are read to decide whether a sentence ends there.
const AHEAD: usize = 100;

/// Abbreviations that come before a name.
const BEFORE_NAMES: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "st", "sr", "sra", "mme", "mlle", "vs", "cf", "bzw", "ca", "approx", "resp", "hr",
    "fr",
];
/// Abbreviations that come before a number.
const BEFORE_NUMBERS: &[&str] =
    &["no", "nr", "nos", "fig", "figs", "abb", "art", "p", "pp", "vol", "ch", "sec", "eq", "ver", "v", "nº", "§"];

/// Splits a text into units, in order. No unit is blank or contains a line break.
///
/// - Prose is split into sentences by [UAX #29](https://www.unicode.org/reports/tr29/), which knows the full stops of
///   all scripts, decimal numbers, versions and file names. Abbreviations do not end a sentence, and `.`, `!` and `?`
///   do so only before white space, so that addresses stay whole. The end of a line ends a sentence, unless the line is
///   long and the next one begins in lower case. So Thai, which has no full stop, is split into lines.
/// - A list item, a heading and a table row are one unit each.
/// - Code, between fences or indented, is split into its lines. Of a block with more than 8 lines, at most 8 are shown:
///   up to 4 that report failures, and outermost ones, which tend to be definitions.
///
/// Time and memory are linear in the length of the text.
///
/// ```
/// use lookback_summarize::units;
///
/// let text = "See main.rs, e.g. line 3.5. Then:\n- one. two\n- three";
/// assert_eq!(units(text), ["See main.rs, e.g. line 3.5.", "Then:", "- one. two", "- three"]);
/// ```
pub fn units(text: &str) -> Vec<String> {
    let mut found = Found::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            found.close();
        } else if let Some(fence) = fence(trimmed) {
            found.close();
            let mut block = Vec::new();
            for line in lines.by_ref() {
                if line.trim().starts_with(fence) && line.trim().chars().all(|sign| fence.starts_with(sign)) {
                    break;
                }
                block.push(line);
            }
            found.code(&block);
        } else if is_indented(line) && !found.continues() {
            let mut block = vec![line];
            while let Some(line) = lines.next_if(|line| is_indented(line) || line.trim().is_empty()) {
                block.push(line);
            }
            found.code(&block);
        } else if is_item(trimmed) {
            found.close();
            found.open = Some((true, trimmed.to_owned()));
        } else if trimmed.starts_with(['#', '|', '{'])
            || trimmed.starts_with("[call ")
            || trimmed.ends_with([';', '{', '}', '(', '['])
        {
            found.close();
            found.units.push(trimmed.to_owned());
        } else {
            found.prose(line, trimmed);
        }
    }
    found.close();
    if found.units.is_empty() {
        // The text has no words. Lines of punctuation are better than nothing.
        found.units.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
    }
    found.units
}

/// Returns the last end of a sentence or line in `text` that is not after `at`.
pub(super) fn last_end(text: &str, at: usize) -> Option<usize> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1);
    let ahead = (at + AHEAD..text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let line = text.get(start..ahead)?;
    let line = line.split_once('\n').map_or(line, |(line, _)| line);
    let mut place = start;
    let mut last = start;
    for sentence in sentences(line) {
        let end = place + sentence.trim_end().len();
        place += sentence.len();
        if end <= at {
            last = end;
        }
    }
    Some(last).filter(|last| *last > 0)
}

/// The units so far, and the paragraph or list item that may continue.
#[derive(Default)]
struct Found {
    units: Vec<String>,
    /// The open paragraph or list item: whether it is a list item, and its text.
    open: Option<(bool, String)>,
    /// The bytes of the last line of prose.
    last: usize,
}

impl Found {
    fn continues(&self) -> bool {
        self.open.is_some()
    }

    fn close(&mut self) {
        match self.open.take() {
            Some((true, item)) => self.units.push(item),
            Some((false, paragraph)) => {
                let said = |sentence: &&str| has_words(sentence);
                self.units.extend(sentences(&paragraph).into_iter().map(str::trim).filter(said).map(str::to_owned));
            }
            None => {}
        }
    }

    fn prose(&mut self, line: &str, trimmed: &str) {
        let last = std::mem::replace(&mut self.last, trimmed.len());
        let continues = match &self.open {
            Some((true, _)) => line.starts_with([' ', '\t']),
            Some((false, text)) => {
                last >= WRAPPED
                    && !text.ends_with(['.', ':', ';', '!', '?'])
                    && trimmed.chars().next().is_some_and(char::is_lowercase)
            }
            None => false,
        };
        match &mut self.open {
            Some((_, text)) if continues => {
                text.push(' ');
                text.push_str(trimmed);
            }
            _ => {
                self.close();
                self.open = Some((false, trimmed.to_owned()));
            }
        }
    }

    /// Adds the most informative lines of a block, each as a unit.
    fn code(&mut self, block: &[&str]) {
        let lines: Vec<&str> = block.iter().copied().filter(|line| has_words(line)).collect();
        let mut telling: Vec<usize> = (0..lines.len()).collect();
        if lines.len() > BLOCK {
            let depth = |line: &&str| line.len() - line.trim_start().len();
            let outermost = lines.iter().map(depth).min().unwrap_or(0);
            telling =
                (0..).zip(&lines).filter(|(_, line)| tells_failure(line)).map(|(at, _)| at).take(FAILURES).collect();
            let outer = (0..).zip(&lines).filter(|(_, line)| depth(line) == outermost).map(|(at, _)| at);
            telling.extend(outer.take(BLOCK - telling.len()));
            telling.sort_unstable();
            telling.dedup();
        }
        self.units.extend(telling.iter().filter_map(|at| lines.get(*at)).map(|line| line.trim().to_owned()));
    }
}

/// Returns the characters that close a fence, if a line opens one.
fn fence(line: &str) -> Option<&'static str> {
    ["```", "~~~"]
        .into_iter()
        .find(|fence| line.starts_with(fence) && !line.get(3..).unwrap_or_default().contains("```"))
}

fn is_indented(line: &str) -> bool {
    (line.starts_with('\t') || line.starts_with("    ")) && !is_item(line.trim()) && !line.trim().is_empty()
}

/// Whether a line begins an item of a list: `- `, `* `, `1. `, `2) `, `(a) `.
fn is_item(line: &str) -> bool {
    let Some((mark, _)) = line.split_once(char::is_whitespace) else { return false };
    if matches!(mark, "-" | "*" | "+" | "\u{2022}" | "\u{2013}" | "\u{30fb}") {
        return true;
    }
    let Some(number) = mark.strip_suffix(['.', ')']) else { return false };
    let open = number.strip_prefix('(');
    let number = open.unwrap_or(number);
    let short = (1..=3).contains(&number.len());
    let letter = number.len() == 1 && mark.ends_with(')') && number.chars().all(char::is_alphabetic);
    short && (letter || number.chars().all(char::is_numeric))
}

fn has_words(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

fn tells_failure(line: &str) -> bool {
    let line = line.to_lowercase();
    ["error", "fail", "panic", "exception", "warning", "denied", "not found"].iter().any(|word| line.contains(word))
}

/// Splits a line or paragraph into sentences. Each includes the white space after it.
fn sentences(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut start = 0;
    let mut end = 0;
    // Whether the sentence so far has words. It is updated piece by piece to keep the time linear.
    let mut words = false;
    for piece in text.split_sentence_bounds() {
        let fresh = start == end;
        end += piece.len();
        words |= has_words(piece);
        let after = text.get(end..).unwrap_or_default();
        if fresh && !words && !found.is_empty() {
            // A bracket or an emoji belongs to the sentence before it.
            let last = found.pop().unwrap_or_default();
            found.extend(text.get(start - last.len()..end));
        } else if after.is_empty() || words && ends(piece, fresh, after) {
            found.extend(text.get(start..end));
        } else {
            continue;
        }
        start = end;
        words = false;
    }
    found
}

/// Whether a sentence ends with this piece. UAX #29 also ends one after an abbreviation or within a name.
///
/// `fresh` is whether the piece is the first of its sentence, and `after` is the text after the piece.
fn ends(piece: &str, fresh: bool, after: &str) -> bool {
    let text = piece.trim_end();
    let spaced = text.len() < piece.len();
    let inner = text.trim_end_matches(['"', '\'', ')', ']', '}', '*', '_', '`', '\u{201d}', '\u{2019}', '\u{bb}']);
    if !inner.ends_with('.') {
        return spaced || !inner.ends_with(['!', '?']);
    }
    if !spaced {
        return false;
    }
    let word = inner.trim_end_matches('.').rsplit([' ', '\u{a0}', '\t', '(', '[', '"', '/']).next().unwrap_or_default();
    let mut letters = word.chars();
    let lower = word.to_lowercase();
    let initials = word.contains('.')
        && word.split('.').all(|part| part.chars().count() <= 2 && part.chars().all(char::is_alphabetic));
    let initial = letters.next().is_some_and(char::is_uppercase) && letters.next().is_none();
    let number = after.starts_with(|next: char| next.is_numeric());
    let numeral = fresh && !word.is_empty() && inner.len() == word.len() + 1 && word.chars().all(char::is_numeric);
    !(initials
        || initial
        || numeral
        || BEFORE_NAMES.contains(&lower.as_str())
        || number && BEFORE_NUMBERS.contains(&lower.as_str()))
}

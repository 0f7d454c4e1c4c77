//! Counts the tokens of a text exactly as OpenAI's models do, in linear time.
//!
//! With both vocabularies, a pattern splits a text into pieces (words, punctuation, white space), and then the bytes of
//! each piece are merged pair by pair. The crate `tiktoken` is fast, but its merge slows down with the length of a
//! piece, and anyone can send a megabyte without a single break. So a cheap scan looks for stretches that may contain a
//! long piece. This module splits only those, and merges their long pieces in windows, at a constant cost per byte.

#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "every index is a boundary found in the same text, which tests and a fuzz target check"
)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{LazyLock, OnceLock};

use regex::Regex;
use rustc_hash::FxBuildHasher;
use tiktoken::CoreBpe;

/// The length in bytes above which a piece is merged in windows.
///
/// It is also the size of the blocks that are scanned for a certain boundary, so `tiktoken` never sees a piece that is
/// longer than three blocks.
const LONG: usize = 1024;

/// The number of bytes that are merged at a time: several times the longest token, which has 128.
const WINDOW: usize = 1024;

/// The pattern of `o200k_base`, without its last alternative `\s+(?!\S)`, which [`Splitter::end_of_piece`] implements.
#[cfg(feature = "o200k")]
const O200K_PIECES: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+",
);

/// The pattern of `cl100k_base`, also without `\s+(?!\S)`.
///
/// OpenAI's pattern also has `\s+$` before `\s*[\r\n]+`. That changes no count, because no token has white space after
/// its last line break.
#[cfg(feature = "cl100k")]
const CL100K_PIECES: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
);

/// A contraction in `o200k_base`, whose pattern ignores case. `tiktoken` 4.1.2 overlooks it after a word.
const LONG_S: &str = "'ſ";

#[cfg(feature = "o200k")]
static O200K: LazyLock<Encoding> = LazyLock::new(|| Encoding::new(tiktoken::encoding::o200k_base(), O200K_PIECES));
#[cfg(feature = "cl100k")]
static CL100K: LazyLock<Encoding> = LazyLock::new(|| Encoding::new(tiktoken::encoding::cl100k_base(), CL100K_PIECES));

/// Loads the vocabularies that are compiled in.
pub(super) fn load() {
    #[cfg(feature = "o200k")]
    LazyLock::force(&O200K);
    #[cfg(feature = "cl100k")]
    LazyLock::force(&CL100K);
}

/// A vocabulary of OpenAI's models since GPT-4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vocabulary {
    /// `o200k_base`: GPT-4o and later. Needs the feature `o200k`.
    #[cfg(feature = "o200k")]
    O200k,
    /// `cl100k_base`: GPT-4 and GPT-3.5. Needs the feature `cl100k`.
    #[cfg(feature = "cl100k")]
    Cl100k,
}

impl Vocabulary {
    /// Counts the tokens of a text. Special tokens such as `<|endoftext|>` are counted as plain text.
    ///
    /// The time is linear in the length of any text. The first call loads the vocabulary, unless
    /// [`load`](super::load) has done so.
    ///
    /// ```
    /// # #[cfg(all(feature = "o200k", feature = "cl100k"))] {
    /// use lookback_tokens::Vocabulary;
    ///
    /// assert_eq!(Vocabulary::O200k.count("Hello, world!"), 4);
    /// assert_eq!(Vocabulary::Cl100k.count("a".repeat(1_000_000).as_str()), 125_000);
    /// # }
    /// ```
    #[must_use]
    pub fn count(self, text: &str) -> u64 {
        match self {
            #[cfg(feature = "o200k")]
            Self::O200k => O200K.count(text),
            #[cfg(feature = "cl100k")]
            Self::Cl100k => CL100K.count(text),
        }
    }
}

/// A vocabulary. The splitter for long pieces is built when the first one is found.
struct Encoding {
    bpe: CoreBpe,
    pattern: &'static str,
    splitter: OnceLock<Splitter>,
}

impl Encoding {
    fn new(bpe: CoreBpe, pattern: &'static str) -> Self {
        Self { bpe, pattern, splitter: OnceLock::new() }
    }

    fn count(&self, text: &str) -> u64 {
        if text.contains(LONG_S) {
            return self.count_by_piece("", text);
        }
        let mut count = 0;
        // `text[..counted]` is counted; `boundary` is the last certain boundary before `at`.
        let (mut counted, mut boundary, mut at) = (0, 0, 0);
        let mut unbroken = false;
        while at < text.len() {
            let end = text.floor_char_boundary(at + LONG);
            match first_boundary(&text[at..end]) {
                Some(found) => {
                    if unbroken {
                        count += self.count_by_piece(&text[counted..boundary], &text[boundary..at + found]);
                        counted = at + found;
                        unbroken = false;
                    }
                    boundary = at + found;
                }
                None => unbroken |= end - at > LONG / 2,
            }
            at = end;
        }
        if unbroken {
            return count + self.count_by_piece(&text[counted..boundary], &text[boundary..]);
        }
        count + self.bpe.count(&text[counted..]) as u64
    }

    /// Counts `before`, which `tiktoken` counts fast, and the stretch after it, which `tiktoken` may count slowly.
    #[cold]
    fn count_by_piece(&self, before: &str, stretch: &str) -> u64 {
        let splitter = self.splitter.get_or_init(|| Splitter::new(&self.bpe, self.pattern));
        let mut count = self.bpe.count(before) as u64;
        let mut at = 0;
        while at < stretch.len() {
            let end = splitter.end_of_piece(stretch, at);
            let piece = &stretch[at..end];
            count += if piece.len() > LONG || piece.ends_with(LONG_S) {
                splitter.count_piece(piece.as_bytes())
            } else {
                // Without the surrounding text, it is still one piece.
                self.bpe.count(piece) as u64
            };
            at = end;
        }
        count
    }
}

/// The kind of a character in both patterns, as far as it can be determined without tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    /// Punctuation and symbols, except the apostrophe, because it can belong to the word before it.
    Sign,
    /// The ASCII space, which is only in white space or at the start of a piece.
    Space,
    OtherWhitespace,
    Unknown,
}

impl Kind {
    fn from_char(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            ' ' => Self::Space,
            '0'..='9' => Self::Digit,
            '\'' => Self::Unknown,
            '!'..='~' => Self::Sign,
            // Kana, Han and Hangul: letters without case.
            'ぁ'..='ゖ' | 'ァ'..='ヺ' | '\u{4e00}'..='\u{9fa5}' | '가'..='힣' => Self::Letter,
            '、'..='。' | '「'..='』' | '！'..='／' | '：'..='＠' => Self::Sign,
            c if c.is_whitespace() => Self::OtherWhitespace,
            _ => Self::Unknown,
        }
    }
}

/// Returns the first index at which a piece ends in both patterns, whatever surrounds the text.
///
/// It always follows a character that is not white space. A cut there changes no other piece, because the patterns
/// never look back, and look ahead only after white space.
fn first_boundary(text: &str) -> Option<usize> {
    let mut before = Kind::Unknown;
    text.char_indices().find_map(|(at, c)| {
        let kind = Kind::from_char(c);
        let boundary = match (before, kind) {
            // No piece of letters or digits continues with these.
            (Kind::Letter, Kind::Sign | Kind::Digit) | (Kind::Digit, Kind::Sign | Kind::Letter) => true,
            // Digits form their own pieces.
            (Kind::Sign, Kind::Digit) => true,
            // A space continues only white space.
            (Kind::Letter | Kind::Digit | Kind::Sign | Kind::Unknown, Kind::Space) => at > 0,
            _ => false,
        };
        before = kind;
        boundary.then_some(at)
    })
}

/// Splits a stretch of text into pieces and merges the long ones.
struct Splitter {
    pieces: Regex,
    /// The tokens with their ranks. The lowest rank is merged first.
    ranks: HashMap<Vec<u8>, u32, FxBuildHasher>,
    longest: usize,
}

impl Splitter {
    fn new(bpe: &CoreBpe, pattern: &str) -> Self {
        // The ranks of both vocabularies have no gaps.
        let ranks: HashMap<_, _, _> = (0..bpe.vocab_size() as u32).map(|rank| (bpe.decode(&[rank]), rank)).collect();
        Self {
            pieces: Regex::new(pattern).expect("the patterns are constants that the tests compile"),
            longest: ranks.keys().map(Vec::len).max().unwrap_or(0),
            ranks,
        }
    }

    /// Returns the end of the piece that starts at `start`.
    fn end_of_piece(&self, text: &str, start: usize) -> usize {
        let Some(piece) = self.pieces.find_at(text, start) else { return text.len() };
        if piece.end() == text.len() {
            return piece.end();
        }
        // `\s+(?!\S)`: the last character of white space belongs to the word after it, unless it is a line break.
        match piece.as_str().char_indices().next_back() {
            Some((last, c)) if last > 0 && c.is_whitespace() && !matches!(c, '\r' | '\n') => start + last,
            _ => piece.end(),
        }
    }

    /// Counts the tokens of one piece, and doubles the windows until neighboring ones agree.
    fn count_piece(&self, piece: &[u8]) -> u64 {
        let mut window = WINDOW;
        loop {
            if let Some(count) = self.count_in_windows(piece, window) {
                return count;
            }
            window *= 2;
        }
    }

    /// Counts the tokens of a piece, or returns `None` if two windows disagree where they meet.
    ///
    /// A list of tokens is the result of merging all their bytes if every two neighbors are the result of merging
    /// theirs. Proof: let the first merge across a boundary of the list be between neighbors t and u. No merge crossed
    /// a boundary before, so t and u went through the same merges as they do alone, and this merge was the lowest and
    /// leftmost of all. It is so too when t and u are merged alone, so (t, u) is not the result: a contradiction. By
    /// the same argument, neighbors in a result are the result of merging their own bytes.
    ///
    /// So it is enough that each window starts with a token that the window before it has at the same place. The end of
    /// a window changes at most its last 293 bytes, which is the longest way back over pairs of ever higher rank in
    /// either vocabulary. So windows of 4 KB always agree, and the time is linear.
    fn count_in_windows(&self, piece: &[u8], window: usize) -> Option<u64> {
        let (mut count, mut rest, mut first) = (0, piece, None);
        loop {
            let tokens = self.merge(&rest[..rest.len().min(window)]);
            if first.is_some_and(|first| tokens.first() != Some(&first)) {
                return None;
            }
            if rest.len() <= window {
                return Some(count + tokens.len() as u64);
            }
            // The window may end inside a token, which can change its last tokens.
            let mut left = window;
            let sure = |token: &&usize| {
                left -= **token;
                left > window / 8
            };
            let kept = tokens.iter().take_while(sure).count();
            count += kept as u64;
            rest = &rest[tokens[..kept].iter().sum()..];
            first = Some(tokens[kept]);
        }
    }

    /// Merges bytes into tokens, and returns their lengths.
    fn merge(&self, bytes: &[u8]) -> Vec<usize> {
        let end_of_text = bytes.len();
        // For each start of a token: its end, and the start of the token before it. An end of 0 marks a token that was
        // merged into another.
        let mut ends: Vec<usize> = (1..=end_of_text).collect();
        let mut previous: Vec<usize> = (0..end_of_text).map(|at| at.saturating_sub(1)).collect();
        let candidate = |start: usize, end: usize| {
            let rank = if end - start > self.longest { None } else { self.ranks.get(&bytes[start..end]) };
            rank.map(|rank| Reverse((*rank, start, end)))
        };
        let mut candidates: BinaryHeap<_> = (2..=end_of_text).filter_map(|end| candidate(end - 2, end)).collect();
        while let Some(Reverse((_, start, end))) = candidates.pop() {
            let middle = ends[start];
            // Another merge may have used one of the two tokens.
            if middle <= start || middle >= end || ends[middle] != end {
                continue;
            }
            (ends[start], ends[middle]) = (end, 0);
            if end < end_of_text {
                previous[end] = start;
                candidates.extend(candidate(start, ends[end]));
            }
            if start > 0 {
                candidates.extend(candidate(previous[start], end));
            }
        }
        ends.iter().enumerate().filter(|(_, end)| **end > 0).map(|(start, end)| end - start).collect()
    }
}

#[cfg(all(test, feature = "o200k", feature = "cl100k"))]
mod tests {
    use super::*;

    const BOTH: [&LazyLock<Encoding>; 2] = [&O200K, &CL100K];

    /// Runs of characters that at least one pattern hardly splits.
    fn runs(length: usize) -> Vec<String> {
        let mut state = 1_u64;
        let mut random = move |set: &str| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            set.chars().nth((state >> 33) as usize % set.chars().count())
        };
        let sets = [
            "a",
            "ab",
            "abcdefghijklmnopqrstuvwxyz",
            "aAbBcC",
            "漢A",
            "漢字かな交じり文",
            "ก้า",
            "é\u{301}",
            "😀",
            "0123456789",
            " ",
            "\n",
            " \t",
            " \t\r\n\u{3000}",
            "!",
            "=-",
            "!\n/",
            "'s",
            "a 1.，漢\n",
        ];
        sets.iter().map(|set| (0..length).filter_map(|_| random(set)).collect()).collect()
    }

    #[test]
    fn counts_what_tiktoken_counts() {
        for encoding in BOTH {
            let runs = runs(5000);
            for (run, next) in runs.iter().zip(runs.iter().cycle().skip(1)) {
                for text in
                    [run, &format!("word  \t{run}"), &format!("{run}{next}x"), &format!("x. {next} \n  {run}\n ")]
                {
                    assert_eq!(encoding.count(text), encoding.bpe.count(text) as u64, "{:?}", &text[..20]);
                }
            }
        }
    }

    #[test]
    fn a_boundary_cuts_no_piece() {
        for encoding in BOTH {
            for text in runs(200) {
                let Some(at) = first_boundary(&text) else { continue };
                let (before, after) = text.split_at(at);
                assert_eq!(
                    encoding.bpe.count(before) + encoding.bpe.count(after),
                    encoding.bpe.count(&text),
                    "{text:?}"
                );
            }
        }
    }

    #[test]
    fn a_long_s_contracts() {
        // As `tiktoken-rs` counts it.
        assert_eq!(Vocabulary::O200k.count("a'ſ'SAa"), 6);
    }

    #[test]
    fn windows_of_any_size_agree_with_one_merge() {
        for encoding in BOTH {
            let splitter = Splitter::new(&encoding.bpe, encoding.pattern);
            for run in runs(3000) {
                let whole = splitter.merge(run.as_bytes()).len() as u64;
                for window in [300, 700, 1024, 2048] {
                    let counted = splitter.count_in_windows(run.as_bytes(), window);
                    assert!(counted.is_none_or(|count| count == whole), "{window} {:?}", &run[..20]);
                }
                assert_eq!(splitter.count_piece(run.as_bytes()), whole);
            }
        }
    }

    #[test]
    fn the_vocabularies_have_what_the_code_relies_on() {
        for encoding in BOTH {
            let splitter = Splitter::new(&encoding.bpe, encoding.pattern);
            assert_eq!(splitter.longest, 128);
            assert!((0..=u8::MAX).all(|byte| splitter.ranks.contains_key(&vec![byte])));
            // See `CL100K_PIECES`.
            let mut after_break = splitter.ranks.keys().filter_map(|token| {
                let line_break = token.iter().rposition(|byte| matches!(byte, b'\r' | b'\n'))?;
                token.get(line_break + 1)
            });
            assert!(after_break.all(|byte| byte.is_ascii() && !matches!(byte, b' ' | b'\t' | 0x0b | 0x0c)));
        }
    }
}

//! Counting where no tokenizer is public: an estimate from the text's characters, and the counter that does not count.

use super::{ImageFormula, TokenCounter};

/// Estimates tokens from what the characters are, times a factor for the model's family.
///
/// A word of Latin letters costs one token per four letters or part of four, and a number one per three digits. A single space
/// is part of the word behind it; a run of white space costs one token per 16 characters or part of 16, and more where
/// different ones alternate. Each other sign of ASCII costs one, and each other character as many as its UTF-8 bytes
/// suggest (two tokens for three characters of an alphabet, one for each ideograph).
///
/// On English, code and JSON this comes out 20 to 60 % above `o200k`. No text of one character, however long, is taken for
/// less than a third of what it is. This is what Lookback uses where it knows nothing of the model.
///
/// ```
/// use lookback_core::tokens::{Estimate, TokenCounter};
///
/// assert_eq!(Estimate::default().text("Hello, world"), 5);
/// assert_eq!(Estimate::default().text(""), 0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Multiplies the count.
    pub factor: f64,
    /// How pictures are priced.
    pub image: ImageFormula,
}

impl Default for Estimate {
    fn default() -> Self {
        Estimate { factor: 1.0, image: ImageFormula::default() }
    }
}

impl TokenCounter for Estimate {
    fn name(&self) -> &str {
        "estimate"
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn text(&self, text: &str) -> u64 {
        super::calibration::scale(characters(text), self.factor)
    }

    fn image(&self) -> ImageFormula {
        self.image
    }
}

/// Counts nothing: for policies that set no limit in tokens, on histories too long to count for nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uncounted;

impl TokenCounter for Uncounted {
    fn name(&self) -> &str {
        "uncounted"
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn text(&self, _: &str) -> u64 {
        0
    }

    fn message_overhead(&self) -> u64 {
        0
    }

    fn image(&self) -> ImageFormula {
        ImageFormula::Flat(0)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Run {
    None,
    Letters,
    Digits,
    Space,
}

/// So many line breaks, spaces or tabs in a row cost a token.
const SPACES: u64 = 16;

fn characters(text: &str) -> u64 {
    let mut tokens = 0;
    // A third of a token, for alphabets of two bytes a letter.
    let mut thirds = 0;
    let mut run = Run::None;
    let mut length: u64 = 0;
    let mut last = None;
    for character in text.chars() {
        let kind = match character {
            'a'..='z' | 'A'..='Z' => Run::Letters,
            '0'..='9' => Run::Digits,
            ' ' | '\t' | '\n' | '\r' => Run::Space,
            _ => Run::None,
        };
        let before = if kind == run { length } else { 0 };
        // Vocabularies have long tokens for one kind of white space, and short ones for `\r` and for what alternates.
        let is_long = character != '\r' && last == Some(character);
        length = match kind {
            _ if kind != run => 0,
            Run::Space if !is_long => length + SPACES / 2,
            Run::None | Run::Letters | Run::Digits | Run::Space => length + 1,
        };
        (run, last) = (kind, Some(character));
        match kind {
            Run::Letters if length.is_multiple_of(4) => tokens += 1,
            Run::Digits if length.is_multiple_of(3) => tokens += 1,
            Run::Letters | Run::Digits => {}
            // The space before a word is part of its token; the second of a run is not.
            Run::Space => tokens += length.div_ceil(SPACES) - before.div_ceil(SPACES),
            Run::None => match character.len_utf8() {
                1 => tokens += 1,
                2 => thirds += 2,
                bytes => thirds += if bytes == 3 { 3 } else { 6 },
            },
        }
    }
    tokens + u64::div_ceil(thirds, 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "o200k")]
    use crate::tokens::Vocabulary;

    fn estimated(text: &str) -> u64 {
        Estimate::default().text(text)
    }

    #[cfg(feature = "o200k")]
    #[test]
    fn a_run_of_white_space_costs_in_proportion_to_its_length() {
        assert_eq!(estimated(&"\n".repeat(1_600_000)), 100_000);
        for unit in ["\n", " ", "\t", "\r", "\r\n", " \n", " \t", "\n    ", "    \n", " \t\n\r", "\n\n \t"] {
            let text = unit.repeat(4_000);
            let (estimated, exact) = (estimated(&text), Vocabulary::O200k.count(&text));
            assert!(4 * estimated >= 3 * exact, "{unit:?}: {estimated} for {exact}");
        }
    }

    #[test]
    fn white_space_between_words_costs_what_it_did() {
        for (text, tokens) in [("a b", 2), ("a  b", 3), ("a\n\tb", 3), ("a\n        b", 3), ("a\r\n    b", 4)] {
            assert_eq!(estimated(text), tokens, "{text:?}");
        }
    }

    #[cfg(feature = "o200k")]
    #[test]
    fn no_character_repeated_is_taken_for_less_than_a_third() {
        let sampled = (0..0x300).chain((0x300..0x3_0000).step_by(13));
        for character in sampled.filter_map(char::from_u32) {
            let text = String::from(character).repeat(96);
            let (estimated, exact) = (estimated(&text), Vocabulary::O200k.count(&text));
            assert!(3 * estimated >= exact, "{character:?}: {estimated} for {exact}");
        }
    }

    #[cfg(feature = "o200k")]
    #[test]
    fn english_code_and_json_come_out_above_an_exact_count() {
        for text in [
            include_str!("../../../../LICENSE-APACHE"),
            include_str!("vocabulary.rs"),
            include_str!("../../../../examples/session.jsonl"),
        ] {
            let (estimated, exact) = (estimated(text), Vocabulary::O200k.count(text));
            let percent = 100 * estimated / exact;
            assert!((120..=160).contains(&percent), "{percent} %");
        }
    }
}

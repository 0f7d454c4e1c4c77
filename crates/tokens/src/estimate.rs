//! Counters without a tokenizer: an estimate from the characters of a text, and one that counts nothing.

use super::TokenCounter;
use lookback_models::{Frame, MediaFormula, scale};

/// A counter that estimates tokens from the characters of a text, times a factor for the model's family.
///
/// A word of Latin letters costs one token for each four letters or part of four, and a number one for each three
/// digits. A single space belongs to the word after it. A run of white space costs one token for each 16 characters or
/// part of 16, and more if different kinds alternate. Any other ASCII character costs one token. Other characters cost
/// what their UTF-8 bytes suggest: two tokens for three letters of an alphabet, and one for each ideograph.
///
/// On English, code and JSON the estimate is 20 to 60 % above `o200k`. A text that repeats one character is never
/// estimated at less than a third of its count. Lookback uses this counter if it does not know the model.
///
/// ```
/// use lookback_tokens::{Estimate, TokenCounter};
///
/// assert_eq!(Estimate::default().text("Hello, world"), 5);
/// assert_eq!(Estimate::default().text(""), 0);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// The factor by which the count is multiplied.
    pub(crate) factor: f64,
    /// The tokens that the provider adds around texts.
    pub frame: Frame,
    /// The formulas for pictures, files, sound and video.
    pub(crate) media: MediaFormula,
}

impl Estimate {
    /// Sets the factor by which counts are multiplied.
    #[must_use]
    pub fn factor(self, factor: f64) -> Self {
        Estimate { factor, ..self }
    }

    /// Sets the formulas for pictures, files, sound and video.
    #[must_use]
    pub fn media(self, media: MediaFormula) -> Self {
        Estimate { media, ..self }
    }
}

impl Default for Estimate {
    fn default() -> Self {
        Estimate { factor: 1.0, frame: Frame::default(), media: MediaFormula::default() }
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
        scale(characters(text), self.factor)
    }

    fn frame(&self) -> Frame {
        self.frame
    }

    fn media_formula(&self) -> MediaFormula {
        self.media
    }
}

/// A counter that counts nothing.
///
/// Use it for policies without limits in tokens, if counting a history would take long.
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

    fn frame(&self) -> Frame {
        Frame::NONE
    }

    fn media_formula(&self) -> MediaFormula {
        MediaFormula::NONE
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Run {
    None,
    Letters,
    Digits,
    Space,
}

/// The number of equal line breaks, spaces or tabs in a row that cost one token.
const SPACES: u64 = 16;

fn characters(text: &str) -> u64 {
    let mut tokens = 0;
    // Thirds of a token, for alphabets with two bytes per letter.
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
        // Vocabularies have long tokens for white space of one kind, but short ones for `\r` and for alternating kinds.
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
            // The first space before a word is part of the word's token.
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
    use crate::Vocabulary;

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
    fn no_character_repeated_is_estimated_at_less_than_a_third() {
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
            include_str!("../../../LICENSE-APACHE"),
            include_str!("vocabulary.rs"),
            include_str!("../../../examples/session.jsonl"),
        ] {
            let (estimated, exact) = (estimated(text), Vocabulary::O200k.count(text));
            let percent = 100 * estimated / exact;
            assert!((120..=160).contains(&percent), "{percent} %");
        }
    }
}

//! Counting where no tokenizer is public: an estimate from the text's characters, and the counter that does not count.

use super::{ImageFormula, TokenCounter};

/// Estimates tokens from what the characters are, times a factor for the model's family.
///
/// A word of Latin letters costs one token per four letters or part of four, a number one per three digits, a run of
/// spaces one, each other sign of ASCII one, and each other character as many as its UTF-8 bytes suggest (two tokens for three
/// characters of an alphabet, one for each ideograph). On English, code and JSON this comes out within about 15 %
/// of `o200k`, mostly above it; it is what Lookback uses where it knows nothing of the model.
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

fn characters(text: &str) -> u64 {
    let mut tokens = 0;
    // A third of a token, for alphabets of two bytes a letter.
    let mut thirds = 0;
    let mut run = Run::None;
    let mut length = 0;
    for character in text.chars() {
        let kind = match character {
            'a'..='z' | 'A'..='Z' => Run::Letters,
            '0'..='9' => Run::Digits,
            ' ' | '\t' | '\n' | '\r' => Run::Space,
            _ => Run::None,
        };
        length = if kind == run { length + 1 } else { 0 };
        run = kind;
        match kind {
            Run::Letters if length % 4 == 0 => tokens += 1,
            Run::Digits if length % 3 == 0 => tokens += 1,
            // The space before a word is part of its token; the second of a run is not.
            Run::Space if length == 1 => tokens += 1,
            Run::Letters | Run::Digits | Run::Space => {}
            Run::None => match character.len_utf8() {
                1 => tokens += 1,
                2 => thirds += 2,
                bytes => thirds += if bytes == 3 { 3 } else { 6 },
            },
        }
    }
    tokens + u64::div_ceil(thirds, 3)
}

//! The counter for OpenAI's vocabularies: exact for OpenAI's models, and the best known estimate for most others.

use super::calibration::scale;
use super::{ImageFormula, TokenCounter};

pub use super::vocabulary::Vocabulary;

/// A counter with one of OpenAI's vocabularies, times a factor for model families whose tokenizer is not public.
///
/// ```
/// # #[cfg(feature = "o200k")] {
/// use lookback_core::tokens::{OpenAiCounter, TokenCounter, Vocabulary};
///
/// let counter = OpenAiCounter::new(Vocabulary::O200k);
/// assert_eq!(counter.text("Hello, world!"), 4);
/// assert!(counter.is_exact());
/// assert!(!counter.factor(1.2).is_exact());
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OpenAiCounter {
    vocabulary: Vocabulary,
    factor: f64,
    image: ImageFormula,
}

impl OpenAiCounter {
    /// Creates a counter that is exact.
    pub fn new(vocabulary: Vocabulary) -> Self {
        OpenAiCounter { vocabulary, factor: 1.0, image: ImageFormula::Tiles { base: 85, tile: 170 } }
    }

    /// Sets the factor by which counts are multiplied. Any factor but 1 makes them an estimate.
    #[must_use]
    pub fn factor(self, factor: f64) -> Self {
        OpenAiCounter { factor, ..self }
    }

    /// Sets the formula for the tokens of pictures.
    #[must_use]
    pub fn image(self, image: ImageFormula) -> Self {
        OpenAiCounter { image, ..self }
    }
}

impl TokenCounter for OpenAiCounter {
    fn name(&self) -> &str {
        match self.vocabulary {
            #[cfg(feature = "o200k")]
            Vocabulary::O200k => "o200k",
            #[cfg(feature = "cl100k")]
            Vocabulary::Cl100k => "cl100k",
        }
    }

    fn is_exact(&self) -> bool {
        self.factor == 1.0
    }

    fn text(&self, text: &str) -> u64 {
        scale(self.vocabulary.count(text), self.factor)
    }

    fn image_formula(&self) -> ImageFormula {
        self.image
    }
}

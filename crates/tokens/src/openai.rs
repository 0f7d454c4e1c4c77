//! The counter for OpenAI's vocabularies: exact for OpenAI's models, and the best known estimate for most others.

use super::TokenCounter;
use lookback_models::{Frame, ImageFormula, MediaFormula, Tokenizer, scale};

pub use super::vocabulary::Vocabulary;

/// A counter with one of OpenAI's vocabularies. Its counts are multiplied by a factor for models whose tokenizer is not
/// public.
///
/// ```
/// # #[cfg(feature = "o200k")] {
/// use lookback_tokens::{OpenAiCounter, TokenCounter, Vocabulary};
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
    frame: Frame,
    media: MediaFormula,
}

impl Vocabulary {
    /// Returns the vocabulary of a tokenizer, or `None` if it has none or the vocabulary's feature is off.
    pub fn for_tokenizer(tokenizer: Tokenizer) -> Option<Vocabulary> {
        match tokenizer {
            #[cfg(feature = "o200k")]
            Tokenizer::O200k => Some(Vocabulary::O200k),
            #[cfg(feature = "cl100k")]
            Tokenizer::Cl100k => Some(Vocabulary::Cl100k),
            #[cfg(not(feature = "o200k"))]
            Tokenizer::O200k => None,
            #[cfg(not(feature = "cl100k"))]
            Tokenizer::Cl100k => None,
            Tokenizer::Estimate => None,
        }
    }
}

impl OpenAiCounter {
    /// Creates an exact counter.
    pub fn new(vocabulary: Vocabulary) -> Self {
        let image = ImageFormula::Tiles { base: 85, tile: 170 };
        let media = MediaFormula { image, ..MediaFormula::default() };
        OpenAiCounter { vocabulary, factor: 1.0, frame: Frame::default(), media }
    }

    /// Sets the factor by which counts are multiplied. Any factor but 1 makes them an estimate.
    #[must_use]
    pub fn factor(self, factor: f64) -> Self {
        OpenAiCounter { factor, ..self }
    }

    /// Sets the tokens that the provider adds around texts.
    #[must_use]
    pub(crate) fn with_frame(self, frame: Frame) -> Self {
        OpenAiCounter { frame, ..self }
    }

    /// Sets the formulas for pictures, files, sound and video.
    #[must_use]
    pub(crate) fn media(self, media: MediaFormula) -> Self {
        OpenAiCounter { media, ..self }
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

    fn frame(&self) -> Frame {
        self.frame
    }

    fn media_formula(&self) -> MediaFormula {
        self.media
    }
}

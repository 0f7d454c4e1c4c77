//! The tokens of pictures, files, sound and video, by the provider's formulas.

use serde::Deserialize;

use crate::image::ImageFormula;

/// A provider's formulas for pictures, files, sound and video.
///
/// The default is for providers that publish no formulas. It is close to the highest published prices.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MediaFormula {
    /// The tokens of a picture.
    pub image: ImageFormula,
    /// The tokens of a page of a PDF file, without those of its text.
    pub page: u64,
    /// The factor by which the tokens of a PDF file's text are multiplied. If it is 0, `page` includes the text.
    pub text: f64,
    /// The tokens of a second of sound.
    pub audio: u64,
    /// The length of a clip, in seconds. Sound is rounded up to whole clips.
    pub clip: u64,
    /// The tokens of a second of video.
    pub video: u64,
}

impl MediaFormula {
    /// Formulas that count no tokens.
    pub const NONE: MediaFormula =
        MediaFormula { image: ImageFormula::Flat(0), page: 0, text: 0.0, audio: 0, clip: 1, video: 0 };
}

impl Default for MediaFormula {
    /// Returns values from the guides of Anthropic (1,500 to 3,000 tokens for a page) and Google (32 tokens for a
    /// second of sound, and 258 for the picture of each second of video).
    fn default() -> Self {
        MediaFormula { image: ImageFormula::default(), page: 2_000, text: 0.0, audio: 32, clip: 1, video: 290 }
    }
}

//! The tokens of pictures and files, by the provider's formula and never by the length of the base64.

use base64::Engine as _;
use serde::{Deserialize, Serialize};

use super::TokenCounter;
use crate::message::{Media, MediaSource};

/// A provider's formula for the tokens of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImageFormula {
    /// OpenAI's tiles, as in its guide to images.
    ///
    /// The picture is scaled down to fit 2048x2048 pixels, then to 768 pixels on the short side. It costs `base`, plus
    /// `tile` for each square of 512 pixels: 85 and 170 tokens for gpt-4o.
    Tiles {
        /// The tokens of every picture.
        base: u64,
        /// The tokens of each tile.
        tile: u64,
    },
    /// Anthropic's area, as in its guide to vision.
    ///
    /// The picture is scaled down to at most `edge` pixels on the long side. It costs width times height divided by
    /// 750.
    Area {
        /// The longest side, in pixels.
        edge: u64,
    },
    /// The same tokens for every picture.
    Flat(u64),
}

impl Default for ImageFormula {
    /// Returns the most that a picture costs by the area formula. It is for providers that publish no formula.
    fn default() -> Self {
        ImageFormula::Flat(1_600)
    }
}

impl ImageFormula {
    /// Returns the tokens of a picture with this size. If the size is unknown, it returns those of the largest picture.
    ///
    /// ```
    /// use lookback_core::tokens::{ImageFormula, Pixels};
    ///
    /// let pixels = Pixels { width: 1024, height: 1024 };
    /// assert_eq!(ImageFormula::Tiles { base: 85, tile: 170 }.tokens(Some(pixels)), 765);
    /// ```
    pub fn tokens(self, pixels: Option<Pixels>) -> u64 {
        match self {
            ImageFormula::Flat(tokens) => tokens,
            ImageFormula::Tiles { base, tile } => {
                let pixels = pixels.unwrap_or(Pixels { width: 2048, height: 768 });
                let pixels = pixels.shrunk(pixels.width.max(pixels.height), 2048);
                let Pixels { width, height } = pixels.shrunk(pixels.width.min(pixels.height), 768);
                base.saturating_add(tile.saturating_mul(width.div_ceil(512)).saturating_mul(height.div_ceil(512)))
            }
            ImageFormula::Area { edge } => {
                let pixels = pixels.unwrap_or(Pixels { width: edge, height: 1_600 * 750 / edge.max(1) });
                let Pixels { width, height } = pixels.shrunk(pixels.width.max(pixels.height), edge);
                width.saturating_mul(height).div_ceil(750)
            }
        }
    }
}

/// The size of a picture in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pixels {
    /// The width.
    pub width: u64,
    /// The height.
    pub height: u64,
}

impl Pixels {
    /// Scales the size down so that `side` becomes at most `most`.
    fn shrunk(self, side: u64, most: u64) -> Pixels {
        let scale = |length: u64| {
            let scaled = u128::from(length) * u128::from(most) / u128::from(side.max(1));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        if side <= most { self } else { Pixels { width: scale(self.width), height: scale(self.height) } }
    }
}

pub(crate) fn image_tokens(media: &Media, formula: ImageFormula) -> u64 {
    formula.tokens(match &media.source {
        MediaSource::Base64(data) => pixels(data),
        MediaSource::Text(_) | MediaSource::Url(_) | MediaSource::Id(_) => None,
    })
}

/// Reads the width and height from a picture's header.
fn pixels(data: &str) -> Option<Pixels> {
    // Most formats have their size in the first bytes, JPEG has it after its metadata. So more is decoded only if
    // needed.
    [1 << 10, 1 << 18, usize::MAX].into_iter().find_map(|most| {
        let length = data.len().min(most) / 4 * 4;
        let engine = base64::engine::general_purpose::STANDARD_NO_PAD;
        let header = engine.decode(data.get(..length)?.trim_end_matches('=')).ok()?;
        let size = imagesize::blob_size(&header).ok()?;
        Some(Pixels { width: size.width as u64, height: size.height as u64 })
    })
}

/// Counts the tokens of a file. A text file is counted as text.
///
/// For other files the number of pages is guessed, with 50 kB and 2,000 tokens for each page. Anthropic's guide to PDFs
/// gives 1,500 to 3,000 tokens per page.
pub(crate) fn document_tokens(media: &Media, counter: &dyn TokenCounter) -> u64 {
    match &media.source {
        MediaSource::Text(text) => counter.text(text),
        MediaSource::Base64(data) if media.mime.as_deref().is_some_and(|mime| mime.starts_with("text/")) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap_or_default();
            counter.text(&String::from_utf8_lossy(&bytes))
        }
        MediaSource::Base64(data) if counter.message_overhead() > 0 => {
            2_000 * (data.len() as u64 * 3 / 4).div_ceil(50_000)
        }
        MediaSource::Url(_) | MediaSource::Id(_) if counter.message_overhead() > 0 => 2_000,
        MediaSource::Base64(_) | MediaSource::Url(_) | MediaSource::Id(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_priced_by_its_pixels_and_not_by_its_base64() {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x03\x20\0\0\x02\x58\x08\x02\0\0\0".to_vec();
        png.resize(3_000_000, 7);
        let data = base64::engine::general_purpose::STANDARD.encode(&png);
        let media = Media { mime: Some("image/png".into()), name: None, source: MediaSource::Base64(data) };
        assert_eq!(image_tokens(&media, ImageFormula::Area { edge: 1568 }), 800 * 600 / 750);
    }

    #[test]
    fn a_picture_within_the_longest_side_is_not_scaled() {
        assert_eq!(ImageFormula::Area { edge: 1568 }.tokens(Some(Pixels { width: 200, height: 200 })), 54);
    }

    #[test]
    fn a_picture_of_unknown_size_costs_the_most_that_a_picture_can() {
        assert_eq!(ImageFormula::Area { edge: 1568 }.tokens(None), 1_600);
        assert_eq!(ImageFormula::Tiles { base: 85, tile: 170 }.tokens(None), 85 + 170 * 8);
    }
}

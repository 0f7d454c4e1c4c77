//! The tokens of pictures, by the provider's formula.

use serde::{Deserialize, Serialize};

use crate::scale::scale;

/// A provider's formula for the tokens of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
    /// Patches, as in the guides of OpenAI for its later models, of Anthropic and of Mistral.
    ///
    /// The picture is scaled down to at most `edge` pixels on the long side, and to at most `most` patches. Each patch
    /// is a square of `side` pixels, and costs one token times `factor`.
    Patches {
        /// The side of a patch, in pixels.
        side: u64,
        /// The most patches of a picture.
        most: u64,
        /// The longest side, in pixels.
        edge: u64,
        /// The tokens of a patch.
        factor: f64,
    },
    /// Gemini's crops, as in Google's guide to token counting for the models up to 2.5.
    ///
    /// A picture is first scaled down to at most 3072 pixels on the long side. If it has at most 384 pixels on both
    /// sides, it costs `tokens`. A larger one costs `tokens` for itself and for each of its crops. Crops are squares
    /// whose side is two thirds of the picture's short side, but at least 256 and at most 768 pixels.
    Crops {
        /// The tokens of a crop.
        tokens: u64,
    },
    /// The same tokens for every picture.
    Flat(u64),
}

impl Default for ImageFormula {
    /// Returns 1,600 tokens, the maximum of most providers, for providers that publish no formula.
    fn default() -> Self {
        ImageFormula::Flat(1_600)
    }
}

impl ImageFormula {
    /// Returns the tokens of a picture with this size, or of the largest possible picture if the size is unknown.
    ///
    /// ```
    /// use lookback_models::{ImageFormula, Pixels};
    ///
    /// let pixels = Pixels { width: 1024, height: 1024 };
    /// assert_eq!(ImageFormula::Tiles { base: 85, tile: 170 }.tokens(Some(pixels)), 765);
    /// let patches = ImageFormula::Patches { side: 32, most: 1_536, edge: 2_048, factor: 1.2 };
    /// assert_eq!(patches.tokens(Some(pixels)), 1_229);
    /// ```
    pub fn tokens(self, pixels: Option<Pixels>) -> u64 {
        match self {
            ImageFormula::Flat(tokens) => tokens,
            ImageFormula::Tiles { base, tile } => {
                let pixels = pixels.unwrap_or(Pixels { width: 2048, height: 768 });
                let pixels = pixels.shrunk(pixels.width.max(pixels.height), 2048);
                let pixels = pixels.shrunk(pixels.width.min(pixels.height), 768);
                base.saturating_add(tile.saturating_mul(pixels.squares(512)))
            }
            ImageFormula::Patches { side, most, edge, factor } => {
                let patches = pixels.map_or(most, |pixels| {
                    let pixels = pixels.shrunk(pixels.width.max(pixels.height), edge);
                    // The provider scales it down further, to at most this many patches.
                    pixels.squares(side).min(most)
                });
                scale(patches, factor)
            }
            ImageFormula::Crops { tokens } => {
                let pixels = pixels.unwrap_or(Pixels { width: 3072, height: 3072 });
                let pixels = pixels.shrunk(pixels.width.max(pixels.height), 3072);
                let Pixels { width, height } = pixels;
                if width.max(height) <= 384 {
                    return tokens;
                }
                let side = (width.min(height).saturating_mul(2) / 3).clamp(256, 768);
                tokens.saturating_mul(pixels.squares(side).saturating_add(1))
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

    /// Returns the number of squares with this side that cover it.
    fn squares(self, side: u64) -> u64 {
        let side = side.max(1);
        self.width.div_ceil(side).saturating_mul(self.height.div_ceil(side))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Anthropic's formula up to Claude 4.6.
    const CLAUDE: ImageFormula = ImageFormula::Patches { side: 28, most: 1_568, edge: 1_568, factor: 1.0 };

    #[test]
    fn a_picture_within_the_longest_side_is_not_scaled() {
        assert_eq!(CLAUDE.tokens(Some(Pixels { width: 200, height: 200 })), 64);
    }

    #[test]
    fn a_picture_of_unknown_size_costs_the_most_that_a_picture_can() {
        assert_eq!(CLAUDE.tokens(None), 1_568);
        assert_eq!(ImageFormula::Tiles { base: 85, tile: 170 }.tokens(None), 85 + 170 * 8);
        for pixels in [Pixels { width: 3, height: u64::MAX }, Pixels { width: u64::MAX, height: u64::MAX }] {
            assert!(CLAUDE.tokens(Some(pixels)) <= 1_568, "{pixels:?}");
            assert!(ImageFormula::Crops { tokens: 258 }.tokens(Some(pixels)) <= 258 * 17, "{pixels:?}");
        }
    }

    #[test]
    fn crops_are_two_thirds_of_the_short_side() {
        let tokens = |width, height| ImageFormula::Crops { tokens: 258 }.tokens(Some(Pixels { width, height }));
        assert_eq!(tokens(384, 384), 258);
        // Reported by Gemini 2.5.
        assert_eq!(tokens(540, 360), 258 * 7);
    }
}

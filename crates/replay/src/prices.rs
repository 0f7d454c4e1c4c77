//! The prices of tokens, from the built-in table `data/prices.toml` or from your own.

use std::sync::LazyLock;

use lookback_engine::transcript::Millis;
use lookback_models::matches_glob;
use lookback_wire::dialect::Response;
use serde::{Deserialize, Serialize};

/// The prices of one provider, and the rules of its prompt cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Price {
    /// The name by which the price is selected.
    pub name: String,
    /// The provider.
    pub(crate) provider: String,
    /// Patterns for the names of its models, in which `*` matches any text.
    pub(crate) models: Vec<String>,
    /// US dollars per million tokens that are neither read from the cache nor written to it.
    pub input: f64,
    /// The price of writing a token to the cache, as a multiple of `input`. With 1, writing costs nothing extra.
    pub write: f64,
    /// The price of reading a token from the cache, as a multiple of `input`.
    pub read: f64,
    /// The fewest tokens of a prefix that is cached.
    pub(crate) minimum: u64,
    /// Prefixes are cached in multiples of this many tokens.
    pub(crate) step: u64,
    /// Seconds that a prefix is kept after its last use.
    pub ttl: u64,
    /// Which prefixes are kept.
    pub(crate) entries: Entries,
    /// US dollars per million output tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
    /// The date of the figures.
    pub date: String,
    /// The source of the figures.
    pub source: String,
}

/// Which prefixes of a request a provider keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Entries {
    /// Prefixes that end at a cache marker.
    Marked,
    /// All prefixes that were sent.
    Every,
}

impl Price {
    /// Returns the number of tokens that can be read from the cache for this many US dollars. A call with a window of
    /// this size costs that much between two compactions, not counting the tokens that are new in it.
    ///
    /// ```
    /// use lookback_replay::prices::Prices;
    ///
    /// let prices = Prices::builtin();
    /// assert_eq!(prices.find("anthropic-5m").unwrap().tokens_for(0.01), 33_333);
    /// ```
    pub fn tokens_for(&self, dollars: f64) -> u64 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates, and converts NaN to 0"
        )]
        // The rounding error of a division must not cost a token.
        let tokens = (dollars / (self.input * self.read) * 1e6 + 1e-6) as u64;
        tokens
    }

    /// Returns the cost of output tokens, in US dollars; 0 if their price is not known.
    pub fn output_cost(&self, tokens: u64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let tokens = tokens as f64;
        tokens * self.output.unwrap_or(0.0) / 1e6
    }

    /// Returns the cost of a call by the provider's own report, in US dollars; `None` if it reported no input tokens.
    ///
    /// ```
    /// use lookback_wire::dialect::{Dialect, Response};
    /// use lookback_replay::prices::Prices;
    ///
    /// let body = r#"{"role": "assistant", "content": [], "usage": {"input_tokens": 1000, "output_tokens": 100,
    ///     "cache_read_input_tokens": 10000, "cache_creation_input_tokens": 2000}}"#;
    /// let response = Response::decode(body, Dialect::Anthropic)?;
    /// let cost = Prices::builtin().find("anthropic-5m").unwrap().call_cost(&response).unwrap();
    /// assert!((cost - (1000.0 + 10000.0 * 0.1 + 2000.0 * 1.25) * 3e-6 - 100.0 * 15e-6).abs() < 1e-9);
    /// # Ok::<(), lookback_wire::dialect::DecodeError>(())
    /// ```
    pub fn call_cost(&self, response: &Response) -> Option<f64> {
        let input = response.input?;
        let (read, written) = (response.cached.unwrap_or(0), response.written.unwrap_or(0));
        let uncached = input.saturating_sub(read).saturating_sub(written);
        Some(self.cost(read, written, uncached) + self.output_cost(response.output.unwrap_or(0)))
    }

    /// Returns the cost of input tokens, in US dollars.
    pub(crate) fn cost(&self, read: u64, written: u64, uncached: u64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let tokens = |count: u64, times: f64| count as f64 * times;
        let weighted = tokens(read, self.read) + tokens(written, self.write) + tokens(uncached, 1.0);
        weighted * self.input / 1e6
    }

    /// Returns the number of tokens of a prefix that can be cached.
    pub(crate) fn cacheable(&self, tokens: u64) -> u64 {
        if tokens < self.minimum { 0 } else { tokens / self.step.max(1) * self.step.max(1) }
    }

    /// Returns whether a prefix that was last used at `used` is still kept at `now`. Without times, nothing expires.
    pub(crate) fn keeps(&self, used: Option<Millis>, now: Option<Millis>) -> bool {
        match (now, used) {
            (Some(now), Some(used)) => {
                now.saturating_sub(used) <= i64::try_from(self.ttl).unwrap_or(i64::MAX).saturating_mul(1_000)
            }
            _ => self.ttl > 0,
        }
    }
}

/// A table of prices.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    #[serde(rename = "price")]
    prices: Vec<Price>,
}

/// The errors of reading a table of prices.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct PricesError(#[from] PricesFault);

/// The reason of a [`PricesError`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
enum PricesFault {
    /// The text is not TOML, or does not have the format of a table.
    #[error("cannot read the table of prices: {0}")]
    Format(toml::de::Error),
    /// A number is negative or not finite.
    #[error("price `{name}`: {member} must be a number of at least 0")]
    Number { name: String, member: &'static str },
}

impl Prices {
    /// Returns the table that comes with Lookback.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Prices> = LazyLock::new(|| {
            // A test checks that the table can be read.
            Prices::from_toml(include_str!("../data/prices.toml")).unwrap_or(Prices { prices: Vec::new() })
        });
        &BUILTIN
    }

    /// Reads a table from text, in the format of `data/prices.toml`, which `docs/reference/prices.md` explains.
    ///
    /// # Errors
    /// Returns an error if the text is not TOML, does not have this format, or contains a negative or infinite number.
    pub fn from_toml(text: &str) -> Result<Self, PricesError> {
        let prices: Prices = toml::from_str(text).map_err(PricesFault::Format)?;
        for price in &prices.prices {
            let output = price.output.unwrap_or(0.0);
            let numbers = [("input", price.input), ("write", price.write), ("read", price.read), ("output", output)];
            if let Some((member, _)) = numbers.into_iter().find(|(_, number)| !number.is_finite() || *number < 0.0) {
                return Err(PricesFault::Number { name: price.name.clone(), member }.into());
            }
        }
        Ok(prices)
    }

    /// Returns the price with this name, or else the first price for a model with this name.
    ///
    /// ```
    /// use lookback_replay::prices::Prices;
    ///
    /// let prices = Prices::builtin();
    /// assert_eq!(prices.find("anthropic-5m").unwrap().write, 1.25);
    /// assert_eq!(prices.find("claude-opus-4-6").unwrap().name, "anthropic-opus-5m");
    /// assert!(prices.find("abacus").is_none());
    /// ```
    pub fn find(&self, name: &str) -> Option<&Price> {
        let model = |price: &&Price| price.models.iter().any(|pattern| matches_glob(pattern, name));
        self.prices.iter().find(|price| price.name == name).or_else(|| self.prices.iter().find(model))
    }

    /// Returns the names of all prices.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.prices.iter().map(|price| price.name.as_str())
    }
}

/// Formats an amount in US dollars, with more digits if it is below one dollar.
pub fn money(dollars: f64) -> String {
    if dollars.abs() < 1.0 { format!("${dollars:.4}") } else { format!("${dollars:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Block, Cache};

    #[test]
    fn the_builtin_table_reads() {
        let prices = Prices::from_toml(include_str!("../data/prices.toml")).unwrap();
        assert_eq!(prices.names().next(), Some("anthropic-5m"));
    }

    #[test]
    fn a_negative_price_is_refused() {
        let text = include_str!("../data/prices.toml").replace("read = 0.1", "read = -1");
        let error = Prices::from_toml(&text).unwrap_err();
        assert_eq!(error.to_string(), "price `anthropic-5m`: read must be a number of at least 0");
    }

    const PAGE: &str = include_str!("../../../docs/reference/prices.md");

    #[test]
    fn the_documented_file_reads_and_costs_what_the_page_says() {
        let text = PAGE.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let prices = Prices::from_toml(text).unwrap();
        assert_eq!(prices.names().collect::<Vec<_>>(), ["contract", "contract-uncached"]);
        assert_eq!(prices.find("claude-opus-4-6").unwrap().name, "contract");

        let block = |digest, tokens| Block::new(digest).tokens(tokens);
        let mut cache = Cache::new(prices.find("contract").unwrap().clone());
        let first = cache.call(&[block(1, 20_000)], None);
        let second = cache.call(&[block(1, 20_000), block(2, 500)], None);
        let changed = cache.call(&[block(3, 20_500)], None);
        assert_eq!((first.written, second.read, second.written), (20_000, 20_000, 500));
        for (charge, said) in [(first, "= $0.0600."), (second, "= $0.0063."), (changed, "have cost $0.0615.")] {
            assert!(said.contains(&format!("${:.4}.", charge.cost)) && PAGE.contains(said), "{said}: {}", charge.cost);
        }
    }

    #[test]
    fn the_page_has_every_member_of_a_price_and_every_kind_of_entries() {
        let price = serde_json::to_value(Prices::builtin().find("anthropic-5m").unwrap()).unwrap();
        for member in price.as_object().unwrap().keys() {
            assert!(PAGE.contains(&format!("\n| `{member}` |")), "{member}");
        }
        for entries in [Entries::Marked, Entries::Every] {
            assert!(PAGE.contains(&format!("`{}`", serde_json::to_string(&entries).unwrap())), "{entries:?}");
        }
    }
}

//! A simulation of a provider's prompt cache: the tokens of each request that it would read or write.

mod blocks;
mod growing;

use std::collections::{HashMap, HashSet};

use lookback_engine::transcript::Millis;
use lookback_engine::view::chain;
use serde::Serialize;

use crate::prices::{Entries, Price};

pub use blocks::blocks;
pub(crate) use blocks::shown_as;
pub use growing::Growing;

/// The prompt cache of one conversation, with the rules and prices of a provider.
///
/// A cache keeps exact prefixes. If it keeps only marked ones, the simulation places markers like a careful client:
/// after the system prompt and tools, and at the end of each request, so that the next request finds the previous one.
///
/// ```
/// use lookback_replay::cache::{Block, Cache};
/// use lookback_replay::prices::Prices;
///
/// let mut cache = Cache::new(Prices::builtin().find("anthropic-5m").unwrap().clone());
/// let first = [Block::new(1).tokens(2_000).fixed(true), Block::new(2).tokens(500)];
/// let charge = cache.call(&first, None);
/// assert_eq!((charge.read, charge.written), (0, 2_500));
///
/// let second = [first[0], first[1], Block::new(3).tokens(100)];
/// let charge = cache.call(&second, None);
/// assert_eq!((charge.read, charge.written), (2_500, 100));
/// ```
#[derive(Debug, Clone)]
pub struct Cache {
    price: Price,
    // The time of each prefix's last use.
    entries: HashMap<u128, Option<Millis>>,
    // The prefixes that have expired.
    expired: HashSet<u128>,
    last: Option<u128>,
}

/// A piece of a request, which is compared with other pieces as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block {
    /// The digest. Two blocks with the same digest contain the same bytes.
    pub digest: u128,
    /// The tokens of the block.
    pub tokens: u64,
    /// Whether the block belongs to the system prompt or the tools, which are followed by a marker.
    pub fixed: bool,
}

impl Block {
    /// Creates a block of the messages, with this digest and no tokens.
    pub fn new(digest: u128) -> Self {
        Block { digest, tokens: 0, fixed: false }
    }

    /// Sets the tokens of the block.
    #[must_use]
    pub fn tokens(self, tokens: u64) -> Self {
        Block { tokens, ..self }
    }

    /// Sets whether the block belongs to the system prompt or the tools, which are followed by a marker.
    #[must_use]
    pub fn fixed(self, fixed: bool) -> Self {
        Block { fixed, ..self }
    }
}

/// The tokens and the cost of one request.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Charge {
    /// Tokens that were read from the cache.
    pub read: u64,
    /// Tokens that were written to the cache.
    pub written: u64,
    /// Tokens that were neither read nor written.
    pub uncached: u64,
    /// The cost in US dollars.
    pub cost: f64,
    /// Whether the request does not extend the one before it.
    pub breaks: bool,
    /// Whether the cache had the beginning of the request, but it had expired.
    pub cold: bool,
}

impl Charge {
    /// Returns all tokens of the request.
    pub fn sent(&self) -> u64 {
        self.read + self.written + self.uncached
    }

    /// Returns the charge for a request of this many tokens, if the cache has its first `cached` tokens.
    fn new(price: &Price, tokens: u64, cached: Option<u64>) -> Charge {
        let read = cached.map_or(0, |tokens| price.cacheable(tokens));
        let rest = tokens - read;
        let pays = price.write > 1.0 && price.cacheable(tokens) > 0;
        let (written, uncached) = if pays { (rest, 0) } else { (0, rest) };
        Charge { read, written, uncached, cost: price.cost(read, written, uncached), breaks: false, cold: false }
    }

    /// Returns the charge with its tokens scaled by the ratio of the tokens that the provider reported for a request to
    /// the tokens that were counted for it. If either is 0, nothing changes.
    pub fn corrected(self, reported: u64, counted: u64, price: &Price) -> Charge {
        if reported == 0 || counted == 0 {
            return self;
        }
        let scaled = |tokens: u64| {
            u64::try_from(u128::from(tokens) * u128::from(reported) / u128::from(counted)).unwrap_or(u64::MAX)
        };
        let read = scaled(self.read);
        let rest = scaled(self.sent()).saturating_sub(read);
        let (written, uncached) = if self.written > 0 { (rest, 0) } else { (0, rest) };
        Charge { read, written, uncached, cost: price.cost(read, written, uncached), ..self }
    }
}

impl Cache {
    /// Creates an empty cache.
    pub fn new(price: Price) -> Self {
        Cache { price, entries: HashMap::new(), expired: HashSet::new(), last: None }
    }

    /// Simulates one request, and returns its charge. Without a time, nothing in the cache expires.
    pub fn call(&mut self, blocks: &[Block], time: Option<Millis>) -> Charge {
        let mut prefix = 0;
        let mut tokens = 0;
        // Every prefix of the request: its chained digest, its tokens, and whether a marker follows it.
        let mut prefixes = Vec::with_capacity(blocks.len());
        for (index, block) in blocks.iter().enumerate() {
            prefix = chain(prefix, block.digest);
            tokens += block.tokens;
            let last_fixed = block.fixed && blocks.get(index + 1).is_none_or(|next| !next.fixed);
            let marked = self.price.entries == Entries::Every || last_fixed || index + 1 == blocks.len();
            prefixes.push((prefix, tokens, marked));
        }
        let live = |at: &u128| self.entries.get(at).is_some_and(|used| self.price.keeps(*used, time));
        let hit = prefixes.iter().rev().find(|(prefix, ..)| live(prefix)).copied();
        let had = |prefix: &u128| self.entries.contains_key(prefix) || self.expired.contains(prefix);
        let cold = hit.is_none() && prefixes.iter().any(|(prefix, ..)| had(prefix));
        let charge = Charge::new(&self.price, tokens, hit.map(|(_, tokens, _)| tokens));
        let breaks = self.last.is_some_and(|last| !prefixes.iter().any(|(prefix, ..)| *prefix == last));
        for (prefix, _, _) in prefixes.iter().filter(|(_, tokens, marked)| *marked && self.price.cacheable(*tokens) > 0)
        {
            self.entries.insert(*prefix, time);
        }
        if let Some((prefix, ..)) = hit {
            self.entries.insert(prefix, time);
        }
        self.last = prefixes.last().map(|(prefix, ..)| *prefix);
        Charge { breaks, cold, ..charge }
    }

    /// Lets everything in the cache expire now.
    pub fn expire(&mut self) {
        self.expired.extend(self.entries.drain().map(|(prefix, _)| prefix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::Prices;

    fn cache(name: &str) -> Cache {
        Cache::new(Prices::builtin().find(name).unwrap().clone())
    }

    fn blocks(digests: &[u128]) -> Vec<Block> {
        digests.iter().map(|digest| Block::new(*digest).tokens(1_000).fixed(*digest == 0)).collect()
    }

    #[test]
    fn an_entry_grows_cold_after_its_time_and_is_kept_alive_by_use() {
        let mut cache = cache("anthropic-5m");
        cache.call(&blocks(&[0, 1]), Some(0));
        assert_eq!(cache.call(&blocks(&[0, 1]), Some(299_000)).read, 2_000);
        assert_eq!(cache.call(&blocks(&[0, 1]), Some(590_000)).read, 2_000);
        let charge = cache.call(&blocks(&[0, 1]), Some(900_000));
        assert_eq!((charge.read, charge.cold), (0, true));
    }

    #[test]
    fn a_changed_middle_reads_no_further_than_the_marker_before_it() {
        let mut marked = cache("anthropic-5m");
        marked.call(&blocks(&[0, 1, 2, 3]), None);
        // [0] is below the minimum of 1,024 tokens, so it was not kept.
        let charge = marked.call(&blocks(&[0, 1, 9]), None);
        assert_eq!((charge.read, charge.breaks), (0, true));
        let mut every = cache("openai");
        every.call(&blocks(&[0, 1, 2, 3]), None);
        // 2,000 tokens, in steps of 128.
        assert_eq!(every.call(&blocks(&[0, 1, 9]), None).read, 1_920);
    }

    #[test]
    fn what_is_too_short_is_not_cached() {
        let mut cache = cache("anthropic-5m");
        let charge = cache.call(&blocks(&[1]), None);
        assert_eq!((charge.written, charge.uncached), (0, 1_000));
    }

    #[test]
    fn a_correction_keeps_the_shares_and_meets_the_total() {
        let mut cache = cache("anthropic-5m");
        cache.call(&blocks(&[0, 1]), None);
        let price = cache.price.clone();
        let charge = cache.call(&blocks(&[0, 1, 2]), None).corrected(4_000, 3_000, &price);
        assert_eq!((charge.read, charge.written, charge.uncached), (2_666, 1_334, 0));
        assert_eq!(charge.corrected(0, 4_000, &price), charge);
    }

    #[test]
    fn without_a_cache_every_token_costs_the_same() {
        let mut cache = cache("uncached");
        cache.call(&blocks(&[1]), None);
        let charge = cache.call(&blocks(&[1]), None);
        assert_eq!((charge.read, charge.uncached), (0, 1_000));
        assert!((charge.cost - 0.003).abs() < 1e-9);
    }
}

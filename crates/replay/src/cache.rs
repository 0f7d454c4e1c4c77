//! A simulation of a provider's prompt cache: the tokens of each request that it would read or write.

mod blocks;
mod growing;
mod tracked;

use std::collections::{HashMap, HashSet};

use lookback_engine::transcript::Millis;
use lookback_engine::view::chain;
use serde::Serialize;

use crate::prices::{Entries, Price};

pub use blocks::blocks;
pub(crate) use blocks::shown_as;
pub use growing::Growing;
pub(crate) use tracked::Tracked;

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
    /// The time of the last use of each prefix that is not one of `last`, or that a marker follows.
    entries: HashMap<u128, Option<Millis>>,
    /// The prefixes that have expired.
    expired: HashSet<u128>,
    /// The prefixes of the last request.
    last: Vec<Prefix>,
    /// The time of the last request, with which all its prefixes were used if every prefix is kept. `None` if they have
    /// expired.
    used: Option<Option<Millis>>,
    /// The newest time of a use of an entry. `None` if there are none.
    newest: Option<Option<Millis>>,
}

/// A beginning of a request.
#[derive(Debug, Clone, Copy)]
struct Prefix {
    /// The chained digest of its blocks.
    digest: u128,
    tokens: u64,
    /// Whether its last block belongs to the system prompt or the tools.
    fixed: bool,
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
        let (entries, expired) = (HashMap::new(), HashSet::new());
        Cache { price, entries, expired, last: Vec::new(), used: None, newest: None }
    }

    /// Simulates one request, and returns its charge. Without a time, nothing in the cache expires.
    pub fn call(&mut self, blocks: &[Block], time: Option<Millis>) -> Charge {
        self.call_after(blocks, 0, time)
    }

    /// Simulates one request, of which the first `same` blocks are those of the request before. The cost is that of the
    /// others.
    pub(crate) fn call_after(&mut self, blocks: &[Block], same: usize, time: Option<Millis>) -> Charge {
        let before = self.last.len();
        let same = same.min(before);
        let (mut common, old) = (same, self.last.split_off(same));
        for block in blocks.iter().skip(same) {
            let (digest, tokens) = self.last.last().map_or((0, 0), |last| (last.digest, last.tokens));
            let prefix =
                Prefix { digest: chain(digest, block.digest), tokens: tokens + block.tokens, fixed: block.fixed };
            let is_same =
                common == self.last.len() && old.get(common - same).is_some_and(|old| old.digest == prefix.digest);
            common += usize::from(is_same);
            self.last.push(prefix);
        }
        self.leave(old.get(common - same..).unwrap_or_default());
        let hit = self.hit(common, time);
        let cold = hit.is_none() && self.had(common);
        let tokens = self.last.last().map_or(0, |last| last.tokens);
        let charge = Charge::new(&self.price, tokens, hit.map(|hit| hit.tokens));
        self.store(hit, time);
        Charge { breaks: before > 0 && common < before, cold, ..charge }
    }

    /// Keeps prefixes that the next request does not have, if every prefix is kept.
    fn leave(&mut self, gone: &[Prefix]) {
        if self.price.entries != Entries::Every {
            return;
        }
        for prefix in gone {
            match self.used {
                _ if self.price.cacheable(prefix.tokens) == 0 => {}
                Some(time) => self.keep(prefix.digest, time),
                None => drop(self.expired.insert(prefix.digest)),
            }
        }
    }

    /// Returns the longest prefix that is kept. The first `common` prefixes are also those of the request before.
    fn hit(&self, common: usize, time: Option<Millis>) -> Option<Prefix> {
        let (known, new) = self.last.split_at_checked(common)?;
        let is_kept =
            |prefix: &&Prefix| self.entries.get(&prefix.digest).is_some_and(|used| self.price.keeps(*used, time));
        let may_keep = self.newest.is_some_and(|used| self.price.keeps(used, time));
        let of_new = || new.iter().rev().find(is_kept).filter(|_| may_keep);
        let of_known = || match self.price.entries {
            Entries::Marked => known.iter().rev().find(is_kept).filter(|_| may_keep),
            Entries::Every => {
                let is_long = |prefix: &&Prefix| self.price.cacheable(prefix.tokens) > 0;
                let is_live = self.used.is_some_and(|used| self.price.keeps(used, time));
                known.last().filter(is_long).filter(|_| is_live)
            }
        };
        if may_keep || self.price.entries == Entries::Every { of_new().or_else(of_known).copied() } else { None }
    }

    /// Returns whether a prefix of the request was ever kept.
    fn had(&self, common: usize) -> bool {
        let had = |prefix: &Prefix| self.entries.contains_key(&prefix.digest) || self.expired.contains(&prefix.digest);
        let every = self.price.entries == Entries::Every;
        let mut prefixes = self.last.iter().enumerate();
        prefixes.any(|(at, prefix)| every && at < common && self.price.cacheable(prefix.tokens) > 0 || had(prefix))
    }

    /// Stores the prefixes of the last request that are kept, and the use of `hit`.
    fn store(&mut self, hit: Option<Prefix>, time: Option<Millis>) {
        self.used = Some(time);
        let marked = match self.price.entries {
            // They are kept as the prefixes of the last request.
            Entries::Every => Vec::new(),
            Entries::Marked => {
                let fixed = self.last.iter().take_while(|prefix| prefix.fixed).last();
                fixed.into_iter().chain(self.last.last()).copied().collect()
            }
        };
        for prefix in marked.into_iter().chain(hit) {
            if self.price.cacheable(prefix.tokens) > 0 {
                self.keep(prefix.digest, time);
            }
        }
    }

    /// Records the use of a prefix.
    fn keep(&mut self, prefix: u128, time: Option<Millis>) {
        self.entries.insert(prefix, time);
        let newest = self.newest.unwrap_or(time);
        self.newest = Some(newest.zip(time).map(|(newest, time)| newest.max(time)));
    }

    /// Lets everything in the cache expire now.
    pub fn expire(&mut self) {
        self.expired.extend(self.entries.drain().map(|(prefix, _)| prefix));
        (self.used, self.newest) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::Prices;
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngSeed};

    /// The same rules, with every prefix of every request.
    struct Plain {
        price: Price,
        entries: HashMap<u128, Option<Millis>>,
        had: HashSet<u128>,
        last: Option<u128>,
    }

    impl Plain {
        fn call(&mut self, blocks: &[Block], time: Option<Millis>) -> Charge {
            let (mut digest, mut tokens, mut prefixes) = (0, 0, Vec::new());
            for (index, block) in blocks.iter().enumerate() {
                (digest, tokens) = (chain(digest, block.digest), tokens + block.tokens);
                let ends_fixed = block.fixed && blocks.get(index + 1).is_none_or(|next| !next.fixed);
                let marked = self.price.entries == Entries::Every || ends_fixed || index + 1 == blocks.len();
                prefixes.push((digest, tokens, marked && self.price.cacheable(tokens) > 0));
            }
            let is_kept = |(prefix, ..): &&(u128, u64, bool)| {
                self.entries.get(prefix).is_some_and(|used| self.price.keeps(*used, time))
            };
            let hit = prefixes.iter().rev().find(is_kept).copied();
            let cold = hit.is_none() && prefixes.iter().any(|(prefix, ..)| self.had.contains(prefix));
            let breaks = self.last.is_some_and(|last| !prefixes.iter().any(|(prefix, ..)| *prefix == last));
            let charge = Charge::new(&self.price, tokens, hit.map(|(_, tokens, _)| tokens));
            let stored = prefixes.iter().filter(|(.., stored)| *stored).chain(&hit).map(|(prefix, ..)| *prefix);
            for prefix in stored {
                self.entries.insert(prefix, time);
                self.had.insert(prefix);
            }
            self.last = prefixes.last().map(|(prefix, ..)| *prefix);
            Charge { breaks, cold, ..charge }
        }
    }

    proptest! {
        #![proptest_config(Config { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..Config::default() })]

        #[test]
        fn a_call_costs_the_same_as_if_every_prefix_were_looked_at(
            steps in prop::collection::vec((0usize..12, prop::collection::vec((0u128..4, prop::sample::select(vec![0u64, 9, 700, 1_500, 5_000])), 0..4), 0i64..5_000, 0u8..20), 1..40),
            timed in any::<bool>(),
        ) {
            for name in Prices::builtin().names() {
                let price = Prices::builtin().find(name).unwrap().clone();
                let mut cache = Cache::new(price.clone());
                let mut plain = Plain { price, entries: HashMap::new(), had: HashSet::new(), last: None };
                let (mut blocks, mut now): (Vec<Block>, i64) = (Vec::new(), 0);
                for (gone, new, seconds, expires) in &steps {
                    let same = blocks.len().saturating_sub(gone / 2);
                    blocks.truncate(same);
                    for (digest, tokens) in new {
                        let leads = blocks.iter().all(|block| block.fixed) && *digest == 0;
                        blocks.push(Block::new(digest * 10_000 + u128::from(*tokens)).tokens(*tokens).fixed(leads));
                    }
                    now += seconds * 200;
                    let time = timed.then_some(now);
                    if *expires == 0 {
                        cache.expire();
                        plain.entries.clear();
                    }
                    prop_assert_eq!(cache.call_after(&blocks, same, time), plain.call(&blocks, time), "{}", name);
                }
            }
        }
    }

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

//! The prompt cache of a conversation that is sent whole at each call.
//!
//! Its requests usually grow only at the end, so simulating a call takes time for the new messages only.

use lookback_engine::transcript::Millis;

use super::Charge;
use crate::prices::{Entries, Price};

/// A request that grows from call to call, and the state of a [`Cache`](super::Cache) for it.
#[derive(Debug, Clone)]
pub struct Growing {
    price: Price,
    /// The tokens of the request.
    tokens: u64,
    /// The cached prefixes, by their tokens, with the time of their last use. If the cache keeps every prefix, only the
    /// longest is here.
    kept: Vec<(u64, Option<Millis>)>,
}

impl Growing {
    /// Creates an empty request, and an empty cache.
    pub fn new(price: Price) -> Self {
        Growing { price, tokens: 0, kept: Vec::new() }
    }

    /// Returns the tokens of the request.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Replaces everything after the first `prefix` tokens by `rest` tokens.
    pub fn change(&mut self, prefix: u64, rest: u64) {
        match self.price.entries {
            Entries::Every => self.kept.iter_mut().for_each(|(tokens, _)| *tokens = (*tokens).min(prefix)),
            Entries::Marked => self.kept.truncate(self.kept.partition_point(|(tokens, _)| *tokens <= prefix)),
        }
        self.tokens = prefix.saturating_add(rest);
    }

    /// Removes `by` tokens from the message that ends after the first `end` tokens. The client still sends the same
    /// bytes, so the cache keeps its prefixes: each one with that message gets smaller by as many tokens.
    pub fn shrink(&mut self, end: u64, by: u64) {
        let whole = self.kept.iter_mut().filter(|(tokens, _)| *tokens >= end);
        whole.for_each(|(tokens, _)| *tokens = tokens.saturating_sub(by));
        self.tokens = self.tokens.saturating_sub(by);
    }

    /// Simulates sending the request, with a marker after the first `fixed` tokens. Without a time, nothing in the
    /// cache expires.
    pub fn call(&mut self, fixed: u64, time: Option<Millis>) -> Charge {
        while self.kept.pop_if(|(_, used)| !self.price.keeps(*used, time)).is_some() {}
        let charge = Charge::new(&self.price, self.tokens, self.kept.last().map(|(tokens, _)| *tokens));
        if let Some((_, used)) = self.kept.last_mut() {
            *used = time;
        }
        match self.price.entries {
            Entries::Every => self.kept.clear(),
            Entries::Marked => self.store(fixed, time),
        }
        self.store(self.tokens, time);
        charge
    }

    /// Stores a prefix, if it is long enough.
    fn store(&mut self, tokens: u64, time: Option<Millis>) {
        if self.price.cacheable(tokens) == 0 {
            return;
        }
        let at = self.kept.partition_point(|(kept, _)| *kept < tokens);
        match self.kept.get_mut(at).filter(|(kept, _)| *kept == tokens) {
            Some((_, used)) => *used = time,
            None => self.kept.insert(at, (tokens, time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Block, Cache};
    use crate::prices::Prices;

    /// Steps of a conversation: the number of blocks that stay, the tokens of the new ones, and the seconds since the
    /// previous step.
    const STEPS: [(usize, &[u64], i64); 10] = [
        (0, &[900, 700, 300], 0),
        (3, &[40, 2_000], 10),
        (5, &[1_500], 200),
        // A branch, and a return to blocks that only the first call had.
        (4, &[600, 600], 20),
        (2, &[5_000], 20),
        (3, &[], 20),
        // Cold, and warm again.
        (3, &[100], 4_000),
        (4, &[1], 30),
        // A prefix that is too short for any cache.
        (1, &[10], 1),
        (2, &[9_000], 100_000),
    ];

    #[test]
    fn it_charges_what_a_cache_charges_for_the_whole_request() {
        for name in Prices::builtin().names() {
            let price = Prices::builtin().find(name).unwrap().clone();
            for timed in [true, false] {
                let (mut whole, mut growing) = (Cache::new(price.clone()), Growing::new(price.clone()));
                let (mut blocks, mut digest, mut now): (Vec<Block>, u128, i64) = (Vec::new(), 0, 0);
                for (number, (stay, new, seconds)) in STEPS.into_iter().enumerate() {
                    blocks.truncate(stay);
                    let prefix: u64 = blocks.iter().map(|block| block.tokens).sum();
                    for tokens in new {
                        digest += 1;
                        blocks.push(Block::new(digest).tokens(*tokens).fixed(blocks.is_empty()));
                    }
                    growing.change(prefix, new.iter().sum());
                    now += seconds * 1_000;
                    let time = timed.then_some(now);
                    let expected = Charge { breaks: false, cold: false, ..whole.call(&blocks, time) };
                    assert_eq!(growing.call(blocks[0].tokens, time), expected, "{name}, step {number}");
                }
            }
        }
    }
}

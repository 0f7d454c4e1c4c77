//! Simulated prompt caches of the providers, with the simulation of `lookback replay`.

use std::collections::HashMap;

use lookback_engine::Settings;
use lookback_replay::cache::{Block, Cache};
use lookback_replay::prices::Prices;
use lookback_tokens::measure;
use lookback_wire::{
    dialect::{Dialect, Request},
    message::Message,
};

use crate::model::Usage;

/// The caches, by the name of the price that defines how they work.
#[derive(Debug, Default)]
pub(crate) struct Caches(HashMap<&'static str, Cache>);

impl Caches {
    /// Counts the tokens of a request, and those of them that are read from or written to the cache.
    pub(crate) fn count(&mut self, request: &Request, settings: &Settings) -> Usage {
        let blocks = blocks(request, settings);
        let name = match request.dialect() {
            Dialect::Anthropic => "anthropic-5m",
            Dialect::Gemini => "gemini",
            _ => "openai-4o",
        };
        let price = Prices::builtin().find(name).cloned();
        let Some(price) = price else { panic!("the price {name} is in the table") };
        let charge = self.0.entry(name).or_insert_with(|| Cache::new(price)).call(&blocks, None);
        Usage { input: charge.sent(), cached: charge.read, written: charge.written, output: 0 }
    }
}

/// Returns the units of a request that a provider's cache distinguishes: the system prompt, the tools, and each
/// message.
pub fn blocks(request: &Request, settings: &Settings) -> Vec<Block> {
    let preamble = request.preamble();
    let fixed = [&preamble.system, &preamble.tools].into_iter().flatten().map(|raw| {
        let tokens = settings.counter.text(raw.get());
        Block::new(digest(raw.get())).tokens(tokens).fixed(true)
    });
    let said = request.messages().iter().map(|message| {
        let raw = message.wire().map_or("", |wire| wire.raw.get());
        Block::new(digest(raw)).tokens(measure(message, &[], &*settings.counter).tokens)
    });
    fixed.chain(said).collect()
}

fn digest(text: &str) -> u128 {
    Message::user(text).digest()
}

//! A view as blocks for the simulated prompt cache.

use lookback_engine::view::{Item, View, chain};
use lookback_wire::dialect::Preamble;
use lookback_wire::message::Role;
use xxhash_rust::xxh3::xxh3_128;

use super::Block;

/// Returns the blocks of a view: the preamble, then one block per message. The digest of a message is computed from its
/// position and its edits, which determine its bytes.
pub fn blocks(view: &View) -> Vec<Block> {
    let items = view.messages().map(|item| item.size().tokens).fold(0, u64::saturating_add);
    let preamble = view.totals().size.tokens.saturating_sub(items);
    let mut blocks = Vec::new();
    if preamble > 0 {
        blocks.push(Block::new(view.preamble().map_or(u128::MAX, digest)).tokens(preamble).fixed(true));
    }
    let mut leading = true;
    for item in view.messages() {
        leading &= item.message().role() == Role::System;
        blocks.push(Block::new(shown_as(item)).tokens(item.size().tokens).fixed(leading));
    }
    blocks
}

/// Returns the digest of a message as shown.
pub(crate) fn shown_as(item: &Item) -> u128 {
    if item.is_own() {
        // In a window that is not recorded, a different stand-in may have had this position before.
        return item.message().digest();
    }
    let position = u128::from(item.position());
    if item.edits().is_empty() {
        return position;
    }
    let edits = serde_json::to_vec(item.edits()).unwrap_or_default();
    chain(position, xxh3_128(&edits))
}

/// Returns the digest of a preamble.
fn digest(preamble: &Preamble) -> u128 {
    let parts = [&preamble.system, &preamble.tools];
    parts.into_iter().map(|part| part.as_ref().map_or(0, |raw| xxh3_128(raw.get().as_bytes()))).fold(u128::MAX, chain)
}

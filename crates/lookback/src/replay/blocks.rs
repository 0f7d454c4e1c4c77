//! A window as blocks, of which a prompt cache knows whether it has them, and the tokens that a recording lacks.

use lookback_core::measure;
use lookback_core::message::Role;
use lookback_core::tokens::TokenCounter;
use lookback_core::view::Item;

use crate::cache::Block;
use crate::recording::Recording;
use crate::session::Window;

/// Returns the blocks that a cache sees of a window: the preamble, then message by message. The digest of a message is
/// made of its position and its edits, which determine its bytes. The digest of the preamble is [`u128::MAX`].
pub fn blocks(window: &Window<'_>) -> Vec<Block> {
    let view = window.view();
    let items = view.messages().map(|item| item.size().tokens).sum::<u64>();
    let preamble = view.totals().size.tokens - items;
    let mut blocks = Vec::new();
    if preamble > 0 {
        blocks.push(Block::new(u128::MAX).tokens(preamble).fixed(true));
    }
    let mut leading = true;
    for item in view.messages() {
        leading &= item.message().role() == Role::System;
        blocks.push(Block::new(shown_as(item)).tokens(item.size().tokens).fixed(leading));
    }
    blocks
}

/// The digest of a message as it is shown.
pub(super) fn shown_as(item: &Item) -> u128 {
    if item.is_own() {
        // If nothing is recorded, another stand-in may have had this position.
        return item.message().digest();
    }
    let position = u128::from(item.position());
    if item.edits().is_empty() {
        return position;
    }
    let edits = serde_json::to_vec(item.edits()).unwrap_or_default();
    lookback_core::view::chain(
        position,
        edits.iter().fold(0, |hash: u128, byte| {
            hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B) ^ u128::from(*byte)
        }),
    )
}

/// Estimates the tokens of a system prompt and tools that were not recorded: what the provider reported for the first
/// call, minus the messages before it.
///
/// Returns `None` if the recording contains them, or if nothing was reported.
///
/// ```
/// use lookback::{Recording, replay, tokens::Estimate};
///
/// let text = r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}],
///     "usage":[{"message":1,"input":3,"cache_write":8000,"cache_read":0,"output":2}]}"#;
/// let recordings = Recording::read(text, "chat", None)?;
/// let unrecorded = replay::unrecorded(&recordings[0], &Estimate::default());
/// assert!(unrecorded.is_some_and(|tokens| (7_990..8_003).contains(&tokens)));
/// # Ok::<(), lookback::recording::RecordingError>(())
/// ```
pub fn unrecorded(recording: &Recording, counter: &dyn TokenCounter) -> Option<u64> {
    let first = recording.usage.iter().min_by_key(|usage| usage.message)?;
    if recording.preamble.system.is_some() || recording.preamble.tools.is_some() {
        return None;
    }
    let before = recording.messages.iter().take(first.message);
    let messages = before.map(|recorded| measure(&recorded.message, &[], counter).tokens).fold(0, u64::saturating_add);
    first.sent().checked_sub(messages).filter(|tokens| *tokens > 0)
}

/// Puts a block for the unrecorded tokens before the others.
pub(super) fn with_unrecorded(tokens: u64, blocks: Vec<Block>) -> Vec<Block> {
    let unrecorded = (tokens > 0).then_some(Block::new(u128::MAX - 1).tokens(tokens).fixed(true));
    unrecorded.into_iter().chain(blocks).collect()
}

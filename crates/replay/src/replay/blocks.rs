//! A window as blocks for the prompt cache, and the tokens of a preamble that a recording lacks.

use lookback_tokens::TokenCounter;
use lookback_tokens::measure;

use crate::cache;
use crate::cache::Block;
use lookback_recordings::Recording;
use lookback_session::Window;

/// Returns the blocks of a window: the preamble, then one block per message.
pub fn blocks(window: &Window<'_>) -> Vec<Block> {
    cache::blocks(window.view())
}

/// Estimates the tokens of a system prompt and tools that were not recorded: the reported tokens of the first call,
/// minus the messages before it.
///
/// Returns `None` if the recording contains them, or if nothing was reported.
///
/// ```
/// use lookback_recordings::Recording;
/// use lookback_replay::replay;
/// use lookback_tokens::Estimate;
///
/// let text = r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}],
///     "usage":[{"message":1,"input":3,"cache_write":8000,"cache_read":0,"output":2}]}"#;
/// let recordings = Recording::read(text, "chat", None)?;
/// let unrecorded = replay::unrecorded(&recordings[0], &Estimate::default());
/// assert!(unrecorded.is_some_and(|tokens| (7_990..8_003).contains(&tokens)));
/// # Ok::<(), lookback_recordings::RecordingError>(())
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

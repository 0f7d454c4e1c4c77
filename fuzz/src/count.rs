//! Lookback's token counts equal tiktoken's.

use std::sync::LazyLock;

use lookback_tokens::Vocabulary;
use tiktoken::CoreBpe;
use tiktoken::encoding::{cl100k_base, o200k_base};

static O200K: LazyLock<CoreBpe> = LazyLock::new(o200k_base);
static CL100K: LazyLock<CoreBpe> = LazyLock::new(cl100k_base);

/// Checks a text: the first byte says how often to repeat the text in the others. Long unbroken stretches are the hard
/// case.
pub fn count(data: &[u8]) {
    let Some((times, text)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    // The text is bounded, because tiktoken takes quadratic time.
    let times = (usize::from(*times) + 1).min(1 + 8_000 / text.len().max(1));
    let text = text.repeat(times);
    // tiktoken 4.1.2 overlooks this contraction.
    if text.len() > 100_000 || text.contains("'ſ") {
        return;
    }
    assert_eq!(Vocabulary::O200k.count(&text), O200K.count(&text) as u64, "o200k: {text:?}");
    assert_eq!(Vocabulary::Cl100k.count(&text), CL100K.count(&text) as u64, "cl100k: {text:?}");
}

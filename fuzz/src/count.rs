//! Our token counts are tiktoken's own.

use std::sync::LazyLock;

use lookback_core::tokens::Vocabulary;
use tiktoken::CoreBpe;
use tiktoken::encoding::{cl100k_base, o200k_base};

static O200K: LazyLock<CoreBpe> = LazyLock::new(o200k_base);
static CL100K: LazyLock<CoreBpe> = LazyLock::new(cl100k_base);

/// Takes the first byte as how often to repeat the text that the others are: what is hard are long unbroken stretches.
pub fn count(data: &[u8]) {
    let Some((times, text)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    // tiktoken takes quadratic time, so what it is asked is bounded.
    let times = (usize::from(*times) + 1).min(1 + 8_000 / text.len().max(1));
    let text = text.repeat(times);
    // A contraction that tiktoken 4.1.2 overlooks.
    if text.len() > 100_000 || text.contains("'ſ") {
        return;
    }
    assert_eq!(Vocabulary::O200k.count(&text), O200K.count(&text) as u64, "o200k: {text:?}");
    assert_eq!(Vocabulary::Cl100k.count(&text), CL100K.count(&text) as u64, "cl100k: {text:?}");
}

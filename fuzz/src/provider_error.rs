//! Any error is read without a panic, its rule belongs to the dialect, and differences in how errors are printed do
//! not matter.

use std::mem::discriminant;

use lookback_wire::dialect::{Dialect, ProviderError};
use lookback_wire::size::Measure;

const STATUSES: [Option<u16>; 8] = [None, Some(200), Some(400), Some(401), Some(404), Some(413), Some(429), Some(500)];

/// Checks an error: the first byte gives the status, and the others are the text.
pub fn provider_error(data: &[u8]) {
    let Some((status, text)) = data.split_first() else { return };
    let status = STATUSES[usize::from(*status) % STATUSES.len()];
    let text = String::from_utf8_lossy(text);
    for dialect in Dialect::ALL {
        let found = dialect.provider_error(status, &text);
        match &found {
            ProviderError::TooLong(long) => {
                assert!(matches!(long.measure, Measure::Tokens | Measure::Bytes | Measure::Media));
                assert!(long.room() <= long.limit);
                assert!(long.to_string().starts_with("the request is too long"));
            }
            ProviderError::Malformed { rule: Some(rule) } => {
                assert!(dialect.rules().iter().any(|known| known.id == *rule));
            }
            _ => {}
        }
        if matches!(status, Some(401 | 429)) {
            assert_eq!(found, ProviderError::Other);
        }
        // Escapes can be spelled in several ways.
        if text.contains('\\') || text.len() > 16_000 {
            continue;
        }
        assert_eq!(dialect.provider_error(status, &text.to_ascii_uppercase()), found, "in capitals: {text:?}");
        let spaced: String = text.chars().flat_map(|c| [c, ' ']).collect();
        assert_eq!(dialect.provider_error(status, &spaced), found, "spaced: {text:?}");
        // A wrapping escapes rare control characters, and that is not undone.
        if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
            continue;
        }
        let wrapped = serde_json::json!({"error": {"message": text, "code": null}}).to_string();
        let inside = dialect.provider_error(status, &wrapped);
        assert_eq!(discriminant(&inside), discriminant(&found), "wrapped: {wrapped}");
    }
}

//! Halves of surrogate pairs in JSON, which JavaScript leaves when it cuts an emoji in two.

/// The JSON escape that replaces half of a pair. Both have the same length.
const REPLACEMENT: &str = "\\ufffd";

/// Returns JSON with each half of a pair replaced by U+FFFD, or `None` if there is none.
pub fn replaced(json: &str) -> Option<String> {
    let mut halves = halves(json).peekable();
    halves.peek()?;
    let mut text = json.to_owned();
    halves.for_each(|at| text.replace_range(at..at + REPLACEMENT.len(), REPLACEMENT));
    Some(text)
}

/// Returns whether JSON has half of a pair.
pub fn has_halves(json: &str) -> bool {
    halves(json).next().is_some()
}

/// Returns the offsets of escapes of surrogates without their other half.
fn halves(json: &str) -> impl Iterator<Item = usize> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(next) = json.get(at..).and_then(|rest| rest.find('\\')).map(|next| at + next) {
            let unit = unit(json, next);
            at = match unit {
                Some(0xd800..=0xdbff) if unit_is_low(json, next + 6) => next + 12,
                Some(_) => next + 6,
                // Another escape, such as of a backslash.
                None => next + 2,
            };
            if matches!(unit, Some(0xd800..=0xdfff)) && at == next + 6 {
                return Some(next);
            }
        }
        None
    })
}

fn unit_is_low(json: &str, at: usize) -> bool {
    unit(json, at).is_some_and(|low| (0xdc00..=0xdfff).contains(&low))
}

/// Reads an escape such as `\ud83d`. Returns `None` if there is none at this place.
fn unit(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_without_their_other_half_are_replaced() {
        for (before, after) in [
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#""\ude00\uD83D\uD83D\uDE00""#, r#""\ufffd\ufffd\uD83D\uDE00""#),
            (r#""\ud83d\n\ude00""#, r#""\ufffd\n\ufffd""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\u00e9 \ud7ff""#, r#""\u00e9 \ud7ff""#),
        ] {
            assert_eq!(replaced(before).unwrap_or_else(|| before.to_owned()), after);
            assert_eq!(has_halves(before), before != after);
        }
    }
}

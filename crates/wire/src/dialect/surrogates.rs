//! Replaces halves of surrogate pairs, which JavaScript leaves when it cuts an emoji in two, and which providers
//! refuse.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Finding, Mend, Mended, Place, ProblemKind, Rule, Shown};
use crate::message::Message;

/// The JSON escape that replaces half of a pair. Both have the same length.
const REPLACEMENT: &str = "\\ufffd";

/// Returns JSON with each half of a pair replaced by U+FFFD, or `None` if there is none.
fn replaced(raw: &RawValue) -> Option<Box<RawValue>> {
    let halves = halves(raw.get());
    if halves.is_empty() {
        return None;
    }
    let mut text = raw.get().to_owned();
    halves.into_iter().for_each(|at| text.replace_range(at..at + REPLACEMENT.len(), REPLACEMENT));
    RawValue::from_string(text).ok()
}

/// Returns the offsets of escapes of surrogates without their other half.
fn halves(json: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = json.get(at..).and_then(|rest| rest.find('\\')).map(|next| at + next) {
        at = match unit(json, next) {
            Some(0xd800..=0xdbff) if unit(json, next + 6).is_some_and(|low| (0xdc00..=0xdfff).contains(&low)) => {
                next + 12
            }
            Some(0xd800..=0xdfff) => {
                found.push(next);
                next + 6
            }
            Some(_) => next + 6,
            // Another escape, such as of a backslash.
            None => next + 2,
        };
    }
    found
}

/// Reads an escape such as `\ud83d`. Returns `None` if there is none at this place.
fn unit(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

/// Replaces the halves of pairs in outgoing messages.
pub(super) fn replace(messages: &mut [Cow<'_, RawValue>]) {
    for message in messages.iter_mut().filter(|message| may_have(message)) {
        if let Some(replaced) = replaced(message) {
            *message = Cow::Owned(replaced);
        }
    }
}

/// Lists the messages in which halves of pairs are replaced.
pub(super) fn mends(shown: &[Shown<'_>]) -> Vec<Mended> {
    let has_halves = |shown: &Shown<'_>| {
        shown.message.wire().is_some_and(|wire| may_have(&wire.raw) && !halves(wire.raw.get()).is_empty())
    };
    let found = shown.iter().enumerate().filter(|(_, shown)| has_halves(shown));
    found.map(|(index, _)| Mend::HalvesReplaced.at(index)).collect()
}

/// Finds the messages with halves of pairs. `list` is the member of the body that has them.
pub(super) fn check(rule: Rule, list: &str, messages: &[Message]) -> Vec<Finding> {
    let has_halves = |place: &Place<'_>| {
        let raw = place.message.wire().map(|wire| &*wire.raw);
        raw.is_some_and(|raw| may_have(raw) && !halves(raw.get()).is_empty())
    };
    let found = Place::all(messages).filter(has_halves);
    found.map(|place| rule.at(place.index, format!("{list}[{}]", place.element), ProblemKind::LoneSurrogate)).collect()
}

/// Returns whether JSON may have half of a pair. Most messages have no such escape.
fn may_have(raw: &RawValue) -> bool {
    raw.get().contains("\\ud") || raw.get().contains("\\uD")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(json: &str) -> String {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        replaced(&raw).map_or_else(|| json.to_owned(), |raw| raw.get().to_owned())
    }

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
            assert_eq!(sent(before), after);
        }
    }
}

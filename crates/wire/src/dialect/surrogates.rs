//! Replaces halves of surrogate pairs, which providers refuse, in outgoing messages.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Finding, Mend, Mended, Place, ProblemKind, Rule, Shown};
use crate::message::Message;
use lookback_content::surrogates::{has_halves, replaced};

/// Replaces the halves of pairs in outgoing messages.
pub(super) fn replace(messages: &mut [Cow<'_, RawValue>]) {
    for message in messages {
        if let Some(replaced) = replaced(message.get()).and_then(|json| RawValue::from_string(json).ok()) {
            *message = Cow::Owned(replaced);
        }
    }
}

/// Lists the messages in which halves of pairs are replaced.
pub(super) fn mends(shown: &[Shown<'_>]) -> Vec<Mended> {
    let found = shown.iter().enumerate().filter(|(_, shown)| are_in(shown.message));
    found.map(|(index, _)| Mend::HalvesReplaced.at(index)).collect()
}

/// Finds the messages with halves of pairs. `list` is the member of the body that has them.
pub(super) fn check(rule: Rule, list: &str, messages: &[Message]) -> Vec<Finding> {
    let found = Place::all(messages).filter(|place| are_in(place.message));
    found.map(|place| rule.at(place.index, format!("{list}[{}]", place.element), ProblemKind::LoneSurrogate)).collect()
}

fn are_in(message: &Message) -> bool {
    message.wire().is_some_and(|wire| has_halves(wire.raw.get()))
}

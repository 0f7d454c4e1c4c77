//! Signed reasoning, which is bound to its original prefix: finds reasoning whose prefix has changed since the previous
//! request.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use super::{Dialect, Finding, Place, Preamble, ProblemKind, Rule};
use crate::cache_marker;
use crate::message::{Message, PartRef};

/// Signed reasoning in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signed {
    signature: String,
    /// The digest of everything before its message, except for reasoning, because clients may leave out the oldest
    /// reasoning.
    prefix: u128,
    /// The signature of the previous reasoning.
    before: Option<String>,
}

/// Returns the signed reasoning of a request, each with its place.
pub(super) fn all<'a>(
    dialect: Dialect,
    preamble: &Preamble,
    messages: &'a [Message],
) -> Vec<(Place<'a>, usize, Signed)> {
    let mut prefix = Xxh3::new();
    for part in [&preamble.system, &preamble.tools] {
        prefix.update(part.as_deref().map(unmarked).unwrap_or_default().as_bytes());
        prefix.update(&[0]);
    }
    let fixed = prefix.clone();
    let compactions = dialect.quirks().compactions;
    let mut before: Option<String> = None;
    let mut found: Vec<(Place<'a>, usize, Signed)> = Vec::new();
    for place in Place::all(messages) {
        // The provider ignores everything before a compaction.
        let is_compaction =
            |part: PartRef<'_>| matches!(part, PartRef::Opaque(opaque) if compactions.contains(&&*opaque.kind));
        if place.message.parts().any(is_compaction) {
            prefix = fixed.clone();
            before = None;
        }
        for (part, value) in place.message.parts().enumerate() {
            if let PartRef::Reasoning(reasoning) = value
                && let Some(signature) = &reasoning.signature
            {
                let before = before.replace(signature.clone());
                let signed = Signed { signature: signature.clone(), prefix: prefix.digest128(), before };
                found.push((place, part, signed));
            }
        }
        prefix.update(&place.message.digest().to_le_bytes());
    }
    found
}

/// Returns a system prompt or a list of tools without cache markers, because clients move markers.
fn unmarked(raw: &RawValue) -> String {
    let mut value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    value.as_array_mut().into_iter().flatten().for_each(cache_marker::remove_marker);
    value.to_string()
}

/// Finds reasoning whose prefix differs from the previous request.
pub(super) fn check(
    rule: Rule,
    dialect: Dialect,
    now: Vec<(Place<'_>, usize, Signed)>,
    previous: &[Signed],
) -> Vec<Finding> {
    let known: HashMap<&str, &Signed> = previous.iter().map(|signed| (&*signed.signature, signed)).collect();
    let fault = |(place, part, signed): (Place<'_>, usize, Signed)| {
        let was = known.get(&*signed.signature)?;
        let problem = if was.prefix != signed.prefix {
            ProblemKind::ChangedPrefix
        } else if signed.before.is_some() && was.before != signed.before {
            ProblemKind::BrokenChain
        } else {
            return None;
        };
        Some(rule.at(place.index, dialect.path(&place, part), problem))
    };
    now.into_iter().filter_map(fault).collect()
}

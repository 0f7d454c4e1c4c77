//! The members of items that a server refuses, and how each is mended.

use std::collections::HashSet;

use super::item;
use crate::dialect::{Finding, ProblemKind, Rule, Target};
use lookback_content::json::{self, Fields};
use lookback_models::Provider;

pub(super) const OR6: Rule =
    Rule::refused("OR6", "the identifiers of items are unique and, at OpenAI, begin with the prefix of their type");
pub(super) const OR7: Rule = Rule::refused("OR7", "reasoning has a `summary`, and no `status` of null");
pub(super) const OR14: Rule = Rule::refused(
    "OR14",
    "texts of the assistant are `output_text`, and those of the user and of the system `input_text`",
);

/// A member of an item that the provider refuses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fault {
    /// Another item has the same identifier.
    SameId,
    /// The identifier has another prefix than its type demands.
    IdPrefix,
    /// The `status` of reasoning is null, which is allowed in other items.
    NullStatus,
    /// Reasoning has no `summary`.
    NoSummary,
    /// The text of a message has the type of another role, or of another format.
    TextType,
}

impl Fault {
    pub(super) fn mend(self, fields: &mut Fields<'_>) {
        match self {
            Fault::SameId | Fault::IdPrefix => fields.remove("id"),
            Fault::NullStatus => fields.remove("status"),
            Fault::NoSummary => fields.set("summary", json::write_array([])),
            Fault::TextType => item::mend_texts(fields),
        }
    }

    /// Returns the rule that the fault breaks, if it applies to the target.
    pub(super) fn rule(self, target: &Target) -> Option<Rule> {
        match self {
            Fault::IdPrefix => OR6.if_known(target.is(Provider::OpenAi)),
            Fault::SameId => OR6.if_known(target.is_original(Provider::OpenAi)),
            Fault::TextType => OR14.if_known(target.is_original(Provider::OpenAi)),
            Fault::NullStatus | Fault::NoSummary => OR7.if_known(target.is_original(Provider::OpenAi)),
        }
    }

    pub(super) fn finding(self, target: &Target, index: usize, path: &str, id: &str) -> Option<Finding> {
        let (id, at) = (id.to_owned(), |member: &str| format!("{path}.{member}"));
        let (member, problem) = match self {
            Fault::SameId => ("id", ProblemKind::DuplicateId { id }),
            Fault::IdPrefix => ("id", ProblemKind::BadId { id }),
            Fault::NullStatus => ("status", ProblemKind::NullMember),
            Fault::NoSummary => ("summary", ProblemKind::MissingMember),
            Fault::TextType => ("content", ProblemKind::TextType),
        };
        Some(self.rule(target)?.at(index, at(member), problem))
    }
}

/// The prefixes that the provider is known to demand for identifiers of items.
const PREFIXES: [(&str, &str); 3] = [("message", "msg"), ("function_call", "fc"), ("reasoning", "rs")];

/// Returns the members of an item that the provider refuses. `seen` has the identifiers of the earlier items.
pub(super) fn faults(fields: &Fields<'_>, seen: &mut HashSet<String>) -> Vec<Fault> {
    let kind = item::kind(fields);
    let mut faults = Vec::new();
    // The identifiers of these items name other items.
    let names_other = [item::REFERENCE, item::LOCAL_SHELL_OUTPUT].contains(&&*kind);
    if !names_other && let Some(id) = fields.text("id") {
        let prefix = PREFIXES.iter().find(|(known, _)| *known == kind).map(|(_, prefix)| *prefix);
        if prefix.is_some_and(|prefix| !id.starts_with(prefix)) {
            faults.push(Fault::IdPrefix);
        } else if !seen.insert(id.into_owned()) {
            faults.push(Fault::SameId);
        }
    }
    if kind == item::REASONING && fields.get("status").is_some_and(|status| status.get() == "null") {
        faults.push(Fault::NullStatus);
    }
    if kind == item::REASONING && fields.get("summary").is_none() {
        faults.push(Fault::NoSummary);
    }
    if item::has_other_texts(fields) {
        faults.push(Fault::TextType);
    }
    faults
}

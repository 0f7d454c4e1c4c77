//! The six kinds of facts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Scope;

/// The kinds of facts, in the order in which a fact sheet shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FactKind {
    /// A belief was wrong, and this is true instead.
    Correction,
    /// A rule that must hold in any case.
    Constraint,
    /// A problem that prevents progress until it is resolved.
    Blocker,
    /// How someone wants things done.
    Preference,
    /// A decision.
    Decision,
    /// A finding.
    Finding,
}

impl FactKind {
    /// All kinds, in the order of a fact sheet.
    pub const ALL: [FactKind; 6] = [
        FactKind::Correction,
        FactKind::Constraint,
        FactKind::Blocker,
        FactKind::Preference,
        FactKind::Decision,
        FactKind::Finding,
    ];

    /// Returns whether facts of this kind are protected: a fact sheet leaves out everything else before it leaves out
    /// one of them.
    #[doc(hidden)]
    pub fn is_protected(self) -> bool {
        match self {
            FactKind::Correction | FactKind::Constraint | FactKind::Blocker => true,
            FactKind::Preference | FactKind::Decision | FactKind::Finding => false,
        }
    }

    /// Returns the scope that facts of this kind have unless you choose another: preferences and constraints are shared
    /// with the workspace, all others belong to the session.
    pub fn default_scope(self) -> Scope {
        match self {
            FactKind::Preference | FactKind::Constraint => Scope::Shared,
            FactKind::Correction | FactKind::Blocker | FactKind::Decision | FactKind::Finding => Scope::Session,
        }
    }

    /// Returns the name, such as `finding`.
    pub fn name(self) -> &'static str {
        match self {
            FactKind::Correction => "correction",
            FactKind::Constraint => "constraint",
            FactKind::Blocker => "blocker",
            FactKind::Preference => "preference",
            FactKind::Decision => "decision",
            FactKind::Finding => "finding",
        }
    }

    /// Returns the index in [`FactKind::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for FactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FactKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        FactKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownKind { name: name.to_owned() })
    }
}

/// The error for an unknown kind of fact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of fact `{name}`; use correction, constraint, blocker, preference, decision or finding")]
pub struct UnknownKind {
    /// The name that was given.
    pub(crate) name: String,
}

//! The tools that a request declares. Requests of a line have the same tools, or gain some, or those of another mode.

use std::sync::Arc;

use lookback_facts::tools::Tool;
use lookback_wire::dialect::Preamble;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

/// The names of a request's tools, and the hash of their whole declaration.
#[derive(Debug, Clone, Default)]
pub(super) struct Tools {
    pub(super) hash: u64,
    pub(super) names: Arc<[String]>,
}

impl Tools {
    pub(super) fn from_preamble(preamble: &Preamble) -> Tools {
        Tools { hash: Tools::hash(preamble), names: preamble.tool_names().into() }
    }

    /// Returns the hash of a request's declaration of tools, without parsing the names.
    pub(super) fn hash(preamble: &Preamble) -> u64 {
        xxh3_64(preamble.tools.as_deref().map_or("", RawValue::get).as_bytes())
    }

    /// Returns whether others have all of these tools.
    pub(super) fn is_part_of(&self, other: &Tools) -> bool {
        self.hash == other.hash || self.names.iter().all(|name| other.names.binary_search(name).is_ok())
    }

    /// Returns whether a client could offer both in the same conversation: it has gained tools, or is in another mode,
    /// such as for planning in place of acting. Then more than half of the larger set is in both.
    pub(super) fn are_alike(&self, other: &Tools) -> bool {
        let both = self.names.iter().filter(|name| other.names.binary_search(name).is_ok()).count();
        self.is_part_of(other) || 2 * both > self.names.len().max(other.names.len())
    }

    /// Returns the tools without some of them.
    pub(super) fn without(self, some: &[Tool]) -> Tools {
        let stays = |name: &&String| some.iter().all(|tool| tool.name != **name);
        Tools { names: self.names.iter().filter(stays).cloned().collect(), ..self }
    }
}

/// Returns whether the request declares tools.
pub(super) fn has_tools(preamble: &Preamble) -> bool {
    preamble.tools.as_deref().is_some_and(|tools| !matches!(tools.get(), "[]" | "null"))
}

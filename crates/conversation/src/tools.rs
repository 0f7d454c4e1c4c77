//! The tools that a request declares. Requests of a line have the same tools, or gain some.

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

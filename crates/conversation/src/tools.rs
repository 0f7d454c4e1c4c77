//! The tools that a request declares. Requests of a line have the same tools, or gain some.

use std::sync::Arc;

use lookback_facts::tools::Tool;
use lookback_wire::dialect::Preamble;
use serde::Deserialize;
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
        Tools { hash: Tools::hash(preamble), names: tool_names(preamble).into() }
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

/// Returns the names of the tools that a request declares, in alphabetical order.
///
/// Lines are compared by names, because descriptions and the order may change during a conversation.
pub fn tool_names(preamble: &Preamble) -> Vec<String> {
    #[derive(Deserialize)]
    struct Tool<'a> {
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        function: Option<Function>,
        #[serde(default, rename = "type")]
        kind: Option<String>,
        #[serde(borrow, default, rename = "functionDeclarations", alias = "function_declarations")]
        declared: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Function {
        name: String,
    }
    fn names(raw: &RawValue) -> Vec<String> {
        let Ok(tool) = serde_json::from_str::<Tool<'_>>(raw.get()) else { return Vec::new() };
        let own = tool.name.or(tool.function.map(|function| function.name)).or(tool.kind);
        own.into_iter().chain(tool.declared.into_iter().flat_map(names)).collect()
    }
    let tools = preamble.tools.as_deref().map(RawValue::get).unwrap_or("[]");
    let tools: Vec<&RawValue> = serde_json::from_str(tools).unwrap_or_default();
    let mut names: Vec<String> = tools.into_iter().flat_map(names).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use lookback_wire::dialect::RawRequest;

    use super::*;

    #[test]
    fn tools_are_known_by_their_names() {
        let names = |body: &str| tool_names(&RawRequest::read(body, None).unwrap().preamble());
        let chat = r#"{"tools":[{"type":"function","function":{"name":"b"}},{"type":"function","function":{"name":"a"}}],"messages":[]}"#;
        assert_eq!(names(chat), ["a", "b"]);
        let responses = r#"{"tools":[{"type":"function","name":"a"},{"type":"web_search"}],"input":"Hi"}"#;
        assert_eq!(names(responses), ["a", "web_search"]);
        let gemini = r#"{"tools":[{"functionDeclarations":[{"name":"a"},{"name":"b"}]}],"contents":[]}"#;
        assert_eq!(names(gemini), ["a", "b"]);
        assert!(names(r#"{"messages":[]}"#).is_empty());
    }
}

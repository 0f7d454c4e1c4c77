//! The preamble of a request: the system prompt and the tools, if they are sent outside the messages.

use lookback_content::Redacted;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use super::Dialect;
use crate::cache_marker;
use lookback_content::json::{self, Fields};

/// The system prompt and the tools, if they are sent outside the messages, and settings of the answer that cost tokens.
///
/// The model reads them first. They cost tokens, and are never dropped.
#[derive(derive_more::Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Preamble {
    /// The system prompt, if the dialect has it outside the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[debug("{:?}", Redacted(system))]
    pub system: Option<Box<RawValue>>,
    /// The tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[debug("{:?}", Redacted(tools))]
    pub tools: Option<Box<RawValue>>,
    /// The JSON schema that answers must follow. Providers show it to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[debug(skip)]
    pub form: Option<Box<RawValue>>,
    /// Whether the request asks the model to reason. Some providers add tokens for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[debug(skip)]
    pub thinks: bool,
}

impl Preamble {
    /// Reads the preamble from a request body. `member` returns a member of the body by its name.
    ///
    /// `dialect` determines the names of the members. The preamble has no system prompt if the dialect has it among the
    /// messages.
    pub fn from_body(dialect: Dialect, member: impl Fn(&str) -> Option<Box<RawValue>>) -> Self {
        let format = dialect.format();
        // Protocol buffers spell some members differently.
        let spelled = |name: &str| member(name).or_else(|| member(&in_snake_case(name)));
        let form = format.answer_forms.iter().find_map(|(name, _)| schema(&spelled(name)?, DEEPEST));
        let thinks = format.thinking.iter().any(|name| member(name).is_some_and(|raw| thinks(&raw, DEEPEST)));
        Preamble { system: format.system.and_then(spelled), tools: spelled(format.tools), form, thinks }
    }

    /// Returns the members of a request body with the system prompt and the tools: the reverse of
    /// [`Preamble::from_body`].
    pub fn in_body(&self, dialect: Dialect) -> impl Iterator<Item = (&'static str, &RawValue)> {
        let format = dialect.format();
        let system = format.system.zip(self.system.as_deref());
        system.into_iter().chain(self.tools.as_deref().map(|tools| (format.tools, tools)))
    }

    /// Sets the system prompt, as JSON in the dialect's format.
    #[must_use]
    pub fn with_system(self, system: Box<RawValue>) -> Self {
        Preamble { system: Some(system), ..self }
    }

    /// Sets the tools, as JSON in the dialect's format.
    #[must_use]
    pub fn with_tools(self, tools: Box<RawValue>) -> Self {
        Preamble { tools: Some(tools), ..self }
    }

    /// Returns a digest of what a provider caches of it: without cache markers, which clients move, and without the
    /// block in which Claude Code names its version and numbers, which its user cannot keep the same.
    #[doc(hidden)]
    pub fn cached_digest(&self) -> u128 {
        const NUMBERS: &str = "x-anthropic-billing-header:";
        let mut hash = Xxh3::new();
        for raw in [&self.system, &self.tools] {
            let mut value: Value =
                raw.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
            if let Some(blocks) = value.as_array_mut() {
                blocks.retain(|block| !block["text"].as_str().is_some_and(|text| text.starts_with(NUMBERS)));
                blocks.iter_mut().for_each(cache_marker::remove_marker);
            }
            hash.update(value.to_string().as_bytes());
            hash.update(&[0]);
        }
        hash.digest128()
    }

    /// Returns whether two preambles have the same system prompt and the same tools, byte for byte.
    pub fn is_same(&self, other: &Preamble) -> bool {
        let same = |a: &Option<Box<RawValue>>, b: &Option<Box<RawValue>>| {
            a.as_ref().map(|raw| raw.get()) == b.as_ref().map(|raw| raw.get())
        };
        same(&self.system, &other.system) && same(&self.tools, &other.tools)
    }
}

/// Returns whether a member of a body, or an object in it, asks the model to reason.
fn thinks(value: &RawValue, depth: usize) -> bool {
    let (Some(depth), Some(fields)) = (depth.checked_sub(1), Fields::read(value)) else { return false };
    let is = |name: &str, words: &[&str]| fields.text(name).is_some_and(|text| words.contains(&&*text));
    is("type", &["enabled", "adaptive"])
        || is("effort", &["minimal", "low", "medium", "high", "xhigh", "max"])
        || fields.get("enabled").is_some_and(|enabled| enabled.get() == "true")
        || fields.get("max_tokens").is_some_and(|most| most.get() != "0" && most.get() != "null")
        || fields.iter().any(|(_, inner)| self::thinks(inner, depth))
}

/// Returns the schema in a member of a body that sets the format of answers, or in an object inside it.
fn schema(value: &RawValue, depth: usize) -> Option<Box<RawValue>> {
    let depth = depth.checked_sub(1)?;
    let fields = Fields::read(value)?;
    let schema = fields.get("schema").and_then(|schema| match json::text(schema) {
        // Some clients send it as a string.
        Some(text) => serde_json::from_str(&text).ok(),
        None => Some(schema.to_owned()),
    });
    schema.or_else(|| fields.iter().find_map(|(_, inner)| self::schema(inner, depth)))
}

/// Returns a name such as `systemInstruction` as `system_instruction`.
fn in_snake_case(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len() + 1), |mut out, char| {
        out.extend(char.is_ascii_uppercase().then_some('_'));
        out.push(char.to_ascii_lowercase());
        out
    })
}

/// The maximum depth of a schema or a setting in the member of a body.
const DEEPEST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_markers_and_numbers_of_a_client_change_nothing_that_is_cached() {
        let preamble = |system: &str| {
            Preamble::default().with_system(RawValue::from_string(system.to_owned()).unwrap()).cached_digest()
        };
        let plain = preamble(r#"[{"type":"text","text":"You help."}]"#);
        let marked = r#"{"type":"text","text":"You help.","cache_control":{"type":"ephemeral"}}"#;
        let numbers = r#"{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=1;"}"#;
        assert_eq!(plain, preamble(&format!("[{numbers},{marked}]")));
        assert_ne!(plain, preamble(r#"[{"type":"text","text":"You help at noon."}]"#));
    }
}

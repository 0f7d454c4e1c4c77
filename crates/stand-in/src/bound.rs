//! Signed thinking, which newer models of Anthropic bind to everything before it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use lookback_wire::message::PartRef;
use lookback_wire::{dialect::Request, message::Message};
use serde_json::Value;

/// The models that refuse thinking after a changed prefix.
const MODELS: [&str; 5] = ["opus-5-5", "sonnet-5-5", "haiku-5-5", "fable-5", "mythos-5"];

/// For each signature: the hash of everything before its thinking block, and the previous signature.
#[derive(Debug, Default)]
pub(crate) struct Signed(HashMap<String, (u64, Option<String>)>);

impl Signed {
    /// Records what a new signature is bound to.
    pub(crate) fn sign(&mut self, signature: &str, request: &Request) {
        let (prefix, last) = walk(request, |_, _, _| true).unwrap_or_default();
        self.0.insert(signature.to_owned(), (prefix, last));
    }

    /// Returns the index of the first message whose thinking is bound to a different prefix. `None` if the model does
    /// not check it.
    pub(crate) fn broken(&self, request: &Request) -> Option<usize> {
        let binds = request.model().is_some_and(|model| MODELS.iter().any(|name| model.contains(name)));
        let mut index = 0;
        let holds = |signature: &str, prefix: u64, before: Option<&str>| {
            self.0
                .get(signature)
                .is_none_or(|(was, behind)| *was == prefix && (before.is_none() || before == behind.as_deref()))
        };
        let broken = walk(request, |at, prefix, (signature, before)| {
            index = at;
            holds(signature, prefix, before)
        });
        (binds && broken.is_none()).then_some(index)
    }
}

/// Calls `each` for every thinking block of a request, with the index of its message, the hash of the prefix, its
/// signature and the previous signature. Returns what the next thinking would be bound to, or `None` once `each`
/// returns false.
fn walk(
    request: &Request,
    mut each: impl FnMut(usize, u64, (&str, Option<&str>)) -> bool,
) -> Option<(u64, Option<String>)> {
    let mut hash = DefaultHasher::new();
    let preamble = request.preamble();
    for raw in [&preamble.system, &preamble.tools].into_iter().flatten() {
        let mut value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        if let Some(blocks) = value.as_array_mut() {
            // Tools that are loaded on demand are not part of what is before the messages.
            blocks.retain(|block| block.get("defer_loading") != Some(&Value::Bool(true)));
        }
        for block in value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            block.remove("cache_control");
        }
        value.to_string().hash(&mut hash);
    }
    let mut last: Option<String> = None;
    for (at, message) in request.messages().iter().enumerate() {
        for part in message.parts() {
            if let PartRef::Reasoning(reasoning) = part
                && let Some(signature) = &reasoning.signature
            {
                if !each(at, hash.finish(), (signature, last.as_deref())) {
                    return None;
                }
                last = Some(signature.clone());
            }
        }
        said(message).hash(&mut hash);
    }
    Some((hash.finish(), last))
}

/// Returns what a message says, without its thinking and without the parts that clients may format differently.
fn said(message: &Message) -> Vec<String> {
    let part = |part: PartRef<'_>| match part {
        PartRef::Text(text) => Some(text.to_owned()),
        PartRef::ToolCall(call) => Some(format!("{} {}", call.id, call.name)),
        PartRef::ToolResult(result) => {
            Some(format!("{} {:?}", result.call_id, result.content.iter().map(item).collect::<Vec<_>>()))
        }
        _ => None,
    };
    message.parts().filter_map(part).collect()
}

fn item(item: &lookback_wire::message::ResultItem) -> &str {
    match item {
        lookback_wire::message::ResultItem::Text(text) | lookback_wire::message::ResultItem::Json(text) => text,
        _ => "",
    }
}

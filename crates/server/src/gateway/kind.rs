//! What a model call is for: a conversation, or something beside one, which passes and is not recorded.

use lookback_wire::message::PartRef;
use lookback_wire::{
    dialect::{Preamble, RawRequest},
    message::{Message, Role},
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a model call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It goes on with a conversation.
    Turn,
    /// It asks for a title, a route, a fact or the like: an answer of a given form, without tools.
    Side,
    /// It asks the model, or the provider, to compact the conversation.
    Compaction,
    /// Only the provider knows what stands before its messages: it names something stored there, with this member.
    Stored(&'static str),
}

/// Words of known clients in a request for a summary of the conversation.
const SUMMARIES: [&str; 7] = [
    "You are performing a CONTEXT CHECKPOINT COMPACTION",
    "CRITICAL: Respond with TEXT ONLY",
    "You are a context summarization agent",
    "You are a context summarization assistant",
    "You are a specialized system component responsible for distilling chat history",
    "You are the component that summarizes internal chat history",
    "Your task is to create a detailed summary of the conversation so far",
];

impl Kind {
    pub(super) fn of(request: &RawRequest<'_>, preamble: &Preamble) -> Kind {
        if let Some(member) = request.stored() {
            return Kind::Stored(member);
        }
        if message(request, request.len().checked_sub(1)).is_some_and(is_trigger)
            || request.member("compaction").is_some()
            || asks_for_summary(request, preamble)
        {
            return Kind::Compaction;
        }
        if !has_tools(preamble) && request.demands_form() {
            return Kind::Side;
        }
        Kind::Turn
    }
}

/// Returns a message, if there is one and it can be read.
fn message<'a>(request: &'a RawRequest<'_>, index: Option<usize>) -> Option<&'a Message> {
    request.message(index?).ok().map(|message| &**message)
}

/// Returns whether a message is a compaction trigger.
fn is_trigger(message: &Message) -> bool {
    message.parts().any(|part| matches!(part, PartRef::Opaque(opaque) if opaque.kind == "compaction_trigger"))
}

/// Returns whether the system prompt or the newest message of the user has words of a known client's request for a
/// summary.
fn asks_for_summary(request: &RawRequest<'_>, preamble: &Preamble) -> bool {
    let says = |text: &str| SUMMARIES.iter().any(|words| text.contains(words));
    let system = preamble.system.as_deref().is_some_and(|system| says(system.get()));
    let first = message(request, Some(0)).filter(|first| first.role() == Role::System);
    let all = (0..request.len()).rev().filter_map(|index| message(request, Some(index)));
    let last = all.into_iter().find(|message| message.role() == Role::User);
    // What a tool returned may be anything, even the source of such a client.
    let asks = |message: &Message| message.parts().any(|part| matches!(part, PartRef::Text(text) if says(text)));
    system || first.into_iter().chain(last).any(asks)
}

/// Returns whether the request declares tools.
pub(super) fn has_tools(preamble: &Preamble) -> bool {
    preamble.tools.as_deref().is_some_and(|tools| !matches!(tools.get(), "[]" | "null"))
}

/// Returns the names of the tools that a request declares, in alphabetical order.
///
/// Descriptions may change while a conversation goes on, and so may the order.
pub(super) fn tool_names(preamble: &Preamble) -> Vec<String> {
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
    use super::*;

    fn kind(body: &str) -> Kind {
        let request = RawRequest::read(body, None).unwrap();
        Kind::of(&request, &request.preamble())
    }

    #[test]
    fn calls_beside_a_conversation_are_told_from_it() {
        let schema = r#""response_format":{"type":"json_schema","json_schema":{}}"#;
        let user = r#""messages":[{"role":"user","content":"Hi"}]"#;
        assert_eq!(kind(&format!("{{{user}}}")), Kind::Turn);
        assert_eq!(kind(&format!("{{{user},{schema}}}")), Kind::Side);
        assert_eq!(kind(&format!(r#"{{{user},{schema},"tools":[{{"function":{{"name":"f"}}}}]}}"#)), Kind::Turn);
        let title = r#"{"system":"Name it.","messages":[{"role":"user","content":"Hi"}],"output_config":{"format":{"type":"json_schema"}}}"#;
        assert_eq!(kind(title), Kind::Side);
        let router =
            r#"{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"responseMimeType":"application/json"}}"#;
        assert_eq!(kind(router), Kind::Side);
        assert_eq!(
            kind(r#"{"input":[{"role":"user","content":"Hi"},{"type":"compaction_trigger"}]}"#),
            Kind::Compaction
        );
        let summary = r#"{"input":[{"role":"user","content":"You are performing a CONTEXT CHECKPOINT COMPACTION. Do it."}],"tools":[]}"#;
        assert_eq!(kind(summary), Kind::Compaction);
        let read = r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"You are a context summarization agent"}]}]}"#;
        assert_eq!(kind(read), Kind::Turn, "it read such words in a file");
        let asked = read.replace(r#"agent"}"#, r#"agent"},{"type":"text","text":"CRITICAL: Respond with TEXT ONLY"}"#);
        assert_eq!(kind(&asked), Kind::Compaction);
        assert_eq!(kind(r#"{"input":"Hi","previous_response_id":"resp_1"}"#), Kind::Stored("previous_response_id"));
        assert_eq!(kind(r#"{"contents":[],"cachedContent":"cachedContents/1"}"#), Kind::Stored("cachedContent"));
    }

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

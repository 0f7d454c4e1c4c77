//! The kind of a model call: a turn of a conversation, or a side call, which is passed on without being recorded.

use lookback_wire::dialect::{Preamble, RawRequest};
use lookback_wire::message::{Message, PartRef, Role};

use super::identity::Identity;
use super::summary_words::has_known_words;
use super::tools::has_tools;

/// The kind of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// It begins or continues a conversation.
    Turn,
    /// It asks for a title, a route, a fact or the like: a call without tools that demands an answer in a given form,
    /// or any call without tools if the client offers tools in every turn.
    Side,
    /// It asks the model, or the provider, to compact the conversation.
    Compaction,
    /// With this member, it refers to something stored at the provider. So only the provider knows the beginning of the
    /// conversation.
    Stored(&'static str),
}

impl Kind {
    /// Recognizes the kind of a call. The identity matters because some clients offer tools in every turn.
    ///
    /// ```
    /// use lookback_conversation::{Identity, Kind};
    /// use lookback_wire::dialect::RawRequest;
    ///
    /// let title = r#"{"messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_object"}}"#;
    /// let request = RawRequest::read(title, None)?;
    /// assert_eq!(Kind::from_request(&request, &request.preamble(), &Identity::Unsaid), Kind::Side);
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    pub fn from_request(request: &RawRequest<'_>, preamble: &Preamble, identity: &Identity) -> Kind {
        if let Some(member) = request.stored() {
            return Kind::Stored(member);
        }
        if message(request, request.len().checked_sub(1)).is_some_and(is_trigger)
            || request.member("compaction").is_some()
            || has_summary_words(request, preamble)
        {
            return Kind::Compaction;
        }
        if !has_tools(preamble) && (request.demands_form() || identity.always_has_tools()) {
            return Kind::Side;
        }
        Kind::Turn
    }
}

/// Returns a message, if it exists and can be read.
fn message<'a>(request: &'a RawRequest<'_>, index: Option<usize>) -> Option<&'a Message> {
    request.message(index?).ok().map(|message| &**message)
}

/// Returns whether a message is a compaction trigger.
fn is_trigger(message: &Message) -> bool {
    message.parts().any(|part| matches!(part, PartRef::Opaque(opaque) if opaque.kind == "compaction_trigger"))
}

/// Returns whether the newest user message or the system prompt asks for a summary in the words of a known client.
fn has_summary_words(request: &RawRequest<'_>, preamble: &Preamble) -> bool {
    // Tool results do not count: they may contain anything, even the source code of such a client.
    let asks =
        |message: &Message| message.parts().any(|part| matches!(part, PartRef::Text(text) if has_known_words(text)));
    let system = preamble.system.as_deref().is_some_and(|system| has_known_words(system.get()));
    let first = message(request, Some(0)).filter(|first| first.role() == Role::System);
    let mut newest = (0..request.len()).rev().filter_map(|index| message(request, Some(index)));
    let last = newest.find(|message| message.role() == Role::User);
    system || first.into_iter().chain(last).any(asks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(body: &str) -> Kind {
        let request = RawRequest::read(body, None).unwrap();
        Kind::from_request(&request, &request.preamble(), &Identity::Unsaid)
    }

    #[test]
    fn a_call_without_tools_is_beside_the_conversation_if_its_client_offers_some_in_every_turn() {
        let claude = Identity::Client { client: "claude-code", id: "s".to_owned() };
        for (tools, kind) in [(r#"[{"name":"read"}]"#, Kind::Turn), ("[]", Kind::Side)] {
            let body = format!(r#"{{"messages":[{{"role":"user","content":"Hi"}}],"tools":{tools}}}"#);
            let request = RawRequest::read(&body, None).unwrap();
            assert_eq!(Kind::from_request(&request, &request.preamble(), &claude), kind);
            assert_eq!(Kind::from_request(&request, &request.preamble(), &Identity::Unsaid), Kind::Turn);
        }
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
}

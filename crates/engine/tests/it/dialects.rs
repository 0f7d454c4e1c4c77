//! Reads, writes and converts the messages in the vectors of `corpus/dialects`.

use lookback_wire::dialect::Shown;
use lookback_wire::edit::Edit;
use lookback_wire::message::{Media, MediaSource, Opaque, PartRef, ResultItem};
use lookback_wire::{
    dialect::{Dialect, Request},
    message::Message,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

type Raw = Box<RawValue>;

fn vectors<'a, T: Deserialize<'a>>(text: &'a str) -> Vec<T> {
    serde_json::from_str(text).unwrap()
}

fn texts(messages: &[Raw]) -> Vec<&str> {
    messages.iter().map(|raw| raw.get()).collect()
}

fn encode(dialect: Dialect, messages: &[Message]) -> Vec<Raw> {
    let shown = messages.iter().map(|message| Shown { message, edits: &[] });
    dialect.encode(shown).unwrap().into_iter().map(|raw| raw.into_owned()).collect()
}

fn decode(dialect: Dialect, messages: &[Raw]) -> Vec<Message> {
    messages.iter().map(|raw| dialect.decode_raw(raw).unwrap()).collect()
}

/// The parts of a message, as the vectors spell them.
fn parts(message: &Message) -> Value {
    let part = |part| match part {
        PartRef::Text(text) => json!({"text": text}),
        PartRef::Image(media) => json!({"image": self::media(media)}),
        PartRef::Document(media) => json!({"document": self::media(media)}),
        PartRef::Reasoning(reasoning) => {
            json!({"reasoning": {"text": reasoning.text, "signature": reasoning.signature}})
        }
        PartRef::ToolCall(call) => {
            json!({"tool_call": {"id": call.id, "name": call.name, "arguments": call.arguments}})
        }
        PartRef::ToolResult(result) => {
            let content: Vec<_> = result.content.iter().map(item).collect();
            json!({"tool_result": {"call_id": result.call_id, "error": result.error, "content": content}})
        }
        PartRef::Opaque(opaque) => self::opaque(opaque),
    };
    message.parts().map(part).collect()
}

fn item(item: &ResultItem) -> Value {
    match item {
        ResultItem::Text(text) => json!({"text": text}),
        ResultItem::Json(text) => json!({"json": text}),
        ResultItem::Image(media) => json!({"image": self::media(media)}),
        ResultItem::Document(media) => json!({"document": self::media(media)}),
        ResultItem::Opaque(opaque) => self::opaque(opaque),
    }
}

fn opaque(opaque: &Opaque) -> Value {
    json!({"opaque": {"kind": opaque.kind, "raw": opaque.raw.get()}})
}

fn media(media: &Media) -> Value {
    let (kind, source) = match &media.source {
        MediaSource::Base64(data) => ("base64", data),
        MediaSource::Text(text) => ("text", text),
        MediaSource::Url(url) => ("url", url),
        MediaSource::Id(id) => ("id", id),
    };
    json!({"mime": media.mime, "name": media.name, kind: source})
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decoding {
    name: String,
    dialect: Dialect,
    message: Raw,
    #[serde(default)]
    role: Value,
    #[serde(default)]
    parts: Value,
    error: Option<String>,
}

#[test]
fn a_message_decodes_to_its_parts() {
    for vector in vectors::<Decoding>(include_str!("../../../../corpus/dialects/decode.json")) {
        println!("{}", vector.name);
        match (vector.dialect.decode_raw(&vector.message), vector.error) {
            (Ok(message), None) => {
                assert_eq!(json!(message.role()), vector.role);
                assert_eq!(parts(&message), vector.parts);
                assert_eq!(message.wire().unwrap().raw.get(), vector.message.get());
            }
            (Err(fault), Some(error)) => assert_eq!(fault.to_string(), error),
            (Ok(message), Some(_)) => panic!("it decodes to {:?}", message.content()),
            (Err(fault), None) => panic!("{fault}"),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    name: String,
    dialect: Dialect,
    messages: Vec<Raw>,
}

#[test]
fn what_is_not_edited_is_written_as_it_came() {
    for vector in vectors::<Identity>(include_str!("../../../../corpus/dialects/identity.json")) {
        println!("{}", vector.name);
        let sent = encode(vector.dialect, &decode(vector.dialect, &vector.messages));
        assert_eq!(texts(&sent), texts(&vector.messages));
    }
}

/// Also, every message of every valid request in the vectors of the rules.
#[test]
fn a_single_message_is_written_as_it_came() {
    let tables = [
        (Dialect::OpenAiChat, include_str!("../../../../corpus/rules/openai-chat.json")),
        (Dialect::Anthropic, include_str!("../../../../corpus/rules/anthropic.json")),
        (Dialect::Bedrock, include_str!("../../../../corpus/rules/bedrock.json")),
        (Dialect::Gemini, include_str!("../../../../corpus/rules/gemini.json")),
    ];
    #[derive(Deserialize)]
    struct Vector {
        request: Raw,
        findings: Vec<Value>,
    }
    for (dialect, text) in tables {
        for vector in vectors::<Vector>(text).iter().filter(|vector| vector.findings.is_empty()) {
            for message in Request::decode(vector.request.get(), Some(dialect)).unwrap().into_messages() {
                if dialect == Dialect::Anthropic && message.role() == lookback_wire::message::Role::System {
                    // A system message may not come first there, and is sent as a user message.
                    continue;
                }
                if message.wire().unwrap().raw.get().contains("code_execution_tool_result") {
                    // Its tool use is in an earlier message.
                    continue;
                }
                let came = message.wire().unwrap().raw.get().to_owned();
                assert_eq!(texts(&encode(dialect, &[message])), [came]);
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Editing {
    name: String,
    dialect: Dialect,
    message: Raw,
    edits: Vec<Edit>,
    sent: Option<Raw>,
}

#[test]
fn an_edit_leaves_the_other_bytes_alone() {
    for vector in vectors::<Editing>(include_str!("../../../../corpus/dialects/edits.json")) {
        println!("{}", vector.name);
        let message = vector.dialect.decode_raw(&vector.message).unwrap();
        let shown = Shown { message: &message, edits: &vector.edits };
        let sent = vector.dialect.encode([shown]).unwrap();
        let sent: Vec<_> = sent.iter().map(|raw| raw.get()).collect();
        assert_eq!(sent, vector.sent.iter().map(|raw| raw.get()).collect::<Vec<_>>());
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Merging {
    name: String,
    dialect: Dialect,
    messages: Vec<Raw>,
    sent: Vec<Raw>,
}

#[test]
fn neighbors_are_merged() {
    for vector in vectors::<Merging>(include_str!("../../../../corpus/dialects/merge.json")) {
        println!("{}", vector.name);
        let sent = encode(vector.dialect, &decode(vector.dialect, &vector.messages));
        assert_eq!(texts(&sent), texts(&vector.sent));
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Conversion {
    name: String,
    from: Dialect,
    to: Dialect,
    message: Raw,
    into: Option<Vec<Raw>>,
    loss: Option<String>,
}

#[test]
fn a_conversion_says_all_or_names_what_it_cannot() {
    for vector in vectors::<Conversion>(include_str!("../../../../corpus/dialects/convert.json")) {
        println!("{}", vector.name);
        let message = vector.from.decode_raw(&vector.message).unwrap();
        match vector.to.convert(&message) {
            Ok(messages) => {
                let wires: Vec<_> = messages.iter().map(|message| message.wire().unwrap()).collect();
                assert!(wires.iter().all(|wire| wire.dialect == vector.to));
                let sent: Vec<_> = wires.iter().map(|wire| wire.raw.get()).collect();
                assert_eq!(sent, texts(&vector.into.unwrap()));
            }
            Err(loss) => assert_eq!(loss.to_string(), vector.loss.unwrap()),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Detection {
    name: String,
    request: Raw,
    dialect: Dialect,
}

#[test]
fn a_dialect_is_found_out() {
    for vector in vectors::<Detection>(include_str!("../../../../corpus/dialects/detect.json")) {
        println!("{}", vector.name);
        let request = Request::decode(vector.request.get(), None).unwrap();
        assert_eq!(request.dialect(), vector.dialect);
    }
}

/// The error for strict readers of recordings. For a request, the first clue decides.
#[test]
fn messages_of_two_dialects_contradict_each_other() {
    let detect = |text: &str| {
        let messages: Vec<&RawValue> = serde_json::from_str(text).unwrap();
        Dialect::detect(None, messages)
    };
    let anthropic = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1"}]}"#;
    let openai = r#"{"role":"assistant","content":"x","tool_calls":[]}"#;
    let bedrock = r#"{"role":"user","content":[{"text":"x"}]}"#;
    let marked = r#"{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}"#;
    let text = r#"{"role":"user","content":"x"}"#;
    assert_eq!(
        detect(&format!("[{text},{anthropic},{text},{openai}]")).unwrap_err().to_string(),
        "messages[1] has a block `tool_result`, as in anthropic, and messages[3] has `tool_calls`, as in openai-chat"
    );
    let contradiction = detect(&format!("[{bedrock},{openai}]")).unwrap_err();
    assert_eq!((contradiction.first.dialect, contradiction.other.dialect), (Dialect::Bedrock, Dialect::OpenAiChat));
    assert_eq!(detect(&format!("[{text},{text}]")).unwrap(), None);
    for (hint, dialect) in [(openai, Dialect::OpenAiChat), (bedrock, Dialect::Bedrock), (text, Dialect::Anthropic)] {
        assert_eq!(detect(&format!("[{marked},{hint}]")).unwrap().unwrap().dialect, dialect);
    }
}

#[test]
fn what_stands_beside_the_messages_may_contradict_them() {
    let body = r#"{"system":"Be brief.","messages":[{"role":"tool","tool_call_id":"c1","content":"x"}]}"#;
    let beside: &RawValue = serde_json::from_str(body).unwrap();
    let message: &RawValue = serde_json::from_str(r#"{"role":"tool","tool_call_id":"c1","content":"x"}"#).unwrap();
    assert_eq!(
        Dialect::detect(Some(beside), [message]).unwrap_err().to_string(),
        "the body has `system`, as in anthropic, and messages[0] has the role `tool`, as in openai-chat"
    );
}

#[test]
fn a_result_that_a_resumed_client_repeats_counts_once() {
    let results = |results: &[&str]| {
        let parts = results.join(",");
        Dialect::Gemini.decode(&format!(r#"{{"role":"user","parts":[{parts}]}}"#)).unwrap().digest()
    };
    let one = r#"{"functionResponse":{"id":"c1","name":"f","response":{"a":1}}}"#;
    let two = r#"{"functionResponse":{"id":"c2","name":"f","response":{"a":1}}}"#;
    let other = r#"{"functionResponse":{"id":"c1","name":"f","response":{"a":2}}}"#;
    assert_eq!(results(&[one, two, one, two]), results(&[one, two]));
    assert_ne!(results(&[one, two]), results(&[one]));
    assert_ne!(results(&[one, other]), results(&[one]));
}

#[test]
fn calls_that_differ_in_an_argument_named_like_a_cache_marker_have_two_digests() {
    let call = |input: &str| {
        let text = format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"c1","name":"set","input":{input}}}]}}"#
        );
        Dialect::Anthropic.decode(&text).unwrap().digest()
    };
    assert_ne!(call(r#"{"cache_control":"no-store"}"#), call(r#"{"cache_control":"public"}"#));
    // The marker of a block does not change the meaning of the message.
    let block = |marker: &str| {
        let text = format!(r#"{{"role":"user","content":[{{"type":"search_result","source":"s"{marker}}}]}}"#);
        Dialect::Anthropic.decode(&text).unwrap().digest()
    };
    assert_eq!(block(""), block(r#","cache_control":{"type":"ephemeral"}"#));
}

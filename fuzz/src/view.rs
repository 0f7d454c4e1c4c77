//! Any sequence of messages, valid or broken, with windows between them: what is sent keeps the rules, and follows
//! from the log.

use lookback_engine::{
    Engine, Settings,
    policy::Mode,
    transcript::{Entry, Transcript},
    view::View,
};
use lookback_wire::{
    dialect::{Dialect, Request},
    message::Message,
};
use serde_json::{Value, json};

use crate::{Bytes, faults, sent};

/// Checks a dialect, a policy and a program that are made from the bytes. Each step of the program is a message or a
/// window.
pub fn view(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let dialect = bytes.choose(&Dialect::ALL);
    let policy = if bytes.coin() { crate::plan::policy(&mut bytes) } else { Default::default() };
    let model_window = bytes.option(Bytes::size);
    let records = policy.mode == Mode::Recorded;
    let mut settings = Settings::default().dialect(dialect).policy(policy);
    settings.model_window = model_window;
    let mut engine = Engine::new(settings);
    let mut log = Transcript::default();
    for _ in 0..64 {
        if !bytes.any() {
            break;
        }
        match bytes.below(8) {
            0 => window(&mut engine, &mut log, records),
            1 => {
                let body = match dialect {
                    Dialect::OpenAiChat => r#"{"tools":[],"messages":[]}"#.to_owned(),
                    Dialect::Anthropic => format!(r#"{{"system":"{}","messages":[]}}"#, bytes.byte()),
                    Dialect::Bedrock => format!(r#"{{"system":[{{"text":"{}"}}],"messages":[]}}"#, bytes.byte()),
                    Dialect::OpenAiResponses => format!(r#"{{"instructions":"{}","input":[]}}"#, bytes.byte()),
                    Dialect::Gemini => {
                        format!(r#"{{"systemInstruction":{{"parts":[{{"text":"{}"}}]}},"contents":[]}}"#, bytes.byte())
                    }
                };
                let request = Request::decode(body, Some(dialect)).expect("a request");
                log.extend(engine.set_preamble(request.preamble()));
            }
            _ => {
                let message = message(&mut bytes, dialect);
                log.extend(engine.push(message).expect("its own dialect"));
            }
        }
    }
    window(&mut engine, &mut log, records);
    // The log alone gives the same view, even after it was written and read.
    let same = |how: &str, view: Option<View>| {
        let view = view.expect("a log of ours");
        let encoded = dialect.encode(view.shown()).expect("its own dialect");
        assert_eq!(encoded.iter().map(|raw| raw.get()).collect::<Vec<_>>(), texts(&sent(&engine)), "{how}");
        assert_eq!(view.totals(), engine.view().totals(), "{how}");
    };
    assert_eq!(log.len(), engine.end());
    same("the log", log.view(log.len()));
    let written: Vec<String> = log.entries().iter().map(|e| serde_json::to_string(e).expect("an entry")).collect();
    let mut read = Transcript::default();
    read.extend(written.iter().map(|text| serde_json::from_str::<Entry>(text).expect("an entry")));
    same("the log, written and read", read.view(read.len()));
    let entry = |position: u64| read.entries().get(usize::try_from(position).ok()?);
    same("a checkpoint", View::restore(&engine.view().checkpoint(), entry));
}

fn texts(messages: &[Box<serde_json::value::RawValue>]) -> Vec<&str> {
    messages.iter().map(|raw| raw.get()).collect()
}

fn window(engine: &mut Engine, log: &mut Transcript, records: bool) {
    let dialect = engine.settings().dialect;
    let outcome = engine.window();
    log.extend(outcome.entries);
    if outcome.exceeded.is_some() {
        return;
    }
    let window = match &outcome.on_read {
        Some(view) => {
            let encoded = dialect.encode(view.shown()).expect("its own dialect");
            encoded.into_iter().map(|raw| raw.into_owned()).collect()
        }
        None => sent(engine),
    };
    assert_eq!(faults(dialect, &window), [], "{:#?}", texts(&window));
    if records {
        assert!(!window.is_empty() || engine.view().history_len() == 0, "where there is a history, something is sent");
        let again = engine.window();
        assert!(again.entries.is_empty(), "what was decided is decided: {:?}", again.entries);
        assert_eq!(texts(&sent(engine)), texts(&window));
    }
}

const IDS: [&str; 6] = ["c1", "c2", "c3", "c1_2", "c!", ""];
const TEXTS: [&str; 6] =
    ["Hi", "", " \n", "\u{1f600}\0", "Hello, how do you do? I am well, thank you very much.", "a "];

fn message(bytes: &mut Bytes<'_>, dialect: Dialect) -> Message {
    let json = match dialect {
        Dialect::OpenAiChat => openai(bytes),
        Dialect::Anthropic => anthropic(bytes),
        Dialect::Bedrock => bedrock(bytes),
        Dialect::OpenAiResponses => responses(bytes),
        Dialect::Gemini => gemini(bytes),
    };
    dialect.decode(&json.to_string()).expect("a message")
}

fn some<T>(bytes: &mut Bytes<'_>, mut one: impl FnMut(&mut Bytes<'_>) -> T) -> Vec<T> {
    (0..bytes.below(4)).map(|_| one(bytes)).collect()
}

fn text(bytes: &mut Bytes<'_>) -> &'static str {
    bytes.choose(&TEXTS)
}

fn input(bytes: &mut Bytes<'_>) -> Value {
    match bytes.below(8) {
        0 => json!(text(bytes)),
        1 => json!([1]),
        _ => json!({"path": text(bytes)}),
    }
}

fn openai(bytes: &mut Bytes<'_>) -> Value {
    let content = |bytes: &mut Bytes<'_>| match bytes.below(4) {
        0 => Value::Null,
        1 => some(bytes, |bytes| json!({"type": bytes.choose(&["text", "x"]), "text": text(bytes)})).into(),
        _ => text(bytes).into(),
    };
    match bytes.below(8) {
        0 => json!({"role": bytes.choose(&["system", "developer"]), "content": content(bytes)}),
        1 | 2 => json!({"role": "user", "content": content(bytes)}),
        3 => json!({"role": "assistant", "content": content(bytes)}),
        4 | 5 => {
            let call = |bytes: &mut Bytes<'_>| {
                let arguments = input(bytes).to_string();
                json!({"id": bytes.choose(&IDS), "type": "function", "function": {"name": "f", "arguments": arguments}})
            };
            json!({"role": "assistant", "content": content(bytes), "tool_calls": some(bytes, call)})
        }
        _ => json!({"role": "tool", "tool_call_id": bytes.choose(&IDS), "content": content(bytes)}),
    }
}

fn anthropic(bytes: &mut Bytes<'_>) -> Value {
    let marked = |bytes: &mut Bytes<'_>, mut block: Value| {
        if bytes.below(8) == 0 {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
        block
    };
    let image = || json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}});
    let user = |bytes: &mut Bytes<'_>| {
        let block = match bytes.below(6) {
            0 | 1 => json!({"type": "text", "text": text(bytes)}),
            2 => bytes.choose(&[0, 1]).eq(&0).then(image).unwrap_or_else(|| json!({"type": "x"})),
            3 => json!({"type": "tool_result", "tool_use_id": bytes.choose(&IDS), "is_error": bytes.coin()}),
            _ => {
                json!({
                    "type": "tool_result", "tool_use_id": bytes.choose(&IDS), "content": text(bytes),
                    "is_error": bytes.coin(),
                })
            }
        };
        marked(bytes, block)
    };
    let assistant = |bytes: &mut Bytes<'_>| match bytes.below(8) {
        0 => json!({"type": "thinking", "thinking": text(bytes), "signature": "EqQB"}),
        1 => json!({"type": "thinking", "thinking": text(bytes)}),
        2 => json!({"type": "redacted_thinking", "data": "EmwK"}),
        3 | 4 => json!({"type": "text", "text": text(bytes)}),
        _ => {
            let block = json!({"type": "tool_use", "id": bytes.choose(&IDS), "name": "f", "input": input(bytes)});
            marked(bytes, block)
        }
    };
    match bytes.below(8) {
        0 => json!({"role": "system", "content": text(bytes)}),
        1 => json!({"role": "user", "content": text(bytes)}),
        2 => json!({"role": "assistant", "content": text(bytes)}),
        3..=5 => json!({"role": "user", "content": some(bytes, user)}),
        _ => json!({"role": "assistant", "content": some(bytes, assistant)}),
    }
}

fn responses(bytes: &mut Bytes<'_>) -> Value {
    let content = |bytes: &mut Bytes<'_>, kind: &str| match bytes.below(4) {
        0 => some(bytes, |bytes| json!({"type": bytes.choose(&[kind, "x"]), "text": text(bytes)})).into(),
        _ => Value::from(text(bytes)),
    };
    let said = |bytes: &mut Bytes<'_>| match bytes.below(8) {
        0 => json!({"type": "reasoning", "id": bytes.choose(&["rs_1", "rs_2", "x"]), "summary": [], "status": null}),
        1 => json!({"type": "reasoning", "encrypted_content": "gAAA"}),
        2 | 3 => json!({"type": "message", "role": "assistant", "content": content(bytes, "output_text")}),
        4 => json!({"type": bytes.choose(&["web_search_call", "compaction", "x"]), "id": "x"}),
        5 => json!({"type": "custom_tool_call", "call_id": bytes.choose(&IDS), "name": "f", "input": text(bytes)}),
        _ => {
            let arguments = input(bytes).to_string();
            json!({"type": "function_call", "call_id": bytes.choose(&IDS), "name": "f", "arguments": arguments})
        }
    };
    match bytes.below(8) {
        0 => json!({"role": bytes.choose(&["system", "developer"]), "content": content(bytes, "input_text")}),
        1 | 2 => json!({"role": "user", "content": content(bytes, "input_text")}),
        3 => json!({"type": bytes.choose(&["compaction_trigger", "additional_tools"])}),
        4 | 5 => {
            let mut items = vec![said(bytes)];
            items.extend(some(bytes, said));
            if let [only] = items.as_slice() { only.clone() } else { items.into() }
        }
        _ => {
            let output = match bytes.below(3) {
                0 => {
                    some(bytes, |bytes| json!({"type": bytes.choose(&["input_text", "x"]), "text": text(bytes)})).into()
                }
                _ => Value::from(text(bytes)),
            };
            json!({"type": "function_call_output", "call_id": bytes.choose(&IDS), "output": output})
        }
    }
}

fn gemini(bytes: &mut Bytes<'_>) -> Value {
    let id = |bytes: &mut Bytes<'_>| bytes.coin().then(|| bytes.choose(&IDS));
    let user = |bytes: &mut Bytes<'_>| match bytes.below(8) {
        0 => json!({"inlineData": {"mimeType": "image/png", "data": "iVBO"}}),
        1 => json!({"x": 1}),
        2 | 3 => json!({"text": text(bytes)}),
        _ => {
            let response = match bytes.below(4) {
                0 => json!(text(bytes)),
                1 => json!({}),
                2 => json!({"error": text(bytes)}),
                _ => json!({"output": text(bytes)}),
            };
            json!({"functionResponse": {"id": id(bytes), "name": bytes.choose(&["f", "g"]), "response": response}})
        }
    };
    let model = |bytes: &mut Bytes<'_>| match bytes.below(8) {
        0 => json!({"text": text(bytes), "thought": true}),
        1 => json!({"text": "", "thoughtSignature": "c2ln"}),
        2 | 3 => json!({"text": text(bytes)}),
        4 => json!({"thought": true}),
        _ => {
            let call = json!({"id": id(bytes), "name": bytes.choose(&["f", "g"]), "args": input(bytes)});
            match bytes.coin() {
                true => json!({"functionCall": call, "thoughtSignature": "c2ln"}),
                false => json!({"functionCall": call}),
            }
        }
    };
    if bytes.coin() {
        json!({"role": bytes.choose(&["user", "function"]), "parts": some(bytes, user)})
    } else {
        json!({"role": "model", "parts": some(bytes, model)})
    }
}

fn bedrock(bytes: &mut Bytes<'_>) -> Value {
    let point = || json!({"cachePoint": {"type": "default"}});
    let user = |bytes: &mut Bytes<'_>| match bytes.below(8) {
        0 => point(),
        1 | 2 => json!({"text": text(bytes)}),
        3 => json!({"video": {}}),
        _ => {
            let item = |bytes: &mut Bytes<'_>| match bytes.below(4) {
                0 => json!({"json": input(bytes)}),
                1 => json!({"image": {"format": "png", "source": {"bytes": "iVBO"}}}),
                _ => json!({"text": text(bytes)}),
            };
            let status = bytes.choose(&["error", "success"]);
            json!({"toolResult": {"toolUseId": bytes.choose(&IDS), "content": some(bytes, item), "status": status}})
        }
    };
    let assistant = |bytes: &mut Bytes<'_>| match bytes.below(8) {
        0 => point(),
        1 => json!({"reasoningContent": {"reasoningText": {"text": text(bytes), "signature": "EqQB"}}}),
        2 => json!({"reasoningContent": {"reasoningText": {"text": text(bytes)}}}),
        3 | 4 => json!({"text": text(bytes)}),
        _ => json!({"toolUse": {"toolUseId": bytes.choose(&IDS), "name": "f", "input": input(bytes)}}),
    };
    if bytes.coin() {
        json!({"role": "user", "content": some(bytes, user)})
    } else {
        json!({"role": "assistant", "content": some(bytes, assistant)})
    }
}

//! Mutants: accepted requests, each with one defect that the rules of its dialect forbid.

use lookback_wire::dialect::Dialect;
use serde_json::{Value, json};

/// A request with one defect.
pub(crate) struct Mutant {
    /// The kind of the defect.
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

/// The place of a tool call or a tool result in a body.
#[derive(Clone, PartialEq)]
struct Place {
    /// The JSON pointer to its list.
    list: String,
    index: usize,
    /// The index of its message.
    message: usize,
    id: String,
}

/// Returns all mutants of a body. If a defect is possible in several places, the mutants have it in the first place and
/// in the last.
pub(crate) fn all(dialect: Dialect, path: &str, body: &Value) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    let mut add = |kind, changed: Option<Value>| {
        mutants.extend(changed.map(|body| Mutant { kind, body: body.to_string() }));
    };
    let (calls, results) = (calls(dialect, body), results(dialect, body));
    // If the provider stored the call or ran the tool, the request has only one half of the pair.
    let pairs: Vec<(&Place, &Place)> = results
        .iter()
        .filter_map(|result| {
            Some((calls.iter().rev().find(|call| call.id == result.id && is_before(call, result))?, result))
        })
        .collect();
    let ends = |length: usize| if length > 1 { vec![0, length - 1] } else { (0..length).collect() };
    for (call, result) in ends(pairs.len()).into_iter().map(|at| pairs[at]) {
        add("a result is gone", without(dialect, body, result));
        add("a call is gone", without(dialect, body, call));
        add("a result comes twice", twice(body, result));
        add("a result comes before its call", swapped(dialect, body, call, result));
        add("a message comes before the result", parted(dialect, body, result));
    }
    for at in ends(calls.len()) {
        let call = &calls[at];
        add("the arguments are a list", with_list(dialect, body, call));
        let sibling = calls.iter().find(|other| other.list == call.list && other.index != call.index);
        let sibling = if dialect != Dialect::OpenAiResponses && dialect != Dialect::Gemini { sibling } else { None };
        add("two calls have one identifier", sibling.and_then(|sibling| with_id(dialect, body, call, &sibling.id)));
    }
    // Few of the rules apply to the models of other makers that also use this dialect.
    let is_claudes =
        dialect == Dialect::Anthropic && body["model"].as_str().is_none_or(|model| model.contains("claude"));
    // A stored response may replace all messages.
    let stored = ["previous_response_id", "conversation", "prompt"].iter().any(|name| body.get(name).is_some());
    add("there is no message", (!stored).then(|| with(body, list(dialect), json!([]))));
    for at in texts(dialect, body).first().into_iter().chain(texts(dialect, body).last()) {
        add("a text has half of a surrogate pair", Some(with(body, at, json!(HALF))));
        if is_claudes || dialect == Dialect::Bedrock {
            // Claude accepts a blank text in a message with words, but not an empty text.
            let blank = if is_claudes { "" } else { " " };
            add("a text is blank", Some(with(body, at, json!(blank))));
        }
    }
    if is_claudes || dialect == Dialect::Bedrock {
        let answer = match dialect {
            Dialect::Anthropic => json!({"role": "assistant", "content": "I begin."}),
            _ => json!({"role": "assistant", "content": [{"text": "I begin."}]}),
        };
        let mut changed = body.clone();
        messages(dialect, &mut changed).insert(0, answer);
        // On Bedrock, Claude accepts an assistant message first.
        let may = dialect == Dialect::Bedrock && path.contains("claude");
        add("the model begins", (!may).then_some(changed));
        add("there are five cache markers", marked(dialect, body));
    }
    if is_claudes {
        for at in pointers(body, "/messages", &|value| value["type"] == "thinking" && value["signature"].is_string()) {
            let mut changed = body.clone();
            changed.pointer_mut(&at).and_then(Value::as_object_mut).map(|thinking| thinking.remove("signature"));
            add("thinking has no signature", Some(changed));
        }
        for result in ends(results.len()).into_iter().map(|at| &results[at]) {
            let mut changed = body.clone();
            changed["messages"][result.message]["role"] = json!("assistant");
            add("a result is the assistant's", Some(changed));
        }
        let is_hosted = |value: &Value| value["type"].as_str().is_some_and(|kind| kind.ends_with("_tool_result"));
        for at in pointers(body, "/messages", &is_hosted) {
            add("a result of the provider's tool is gone", without_hosted(body, &at));
        }
        add("a cache marker lasts longer than one before it", with_longer_marker(body));
    }
    if dialect == Dialect::Bedrock {
        for at in pointers(body, "/messages", &|value| value["document"]["name"].is_string()) {
            add("two files have one name", doubled(body, &at));
        }
    }
    let is_openai =
        body["model"].as_str().is_some_and(|model| model.starts_with("gpt-4") || model.starts_with("gpt-5"));
    if matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses) && is_openai {
        for (call, _) in ends(pairs.len()).into_iter().map(|at| pairs[at]) {
            let long = body.to_string().replace(&format!("\"{}\"", call.id), &format!("\"{}\"", "c".repeat(80)));
            add("an identifier has 80 characters", serde_json::from_str(&long).ok());
        }
    }
    if matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses) {
        let mut changed = body.clone();
        changed["temperature"] = json!(3);
        add("the temperature is 3", Some(changed));
    }
    if is_openai || !matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses) {
        let tools = if dialect == Dialect::Bedrock { "/toolConfig/tools" } else { "/tools" };
        let named = pointers(body, tools, &|value| value["name"].is_string());
        for at in ends(named.len()).into_iter().map(|at| &named[at]) {
            add("the name of a tool has a blank", Some(with(body, &format!("{at}/name"), json!("no name"))));
        }
    }
    if dialect == Dialect::Bedrock && !calls.is_empty() && !results.is_empty() {
        let mut changed = body.clone();
        changed.as_object_mut().map(|body| body.remove("toolConfig"));
        add("tools are missing", Some(changed));
    }
    mutants
}

/// The placeholder for half of a surrogate pair, which a `Value` cannot contain.
pub(crate) const HALF: &str = "HALF OF A PAIR";

fn list(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiResponses => "/input",
        Dialect::Gemini => "/contents",
        _ => "/messages",
    }
}

fn messages(dialect: Dialect, body: &mut Value) -> &mut Vec<Value> {
    body.pointer_mut(list(dialect)).and_then(Value::as_array_mut).expect("a list of messages")
}

fn is_before(call: &Place, result: &Place) -> bool {
    (call.message, call.index) < (result.message, result.index)
}

fn calls(dialect: Dialect, body: &Value) -> Vec<Place> {
    match dialect {
        Dialect::OpenAiChat => parts(body, "/messages", "tool_calls", "/id"),
        Dialect::Anthropic => typed(parts(body, "/messages", "content", "/id"), body, &["tool_use"]),
        Dialect::OpenAiResponses => {
            typed(whole(body, "/input", "/call_id"), body, &["function_call", "custom_tool_call"])
        }
        Dialect::Bedrock => {
            let mut calls = parts(body, "/messages", "content", "/toolUse/toolUseId");
            calls.retain(|call| body.pointer(&at(call)).is_some_and(|block| block["toolUse"]["type"].is_null()));
            calls
        }
        _ => parts(body, "/contents", "parts", "/functionCall/id"),
    }
}

fn results(dialect: Dialect, body: &Value) -> Vec<Place> {
    let outputs = ["function_call_output", "custom_tool_call_output"];
    // If a result is in the model's message, the provider ran the tool.
    let is_clients = |place: &Place| {
        let message = body.pointer(list(dialect)).and_then(|messages| messages.get(place.message));
        message.is_none_or(|message| message["role"] != "assistant" && message["role"] != "model")
    };
    let places = match dialect {
        Dialect::OpenAiChat => whole(body, "/messages", "/tool_call_id"),
        Dialect::Anthropic => typed(parts(body, "/messages", "content", "/tool_use_id"), body, &["tool_result"]),
        Dialect::OpenAiResponses => typed(whole(body, "/input", "/call_id"), body, &outputs),
        Dialect::Bedrock => parts(body, "/messages", "content", "/toolResult/toolUseId"),
        _ => parts(body, "/contents", "parts", "/functionResponse/id"),
    };
    places.into_iter().filter(is_clients).collect()
}

/// Returns the places of the messages with an identifier at this pointer.
fn whole(body: &Value, list: &str, id: &str) -> Vec<Place> {
    let messages = body.pointer(list).and_then(Value::as_array).into_iter().flatten().enumerate();
    let place = |(index, message): (usize, &Value)| {
        let id = message.pointer(id)?.as_str()?.to_owned();
        Some(Place { list: list.to_owned(), index, message: index, id })
    };
    messages.filter_map(place).collect()
}

/// Returns the places of the parts of messages with an identifier at this pointer.
fn parts(body: &Value, list: &str, member: &str, id: &str) -> Vec<Place> {
    let messages = body.pointer(list).and_then(Value::as_array).into_iter().flatten().enumerate();
    let of_message = |(message, value): (usize, &Value)| {
        let list = format!("{list}/{message}/{member}");
        let parts = value[member].as_array().into_iter().flatten().enumerate();
        let place = |(index, part): (usize, &Value)| {
            Some(Place { list: list.clone(), index, message, id: part.pointer(id)?.as_str()?.to_owned() })
        };
        parts.filter_map(place).collect::<Vec<_>>()
    };
    messages.flat_map(of_message).collect()
}

fn typed(places: Vec<Place>, body: &Value, types: &[&str]) -> Vec<Place> {
    let of_type =
        |place: &Place| body.pointer(&at(place)).is_some_and(|value| types.iter().any(|kind| value["type"] == **kind));
    places.into_iter().filter(of_type).collect()
}

fn at(place: &Place) -> String {
    format!("{}/{}", place.list, place.index)
}

/// Returns the body without a part, and without the part's message if the message has no other part.
fn without(dialect: Dialect, body: &Value, place: &Place) -> Option<Value> {
    let mut changed = body.clone();
    let parts = changed.pointer_mut(&place.list)?.as_array_mut()?;
    parts.remove(place.index);
    if parts.is_empty() && place.list != list(dialect) {
        let message = &mut messages(dialect, &mut changed)[place.message];
        // In Chat, the message may also have a text.
        if dialect == Dialect::OpenAiChat && message["content"].as_str().is_some_and(|text| !text.is_empty()) {
            message.as_object_mut()?.remove("tool_calls");
        } else {
            messages(dialect, &mut changed).remove(place.message);
        }
    }
    // A body without messages is another kind of mutant.
    (!messages(dialect, &mut changed).is_empty()).then_some(changed)
}

fn twice(body: &Value, place: &Place) -> Option<Value> {
    let mut changed = body.clone();
    let parts = changed.pointer_mut(&place.list)?.as_array_mut()?;
    parts.insert(place.index + 1, parts[place.index].clone());
    Some(changed)
}

/// Returns the body with the message of a result before the message of its call.
fn swapped(dialect: Dialect, body: &Value, call: &Place, result: &Place) -> Option<Value> {
    let mut changed = body.clone();
    let messages = messages(dialect, &mut changed);
    let message = messages.remove(result.message);
    messages.insert(call.message, message);
    Some(changed)
}

/// Returns the body with another message before the result. `None` for Responses, which allows that, and for Gemini.
fn parted(dialect: Dialect, body: &Value, result: &Place) -> Option<Value> {
    let said = match dialect {
        Dialect::OpenAiChat => json!({"role": "user", "content": "Wait."}),
        Dialect::Anthropic => {
            // Consecutive messages of one role count as one message, so the message between them has the other role.
            json!({"role": "assistant", "content": "Wait."})
        }
        Dialect::Bedrock => json!({"role": "assistant", "content": [{"text": "Wait."}]}),
        _ => return None,
    };
    let mut changed = body.clone();
    let messages = messages(dialect, &mut changed);
    let before = messages.get(result.message.checked_sub(1)?)?["role"].clone();
    messages.insert(result.message, said);
    if dialect != Dialect::OpenAiChat && before == "assistant" {
        // Without a user message in between, the two assistant messages would count as one.
        let said = if dialect == Dialect::Anthropic { json!("Go on.") } else { json!([{"text": "Go on."}]) };
        messages.insert(result.message, json!({"role": "user", "content": said}));
    }
    Some(changed)
}

fn with_list(dialect: Dialect, body: &Value, call: &Place) -> Option<Value> {
    let (member, list) = match dialect {
        Dialect::OpenAiChat => ("/function/arguments", json!("[]")),
        Dialect::Anthropic => ("/input", json!([])),
        Dialect::Bedrock => ("/toolUse/input", json!("[]")),
        _ => return None,
    };
    let pointer = at(call) + member;
    body.pointer(&pointer)?;
    Some(with(body, &pointer, list))
}

fn with_id(dialect: Dialect, body: &Value, call: &Place, id: &str) -> Option<Value> {
    let member = if dialect == Dialect::Bedrock { "/toolUse/toolUseId" } else { "/id" };
    let pointer = at(call) + member;
    body.pointer(&pointer)?;
    Some(with(body, &pointer, json!(id)))
}

fn with(body: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = body.clone();
    if let Some(place) = changed.pointer_mut(pointer) {
        *place = value;
    }
    changed
}

/// Returns the pointers to the texts of user messages.
fn texts(dialect: Dialect, body: &Value) -> Vec<String> {
    let messages = body.pointer(list(dialect)).and_then(Value::as_array).into_iter().flatten().enumerate();
    let of_message = |(index, message): (usize, &Value)| {
        let base = format!("{}/{index}", list(dialect));
        if message["role"] != "user" {
            return Vec::new();
        }
        if message["content"].is_string() {
            return vec![base + "/content"];
        }
        let member = if dialect == Dialect::Gemini { "parts" } else { "content" };
        let parts = message[member].as_array().into_iter().flatten().enumerate();
        parts
            .filter(|(_, part)| part["text"].is_string())
            .map(|(part, _)| format!("{base}/{member}/{part}/text"))
            .collect()
    };
    messages.flat_map(of_message).collect()
}

fn pointers(body: &Value, base: &str, is: &dyn Fn(&Value) -> bool) -> Vec<String> {
    let Some(value) = body.pointer(base) else { return Vec::new() };
    if is(value) {
        return vec![base.to_owned()];
    }
    match value {
        Value::Array(values) => {
            (0..values.len()).flat_map(|index| pointers(body, &format!("{base}/{index}"), is)).collect()
        }
        Value::Object(members) => {
            members.keys().flat_map(|name| pointers(body, &format!("{base}/{name}"), is)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the body without the result of a tool that the provider ran. `None` if no message follows, or if the message
/// also calls a client's tool: the provider's program may be waiting for the client's result.
fn without_hosted(body: &Value, at: &str) -> Option<Value> {
    let mut changed = body.clone();
    let (list, index) = at.rsplit_once('/')?;
    let message: usize = at.split('/').nth(2)?.parse().ok()?;
    changed["messages"].get(message + 1)?;
    let mut blocks = changed["messages"][message]["content"].as_array()?.iter();
    if blocks.any(|block| block["type"] == "tool_use") {
        return None;
    }
    changed.pointer_mut(list)?.as_array_mut()?.remove(index.parse().ok()?);
    Some(changed)
}

/// Returns the body with an element twice.
fn doubled(body: &Value, at: &str) -> Option<Value> {
    let mut changed = body.clone();
    let (list, index) = at.rsplit_once('/')?;
    let list = changed.pointer_mut(list)?.as_array_mut()?;
    let index: usize = index.parse().ok()?;
    list.insert(index, list.get(index)?.clone());
    Some(changed)
}

/// Returns the body with two cache markers in the last user message with a text. The second marker lasts longer.
fn with_longer_marker(body: &Value) -> Option<Value> {
    let at = texts(Dialect::Anthropic, body).pop()?;
    let said = |marker: Value| json!({"type": "text", "text": "Yes.", "cache_control": marker});
    let markers = [json!({"type": "ephemeral"}), json!({"type": "ephemeral", "ttl": "1h"})].map(said);
    let mut changed = body.clone();
    match at.strip_suffix("/text") {
        Some(part) => {
            let list = changed.pointer_mut(part.rsplit_once('/')?.0)?.as_array_mut()?;
            list.extend(markers);
        }
        None => *changed.pointer_mut(&at)? = json!(markers),
    }
    Some(changed)
}

/// Returns the body with five cache markers in the last user message with a text.
fn marked(dialect: Dialect, body: &Value) -> Option<Value> {
    let at = texts(dialect, body).pop()?;
    let text = body.pointer(&at)?.clone();
    let (content, part) = match dialect {
        Dialect::Anthropic => {
            (json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}), at.strip_suffix("/text"))
        }
        _ => (json!({"cachePoint": {"type": "default"}}), at.strip_suffix("/text")),
    };
    let mut changed = body.clone();
    match part {
        Some(part) => {
            let (list, index) = part.rsplit_once('/')?;
            let (list, index) = (changed.pointer_mut(list)?.as_array_mut()?, index.parse::<usize>().ok()?);
            (0..5).for_each(|_| list.insert(index + 1, content.clone()));
        }
        None => *changed.pointer_mut(&at)? = Value::Array(vec![content; 5]),
    }
    Some(changed)
}

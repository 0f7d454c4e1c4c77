//! Property test of lines with the behavior of real clients: no line ever contains another line's message, and a
//! conversation stays in its session.

use std::collections::{BTreeMap, BTreeSet};

use lookback_wire::dialect::Request;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use super::access::with_keys;
use super::*;

/// A kind of client: its dialect, and the headers with which it names its conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Sends no names, like most clients and all SDKs.
    Silent(Dialect),
    /// Names a session, and an agent within it.
    ClaudeCode,
    /// Names a session, and a thread within it.
    Codex,
    /// Names a session for each agent.
    Opencode,
}

/// A step of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Sends a message.
    Say,
    /// Runs a tool that the model calls.
    RunTool,
    /// Asks again for the last answer, marked as a retry.
    Retry,
    /// Drops the last answer, and appends text to the message before it.
    Grow,
    /// Writes texts as blocks, and moves a cache marker.
    Rewrite,
    /// Changes the date in the system prompt.
    NextDay,
    /// Copies the conversation, and continues with the copy.
    Fork,
    /// Starts an agent whose first message equals that of others.
    Delegate,
    /// Asks for a title.
    Title,
    /// Asks where to route the last message.
    Route,
    /// Has tokens counted.
    Count,
    /// Asks what is worth remembering, with other tools.
    Extract,
    /// Has the history summarized, and continues with the summary.
    Compact,
    /// The same, with the history as one text, and with the newest messages after the summary.
    CompactAsText,
    /// The same, with the beginning of the history, and with the rest after the summary.
    CompactBeginning,
    /// The same as [`Step::Compact`], in words of no known client.
    CompactInOtherWords,
    /// The same, in words that do not name a summary, but without tools.
    CompactWithoutTools,
    /// Asks the last question again, without a mark.
    AskAgain,
    /// Sends a message with text that later requests do not have.
    Remind,
    /// Clears the results of old tool calls.
    Clear,
    /// Sends only the newest messages from now on.
    Trim,
    /// Takes some of its tools away, or gives them back.
    ChangeMode,
    /// Restarts the gateway.
    Restart,
}

const STEPS: [(u32, Step); 23] = [
    (9, Step::Say),
    (4, Step::RunTool),
    (2, Step::Retry),
    (1, Step::Grow),
    (1, Step::Rewrite),
    (1, Step::NextDay),
    (2, Step::Fork),
    (2, Step::Delegate),
    (1, Step::Title),
    (1, Step::Route),
    (1, Step::Count),
    (1, Step::Extract),
    (1, Step::Compact),
    (1, Step::CompactAsText),
    (1, Step::CompactBeginning),
    (1, Step::CompactInOtherWords),
    (1, Step::CompactWithoutTools),
    (1, Step::AskAgain),
    (2, Step::Remind),
    (1, Step::Clear),
    (1, Step::Trim),
    (1, Step::ChangeMode),
    (1, Step::Restart),
];

/// A conversation of a client.
#[derive(Clone)]
struct Talk {
    shape: Shape,
    client: Client,
    tenant: &'static str,
    /// Distinguishes its messages from those of the same tenant's other conversations. Both tenants use the same
    /// labels.
    label: String,
    agent: Option<usize>,
    day: u32,
    /// The number of messages that it has sent.
    count: usize,
    /// The texts of all messages that it has ever contained, including those copied from another conversation.
    ever: BTreeSet<String>,
    /// Its session, if its next request must continue it.
    session: Option<String>,
    /// Whether its session began with another message.
    has_another_beginning: bool,
}

impl Talk {
    fn new(shape: Shape, (tenant, key): (&'static str, &str), label: String, agent: Option<usize>) -> Talk {
        let dialect = match shape {
            Shape::Silent(dialect) => dialect,
            Shape::ClaudeCode => Dialect::Anthropic,
            Shape::Codex => Dialect::OpenAiResponses,
            Shape::Opencode => Dialect::OpenAiChat,
        };
        let mut client = Client::new(dialect);
        client.tools = all_tools(agent);
        client.headers.push(("x-lookback-key", key.to_owned()));
        let (day, count, ever, session, has_another_beginning) = (20, 0, BTreeSet::new(), None, false);
        let mut talk = Talk { shape, client, tenant, label, agent, day, count, ever, session, has_another_beginning };
        talk.name(0);
        talk
    }

    /// Sets the names that this kind of client sends with each request. Both tenants send the same names.
    fn name(&mut self, copy: usize) {
        let (label, agent) = (self.label.split('.').next().unwrap_or_default(), self.agent);
        let own = format!("{label}-{copy}-{agent:?}");
        let named = match self.shape {
            Shape::Silent(_) => Vec::new(),
            Shape::ClaudeCode => {
                let agent = agent.map(|agent| ("x-claude-code-agent-id", format!("a-{agent}")));
                [Some(("x-claude-code-session-id", format!("s-{label}-{copy}"))), agent].into_iter().flatten().collect()
            }
            Shape::Codex => vec![("session-id", format!("s-{label}-{copy}")), ("thread-id", own)],
            Shape::Opencode => vec![("x-session-affinity", own)],
        };
        self.client.headers.truncate(1);
        self.client.headers.extend(named);
    }

    fn is_named(&self) -> bool {
        !matches!(self.shape, Shape::Silent(_))
    }

    /// Returns the text of a new message. No other conversation of the tenant sends it, except for the first one. The
    /// other tenant sends two thirds of them, too.
    fn words(&mut self, what: &str) -> String {
        self.count += 1;
        match self.count {
            1 => "Hi".to_owned(),
            count if count % 3 == 0 => format!("{what} ({} of {} at {count})", self.label, self.tenant),
            count => format!("{what} ({} at {count})", self.label),
        }
    }

    /// Returns the body of a request with its messages.
    fn body(&self) -> Value {
        let role = if self.agent.is_some() { "You are a sub-agent." } else { "You are an agent." };
        let system = format!("{role} Today's date is November {}, 2026.", self.day);
        let mut body = self.client.body();
        match self.client.dialect {
            Dialect::Anthropic => body["system"] = json!(system),
            Dialect::Gemini => body["systemInstruction"] = json!({"parts": [{"text": system}]}),
            Dialect::OpenAiResponses => body["instructions"] = json!(system),
            _ => {
                let messages = body["messages"].as_array_mut().unwrap();
                messages.insert(0, json!({"role": "system", "content": system}));
            }
        }
        body
    }

    fn send(&self, lab: &Lab, path: &str, more: &[(&str, &str)], body: &Value) -> Answer {
        let own = self.client.headers.iter().map(|(name, value)| (*name, value.as_str()));
        let headers: Vec<_> = own.chain(more.iter().copied()).collect();
        let answer = lab.post(path, &headers, body);
        assert_eq!(answer.status, 200, "{}: {} {body}", self.label, answer.body);
        answer
    }

    /// Sends the conversation, and keeps the answer. Checks that the conversation stayed in its session.
    fn ask(&mut self, lab: &Lab, more: &[(&str, &str)]) -> Answer {
        self.listen();
        let answer = self.send(lab, self.client.path(), more, &self.body());
        let session = answer.session().to_owned();
        self.has_another_beginning &= answer.header("x-lookback-line") != Some("new");
        if let Some(before) = self.session.replace(session.clone()) {
            assert_eq!(session, before, "{}: {:?}", self.label, answer.header("x-lookback-line"));
        }
        let said = replies(self.client.dialect, &answer.body);
        self.client.messages.extend(said);
        self.listen();
        answer
    }

    /// Records all texts of the conversation.
    fn listen(&mut self) {
        let request = Request::decode(self.body().to_string(), Some(self.client.dialect)).unwrap();
        self.ever.extend(request.messages().iter().map(lookback_wire::message::Message::text));
    }

    fn say(&mut self, lab: &Lab, what: &str) {
        let words = self.words(what);
        let message = self.client.said("user", &words);
        self.client.messages.push(message);
        self.ask(lab, &[]);
    }

    /// Removes the last answer of the model.
    fn unsay(&mut self) {
        let is_users = |message: &Value| {
            message["role"] == "user" || message["role"] == "tool" || message["type"] == "function_call_output"
        };
        while self.client.messages.last().is_some_and(|message| !is_users(message)) {
            self.client.messages.pop();
        }
    }

    fn run_tool(&mut self, lab: &Lab) {
        // Each call has another length, because the calls' identifiers are made from it.
        let what = format!("CALL read {{\"path\":\"{}\"}}", "x".repeat(self.count));
        self.say(lab, &what);
        let request = Request::decode(self.body().to_string(), Some(self.client.dialect)).unwrap();
        let answer = request
            .messages()
            .iter()
            .rev()
            .take_while(|message| message.role() == lookback_wire::message::Role::Assistant);
        let calls: Vec<String> =
            answer.flat_map(lookback_wire::message::Message::tool_calls).map(|(_, call)| call.id.clone()).collect();
        for id in &calls {
            let text = format!("A file ({} at {})", self.label, self.count);
            self.client.messages.push(self.client.result(id, &text));
        }
        if !calls.is_empty() {
            self.ask(lab, &[]);
        }
    }

    /// Writes the texts of users as blocks, with a cache marker on the last one, or as strings again.
    fn rewrite(&mut self) {
        let is_last = |at: usize, all: usize| at + 1 == all;
        let all = self.client.messages.len();
        for (at, message) in
            self.client.messages.iter_mut().enumerate().filter(|(_, message)| message["role"] == "user")
        {
            let kind = match self.client.dialect {
                Dialect::OpenAiResponses => "input_text",
                Dialect::Anthropic | Dialect::OpenAiChat => "text",
                _ => return,
            };
            let content = &mut message["content"];
            if let Some(text) = content.as_str() {
                *content = json!([{"type": kind, "text": text}]);
                if self.client.dialect == Dialect::Anthropic && is_last(at + 2, all) {
                    content[0]["cache_control"] = json!({"type": "ephemeral"});
                }
            } else if content[0]["type"] == kind {
                *content = content[0]["text"].clone();
            }
        }
    }

    /// Sends a side call, which must not become part of any session.
    fn aside(&self, lab: &Lab, path: &str, body: &Value) -> Answer {
        let answer = self.send(lab, path, &[], body);
        assert_eq!(answer.header("x-lookback-session"), None, "{}: {body}", self.label);
        answer
    }

    /// Asks for a structured answer, without tools.
    fn ask_form(&self, lab: &Lab, messages: Vec<Value>) {
        let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}});
        let mut body = Client { messages, tools: Vec::new(), ..self.client.clone() }.body();
        match self.client.dialect {
            Dialect::Anthropic => body["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}}),
            Dialect::OpenAiResponses => {
                body["text"] = json!({"format": {"type": "json_schema", "name": "n", "schema": schema}});
            }
            Dialect::Gemini => {
                body["generationConfig"] =
                    json!({"responseMimeType": "application/json", "responseJsonSchema": schema});
            }
            _ => {
                body["response_format"] =
                    json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
            }
        }
        self.aside(lab, self.client.path(), &body);
    }

    /// Has the history, or its beginning, summarized, and continues with the summary instead.
    fn compact(&mut self, lab: &Lab, step: Step) {
        let text = match step {
            Step::CompactInOtherWords => {
                "The window is nearly full. Condense our whole chat into a summary for yourself."
            }
            Step::CompactWithoutTools => "State all that matters, as a summary in ten points.",
            _ => "CRITICAL: Respond with TEXT ONLY. Create a detailed summary of the conversation so far.",
        };
        let mut asks = self.client.clone();
        let is_said = |message: &Value| message["role"] == "user" && !text_of(message).is_empty();
        let last = asks.messages.iter().rposition(is_said).unwrap();
        let mut kept = self.client.messages.split_off(last);
        match step {
            Step::CompactAsText => {
                let history: String = self.ever.iter().cloned().collect();
                asks.messages =
                    vec![self.client.said("user", &format!("<conversation>{history}</conversation> {text}"))];
                asks.tools = Vec::new();
            }
            Step::CompactBeginning => {
                asks.messages.truncate(last);
                asks.messages.push(self.client.said("user", text));
                kept.insert(0, self.client.said("assistant", "Understood."));
            }
            _ => {
                if step == Step::CompactWithoutTools {
                    asks.tools = Vec::new();
                }
                asks.messages.push(self.client.said("user", text));
                kept = vec![self.client.said("assistant", "Understood.")];
            }
        }
        let answer = self.aside(lab, asks.path(), &asks.body());
        let summary = asks.words(&answer);
        let first = format!("This session is being continued from a previous conversation.\n\n{summary}");
        self.client.messages = [vec![self.client.said("user", &first)], kept].concat();
        self.has_another_beginning = true;
        self.say(lab, "Go on");
    }

    /// Sends a message with text that later requests do not have.
    fn remind(&mut self, lab: &Lab) {
        let words = self.words("Look");
        let reminded = format!("<reminder>The file is open at {}.</reminder>\n{words}", self.count);
        self.client.messages.push(self.client.said("user", &reminded));
        let at = self.client.messages.len() - 1;
        self.ask(lab, &[]);
        self.client.messages[at] = self.client.said("user", &words);
        self.say(lab, "Go on");
    }

    /// Replaces the results of all tool calls.
    fn clear(&mut self) {
        for message in &mut self.client.messages {
            let place = match self.client.dialect {
                Dialect::Anthropic => "/content/0/content",
                Dialect::OpenAiResponses => "/output",
                Dialect::Gemini => "/parts/0/functionResponse/response/output",
                _ if message["role"] == "tool" => "/content",
                _ => continue,
            };
            if let Some(result) = message.pointer_mut(place).filter(|result| result.is_string()) {
                *result = json!("[cleared]");
            }
        }
    }

    /// Removes all messages but those from the last one but two of a person.
    fn trim(&mut self) {
        let is_said = |(_, message): &(usize, &Value)| message["role"] == "user" && !text_of(message).is_empty();
        let said: Vec<usize> = self.client.messages.iter().enumerate().filter(is_said).map(|(at, _)| at).collect();
        if let [.., first, _] = said[..] {
            self.client.messages.drain(..first);
            self.has_another_beginning = true;
        }
    }

    /// Asks what is worth remembering, with other tools, which makes it a separate line.
    fn extract(&self, lab: &Lab) -> Talk {
        let mut talk = Talk { session: None, ..self.clone() };
        talk.client.tools = vec!["remember"];
        talk.client.messages.push(self.client.said("user", "What is worth remembering?"));
        talk.ask(lab, &[]);
        assert_ne!(talk.session, self.session, "{}", self.label);
        talk
    }
}

/// Returns the tools of a conversation, or of a sub-agent, in its usual mode.
fn all_tools(agent: Option<usize>) -> Vec<&'static str> {
    if agent.is_some() { vec!["find", "read", "search"] } else { vec!["list", "read", "write"] }
}

/// A gateway with the conversations of both tenants.
struct World {
    lab: Lab,
    config: String,
    keys: Vec<String>,
    talks: [Vec<Talk>; 2],
    /// Conversations that only resemble others.
    asides: [Vec<Talk>; 2],
}

const TENANTS: [&str; 2] = ["ann", "bob"];

impl World {
    fn new(shapes: &[Shape]) -> World {
        let (lab, keys, config) = with_keys(&TENANTS);
        let talks = |tenant: &'static str, key: &String| {
            let talk = |(at, shape): (usize, &Shape)| Talk::new(*shape, (tenant, key), format!("{at}"), None);
            shapes.iter().enumerate().map(talk).collect()
        };
        let talks = [talks(TENANTS[0], &keys[0]), talks(TENANTS[1], &keys[1])];
        World { lab, config, keys, talks, asides: Default::default() }
    }

    fn step(&mut self, tenant: usize, which: usize, step: Step) {
        if step == Step::Restart {
            self.lab = self.lab.restarted(&self.config);
            // The store finds a conversation by its first message, which another one has replaced.
            let is_lost = |talk: &&mut Talk| !talk.is_named() && talk.has_another_beginning;
            self.talks.iter_mut().flatten().filter(is_lost).for_each(|talk| talk.session = None);
            return;
        }
        let number = self.talks[tenant].len();
        let lab = &self.lab;
        let talk = &mut self.talks[tenant][which % number];
        let has_begun = talk.session.is_some() || talk.count > 0;
        match step {
            _ if !has_begun => talk.say(lab, "Hi"),
            Step::Say => talk.say(lab, "Go on"),
            Step::RunTool => talk.run_tool(lab),
            // Another conversation with the same first message could be meant.
            Step::Retry if !talk.is_named() && talk.count == 1 => talk.say(lab, "Go on"),
            Step::Retry => {
                talk.unsay();
                talk.ask(lab, &[("x-stainless-retry-count", "1")]);
            }
            Step::Grow => {
                talk.say(lab, "Well");
                talk.unsay();
                let last = talk.client.messages.pop().unwrap();
                let grown = format!("{} [interrupted]", text_of(&last));
                talk.client.messages.push(talk.client.said("user", &grown));
                talk.ask(lab, &[]);
            }
            Step::Rewrite => {
                talk.rewrite();
                talk.say(lab, "Go on");
            }
            Step::NextDay => {
                talk.day += 1;
                talk.say(lab, "Good morning");
            }
            Step::Fork => {
                let mut copy = talk.clone();
                copy.label = format!("{}.{number}", talk.label);
                copy.name(number);
                copy.session = None;
                if !talk.is_named() {
                    // The first of the two that continues keeps the session.
                    talk.session = None;
                }
                copy.say(lab, "Let us try something else");
                self.talks[tenant].push(copy);
            }
            Step::Delegate => {
                let key = (TENANTS[tenant], &*self.keys[tenant]);
                let label = format!("{}.{number}", talk.label);
                let mut agent = Talk::new(talk.shape, key, label, Some(number));
                agent.say(lab, "Hi");
                self.talks[tenant].push(agent);
            }
            Step::Title => talk.ask_form(lab, vec![talk.client.said("user", "Write a title for: Hi")]),
            Step::Route => {
                let is_text = |message: &&Value| message["role"] == "user" && !text_of(message).is_empty();
                let last = talk.client.messages.iter().rev().find(is_text).cloned();
                talk.ask_form(lab, last.into_iter().collect());
            }
            Step::Count => {
                let path = match talk.client.dialect {
                    Dialect::Gemini => "/v1beta/models/m:countTokens",
                    Dialect::OpenAiResponses => "/v1/responses/input_tokens",
                    _ => "/v1/messages/count_tokens",
                };
                talk.aside(lab, path, &talk.body());
            }
            Step::Extract => {
                let extract = talk.extract(lab);
                self.asides[tenant].push(extract);
            }
            Step::Compact | Step::CompactInOtherWords => talk.compact(lab, step),
            // Nobody could tell it from a turn of a client without tools.
            Step::CompactWithoutTools if talk.is_named() => talk.say(lab, "Go on"),
            Step::AskAgain => {
                // A gateway that has just started does not know which answers the model gave.
                talk.say(lab, "Now");
                talk.say(lab, "And?");
                talk.unsay();
                talk.ask(lab, &[]);
            }
            Step::Remind => talk.remind(lab),
            Step::Clear => {
                talk.clear();
                talk.say(lab, "Go on");
            }
            Step::Trim => {
                talk.say(lab, "Now");
                talk.trim();
                talk.say(lab, "Go on");
            }
            Step::ChangeMode => {
                let all = all_tools(talk.agent);
                let fewer = all.iter().copied().filter(|tool| *tool != "write" && *tool != "search").collect();
                talk.client.tools = if talk.client.tools == all { fewer } else { all };
                talk.say(lab, "Go on");
            }
            Step::CompactAsText | Step::CompactBeginning | Step::CompactWithoutTools => {
                // A gateway that has just started does not know the newest messages of conversations that have not
                // continued yet.
                talk.say(lab, "Now");
                talk.compact(lab, step);
            }
            Step::Restart => {}
        }
    }

    /// Checks that each session contains only messages of one conversation, and that each conversation's messages are
    /// in its session.
    fn check(&self) {
        for (at, tenant) in TENANTS.iter().enumerate() {
            let store = self.lab.store.scoped(&tenant.parse().unwrap()).unwrap();
            let names = futures_lite::future::block_on(store.list("")).unwrap();
            let texts: BTreeMap<String, Vec<String>> =
                names.iter().map(|info| (info.name.to_string(), texts(&store, info.name.as_str()))).collect();
            for (name, texts) in &texts {
                let all = self.talks[at].iter().chain(&self.asides[at]);
                let says = |talk: &Talk| texts.iter().all(|text| talk.ever.contains(text));
                assert!(all.into_iter().any(says), "{tenant}: nobody said all of {name}: {texts:?}");
            }
            for talk in &self.talks[at] {
                let Some(session) = &talk.session else { continue };
                let request = Request::decode(talk.body().to_string(), Some(talk.client.dialect)).unwrap();
                let said =
                    request.messages().iter().filter(|message| message.role() != lookback_wire::message::Role::System);
                let mut kept = texts[session].iter();
                for text in said.map(lookback_wire::message::Message::text) {
                    assert!(kept.any(|kept| *kept == text), "{tenant}: {session} lacks {text}: {:?}", texts[session]);
                }
            }
        }
    }
}

/// The text of a plain message.
fn text_of(message: &Value) -> String {
    let texts = [&message["content"], &message["content"][0]["text"], &message["parts"][0]["text"]];
    texts.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let silent = prop::sample::select(DIALECTS.to_vec()).prop_map(Shape::Silent);
    let shape =
        prop_oneof![4 => silent, 1 => Just(Shape::ClaudeCode), 1 => Just(Shape::Codex), 1 => Just(Shape::Opencode)];
    prop::collection::vec(shape, 2..4)
}

fn steps() -> impl Strategy<Value = Vec<(usize, usize, Step)>> {
    let step = prop::strategy::Union::new_weighted(STEPS.map(|(weight, step)| (weight, Just(step))).to_vec());
    prop::collection::vec((0usize..2, 0usize..8, step), 1..40)
}

/// Runs the same cases each time. Set `PROPTEST_CASES` and `PROPTEST_RNG_SEED` to search for others.
fn config() -> Config {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    Config {
        cases: number("PROPTEST_CASES").unwrap_or(48),
        max_shrink_iters: 200,
        rng_seed: RngSeed::Fixed(number("PROPTEST_RNG_SEED").unwrap_or(7).into()),
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// Clients of two tenants send the same messages, and take all steps of real clients.
    #[test]
    fn no_line_ever_holds_anothers_message(shapes in shapes(), steps in steps()) {
        let mut world = World::new(&shapes);
        for (tenant, which, step) in steps {
            world.step(tenant, which, step);
        }
        world.check();
    }
}

#[test]
fn after_a_restart_a_conversation_does_not_join_one_that_began_alike() {
    let (gemini, chat) = (Shape::Silent(Dialect::Gemini), Shape::Silent(Dialect::OpenAiChat));
    let mut world = World::new(&[gemini, chat, gemini]);
    let steps =
        [(2, Step::Say), (0, Step::Say), (0, Step::Fork), (3, Step::Compact), (0, Step::Restart), (0, Step::Say)];
    for (which, step) in steps {
        world.step(0, which, step);
    }
    world.check();
}

//! The gateway, in front of a stand-in for the providers.

mod access;
mod additions;
mod arrival;
mod calls;
mod compaction;
mod compress;
mod failing_store;
mod guard;
mod inspect;
mod lines;
mod payoff;
mod rest;
mod shadow;
mod shapes;
mod slow;
mod unreachable;

use std::sync::Arc;

use lookback_engine::{Settings, policy::Policy};
use lookback_server::gateway::{Config, Gateway};
use lookback_session::Session;
use lookback_store::{MemoryStore, Store};
use lookback_wire::dialect::Dialect;
use serde_json::{Value, json};
use stand_in::StandIn;

/// A gateway in front of a stand-in for the providers.
struct Lab {
    stand_in: StandIn,
    stand_in_address: String,
    store: Arc<dyn Store>,
    base: String,
}

/// An answer to a client.
struct Answer {
    status: u16,
    headers: ureq::http::HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn session(&self) -> &str {
        self.header("x-lookback-session").unwrap_or_else(|| panic!("no session: {:?}", self.headers))
    }
}

impl Lab {
    fn new(policy: Option<Policy>) -> Lab {
        Lab::on(Arc::new(MemoryStore::new()), policy)
    }

    fn on(store: Arc<dyn Store>, policy: Option<Policy>) -> Lab {
        let (stand_in, upstream) = StandIn::start();
        let config = Config::from_toml("adds = []").unwrap();
        let mut gateway = Gateway::new(store.clone()).with_config(config).with_upstream(upstream.parse().unwrap());
        if let Some(policy) = policy {
            gateway = gateway.with_policy(policy);
        }
        let base = serve(gateway);
        Lab { stand_in, stand_in_address: upstream, store, base }
    }

    /// Starts a gateway with a configuration, in which `UPSTREAM` is the address of the stand-in. Unless it names
    /// additions, there are none.
    fn configured(config: &str) -> Lab {
        Lab::configured_with(config, Gateway::policy())
    }

    fn configured_with(config: &str, policy: Policy) -> Lab {
        let (stand_in, upstream) = StandIn::start();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut config = Config::from_toml(&config.replace("UPSTREAM", &upstream)).unwrap();
        config.adds = config.adds.or(Some(Vec::new()));
        let base = serve(Gateway::new(store.clone()).with_config(config).with_policy(policy));
        Lab { stand_in, stand_in_address: upstream, store, base }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build().into();
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut answer = agent.run(request.body(body.to_owned()).unwrap()).unwrap();
        let body = answer.body_mut().read_to_string().unwrap_or_default();
        Answer { status: answer.status().as_u16(), headers: answer.headers().clone(), body }
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let headers = [&[("content-type", "application/json"), ("authorization", "Bearer k")], headers].concat();
        self.send("POST", path, &headers, &body.to_string())
    }

    /// Returns the texts of the messages in a session, in order.
    fn texts(&self, session: &str) -> Vec<String> {
        texts(&self.store, session)
    }

    /// Starts a new gateway with the same store and the same stand-in.
    fn restarted(&self, config: &str) -> Lab {
        let mut config = Config::from_toml(&config.replace("UPSTREAM", &self.stand_in_address)).unwrap();
        config.adds = config.adds.or(Some(Vec::new()));
        let base = serve(Gateway::new(self.store.clone()).with_config(config).with_policy(Policy::never_compact()));
        let (stand_in, stand_in_address) = (self.stand_in.clone(), self.stand_in_address.clone());
        Lab { stand_in, stand_in_address, store: self.store.clone(), base }
    }
}

/// Returns the texts of the messages in a session, in order.
fn texts(store: &Arc<dyn Store>, session: &str) -> Vec<String> {
    futures_lite::future::block_on(async {
        let mut session = Session::open(store.clone(), session, Settings::default()).await.unwrap();
        let history = session.history().await.unwrap();
        history.iter().map(|entry| entry.arrival.message.text()).collect()
    })
}

/// Serves a gateway on a free port, and returns its address.
fn serve(gateway: Gateway) -> String {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || gateway.serve("127.0.0.1:0".parse().unwrap(), |address| send.send(address).unwrap()));
    format!("http://{}", receive.recv().unwrap())
}

/// A conversation in one dialect, as a client stores it. The client sends all of it with each request.
#[derive(Clone)]
struct Client {
    dialect: Dialect,
    messages: Vec<Value>,
    headers: Vec<(&'static str, String)>,
    tools: Vec<&'static str>,
    model: &'static str,
    stream: bool,
    /// Other members of a request.
    more: Value,
}

impl Client {
    fn new(dialect: Dialect) -> Client {
        Client {
            dialect,
            messages: Vec::new(),
            headers: Vec::new(),
            tools: vec!["read"],
            model: "m",
            stream: false,
            more: json!({}),
        }
    }

    fn path(&self) -> &'static str {
        match (self.dialect, self.stream) {
            (Dialect::Anthropic, _) => "/v1/messages?beta=true",
            (Dialect::OpenAiResponses, _) => "/v1/responses",
            (Dialect::Gemini, true) => "/v1beta/models/m:streamGenerateContent?alt=sse",
            (Dialect::Gemini, false) => "/v1beta/models/m:generateContent",
            _ => "/v1/chat/completions",
        }
    }

    fn said(&self, role: &str, text: &str) -> Value {
        match (self.dialect, role) {
            (Dialect::Gemini, "assistant") => json!({"role": "model", "parts": [{"text": text}]}),
            (Dialect::Gemini, role) => json!({"role": role, "parts": [{"text": text}]}),
            (Dialect::OpenAiResponses, "assistant") => {
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]})
            }
            (_, role) => json!({"role": role, "content": text}),
        }
    }

    /// Returns the result of a call of the tool `read`.
    fn result(&self, id: &str, text: &str) -> Value {
        match self.dialect {
            Dialect::Anthropic => {
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]})
            }
            Dialect::OpenAiResponses => json!({"type": "function_call_output", "call_id": id, "output": text}),
            Dialect::Gemini => {
                json!({"role": "user", "parts": [{"functionResponse": {"id": id, "name": "read", "response": {"output": text}}}]})
            }
            _ => json!({"role": "tool", "tool_call_id": id, "content": text}),
        }
    }

    fn body(&self) -> Value {
        let tool = |name: &&str| self.dialect.tool(name, "", &json!({"type": "object"}));
        let tools: Vec<_> = self.tools.iter().map(tool).collect();
        let mut body = match self.dialect {
            Dialect::Anthropic => {
                json!({"model": self.model, "max_tokens": 9, "stream": self.stream, "tools": tools, "messages": self.messages})
            }
            Dialect::OpenAiResponses => {
                json!({"model": self.model, "stream": self.stream, "store": false, "tools": tools, "input": self.messages})
            }
            Dialect::Gemini => json!({"tools": tools, "contents": self.messages}),
            _ => json!({"model": self.model, "stream": self.stream, "tools": tools, "messages": self.messages}),
        };
        for (name, value) in self.more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        body
    }

    /// Sends a message, and keeps the answer.
    fn say(&mut self, lab: &Lab, text: &str) -> Answer {
        self.messages.push(self.said("user", text));
        let answer = self.ask(lab);
        if answer.status == 200 {
            let words = self.words(&answer);
            self.messages.push(self.said("assistant", &words));
        }
        answer
    }

    fn ask(&self, lab: &Lab) -> Answer {
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        lab.post(self.path(), &headers, &self.body())
    }

    /// Returns the model's words in an answer.
    fn words(&self, answer: &Answer) -> String {
        if !self.stream {
            return lookback_wire::dialect::Response::decode(&answer.body, self.dialect).unwrap().text();
        }
        let mut stream = lookback_wire::dialect::ResponseStream::new(self.dialect);
        stream.read(answer.body.as_bytes());
        stream.response().unwrap().text()
    }
}

const DIALECTS: [Dialect; 4] = [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Anthropic, Dialect::Gemini];

/// Returns the model's part of an answer, as messages for the next request.
fn replies(dialect: Dialect, answer: &str) -> Vec<Value> {
    let mut answer: Value = serde_json::from_str(answer).unwrap();
    match dialect {
        Dialect::Anthropic => vec![json!({"role": "assistant", "content": answer["content"]})],
        Dialect::OpenAiResponses => answer["output"].as_array().unwrap().clone(),
        Dialect::Gemini => vec![answer["candidates"][0]["content"].take()],
        _ => vec![answer["choices"][0]["message"].take()],
    }
}

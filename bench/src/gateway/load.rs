//! A client that sends the whole history of a growing conversation with each request.

use std::io::Read as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The size of a conversation's requests.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub name: &'static str,
    bytes: usize,
    /// The bytes of a user message. An assistant message has a fifth of them.
    message: usize,
}

impl Size {
    pub const TINY: Size = Size { name: "1 KB", bytes: 1_000, message: 100 };
    pub const SMALL: Size = Size { name: "20 KB", bytes: 20_000, message: 500 };
    pub const LARGE: Size = Size { name: "1 MB", bytes: 1_000_000, message: 10_000 };
    pub const FEW: Size = Size { name: "1 MB, 50 messages", bytes: 1_000_000, message: 29_000 };
    pub const MANY: Size = Size { name: "1 MB, 5,000 messages", bytes: 1_000_000, message: 250 };
}

/// The requests of a conversation. Each adds an equal share, from three quarters to five quarters of the size.
const STEPS: usize = 20;

/// The client's key. LiteLLM requires a long one.
pub const KEY: &str = "sk-3f1c8a40be6d4a7d9b0e5c2a7f6e1d3c";

/// The number in the first message of the next conversation, so that no two conversations begin with the same text.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

pub struct Conversation {
    agent: ureq::Agent,
    url: String,
    size: Size,
    /// The messages as JSON, each after a comma.
    messages: String,
    steps: usize,
    most: usize,
}

impl Conversation {
    pub fn new(base: &str, size: Size) -> Conversation {
        let agent = ureq::Agent::config_builder().build().into();
        let url = format!("{base}/v1/chat/completions");
        Conversation { agent, url, size, messages: String::new(), steps: STEPS, most: STEPS }
    }

    /// Sets the number of requests before the next conversation begins.
    pub fn with_steps(self, steps: usize) -> Conversation {
        Conversation { most: steps, steps, ..self }
    }

    /// Sends the next request, and returns the seconds until the first byte of the answer.
    pub fn say(&mut self, stream: bool) -> f64 {
        if self.steps >= self.most {
            self.begin();
        }
        self.steps += 1;
        let step = self.size.bytes / 2 / STEPS;
        self.push("user", step);
        let tail = if stream { ",\"stream\":true}" } else { "}" };
        let body = format!(
            "{{\"model\":\"gpt-4o\",\"messages\":[{{\"role\":\"system\",\"content\":\"You help.\"}}{}]{tail}",
            self.messages
        );
        let begun = Instant::now();
        let request = self.agent.post(&self.url).header("content-type", "application/json");
        let mut answer = request.header("authorization", format!("Bearer {KEY}")).send(&body).expect("an answer");
        let mut reader = answer.body_mut().as_reader();
        reader.read_exact(&mut [0]).expect("a first byte");
        let to_first = begun.elapsed().as_secs_f64();
        std::io::copy(&mut reader, &mut std::io::sink()).expect("the rest");
        let said = match stream {
            true => (0..20).map(|at| format!("Word {at}. ")).collect(),
            false => "The function returns the answer to the question, as its only line says.".to_owned(),
        };
        self.messages.push_str(&format!(",{{\"role\":\"assistant\",\"content\":\"{said}\"}}"));
        to_first
    }

    /// Begins another conversation, at three quarters of its size.
    fn begin(&mut self) {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        self.messages = format!(",{{\"role\":\"user\",\"content\":\"Conversation {number}.\"}}");
        self.steps = 0;
        while self.messages.len() < self.size.bytes * 3 / 4 {
            self.push("assistant", self.size.message / 5);
            self.push("user", self.size.message);
        }
        self.push("assistant", 50);
    }

    fn push(&mut self, role: &str, length: usize) {
        let at = self.messages.len();
        let line = format!("At {at}: fn answer() -> u64 {{ 42 }}\\n");
        let text = line.repeat((length / line.len()).max(1));
        self.messages.push_str(&format!(",{{\"role\":\"{role}\",\"content\":\"{text}\"}}"));
    }
}

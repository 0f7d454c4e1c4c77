//! The work that an input causes grows with its length and no faster, whatever identifiers it repeats.
//!
//! Work is counted in steps, not in time. Steps are the counters that the compiler puts into every branch for `-C
//! instrument-coverage`. So the module exists only in a build with `RUSTFLAGS="-C instrument-coverage --cfg steps"`,
//! which counts the dependencies, too.

use lookback_engine::policy::Caps;
use lookback_engine::{
    Engine, Settings,
    policy::{Index, Limits, Policy, Repeats, Stage},
};
use lookback_tokens::Uncounted;
use lookback_tokens::cut::Truncation;
use lookback_wire::dialect::{Dialect, Request};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::{Bytes, sent};

/// The most steps that a byte of input may cost. Inputs that consist of identifiers cost up to a third of it.
pub const MOST_STEPS_A_BYTE: u64 = 1_000;

/// The steps that an empty input may cost: the tables that are built once.
pub const BASE: u64 = 20_000_000;

/// Calls, results, texts or messages that collide. A [`Program`] says how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motif {
    /// One assistant message with calls of one identifier.
    SameCalls,
    /// The same, but each call has the identifier that the repair of an earlier one would choose.
    NamedAsRepaired,
    /// One assistant message with calls of different identifiers.
    Calls,
    /// Results of one identifier, in one message if the dialect allows it.
    SameResults,
    /// Results in reverse order of the calls.
    ResultsBackwards,
    /// Rounds of one identifier: a call and its result.
    SameRounds,
    /// Calls without results, each in a message of its own.
    OpenRounds,
    /// Calls without identifiers, each in a message of its own, and results that name only the tool.
    Nameless,
    /// System messages.
    Systems,
    /// User messages.
    Users,
    /// One message of blank texts.
    Blanks,
    /// One assistant message of texts, and as many calls with broken arguments.
    BrokenArguments,
    /// One result of items that are long enough to be cut.
    LongItems,
    /// One message with members that no dialect knows, followed by one of the same role.
    Members,
    /// A window is made. Calls without results get stand-ins.
    Window,
}

impl Motif {
    /// All motifs.
    pub const ALL: [Motif; 15] = [
        Motif::SameCalls,
        Motif::NamedAsRepaired,
        Motif::Calls,
        Motif::SameResults,
        Motif::ResultsBackwards,
        Motif::SameRounds,
        Motif::OpenRounds,
        Motif::Nameless,
        Motif::Systems,
        Motif::Users,
        Motif::Blanks,
        Motif::BrokenArguments,
        Motif::LongItems,
        Motif::Members,
        Motif::Window,
    ];

    fn messages(self, dialect: Dialect, count: usize) -> Vec<Value> {
        let call = |id: &str| call(dialect, id, json!({"path": "a"}));
        let ids = |backward: bool| {
            let id = move |at: usize| format!("c_{}", if backward { count - at } else { at + 1 });
            (0..count).map(id)
        };
        match self {
            Motif::SameCalls => vec![assistant(dialect, (0..count).map(|_| call("c")).collect())],
            Motif::NamedAsRepaired => {
                let named = ids(false).map(|id| call(&id));
                vec![assistant(dialect, named.chain((0..count).map(|_| call("c"))).collect())]
            }
            Motif::Calls => vec![assistant(dialect, ids(false).map(|id| call(&id)).collect())],
            Motif::SameResults => results(dialect, (0..count).map(|_| "c".to_owned())),
            Motif::ResultsBackwards => results(dialect, ids(true)),
            Motif::SameRounds => {
                let round =
                    |_| [vec![assistant(dialect, vec![call("c")])], results(dialect, ["c".to_owned()])].concat();
                (0..count).flat_map(round).collect()
            }
            Motif::OpenRounds => ids(false).map(|id| assistant(dialect, vec![call(&id)])).collect(),
            Motif::Nameless => {
                let calls = (0..count).map(|_| assistant(dialect, vec![call("")]));
                calls.chain(results(dialect, (0..count).map(|_| String::new()))).collect()
            }
            Motif::Systems => (0..count).map(|_| said(dialect, "system", "s")).collect(),
            Motif::Users => (0..count).map(|_| said(dialect, "user", "u")).collect(),
            Motif::Blanks => vec![json!({"role": "user", (content(dialect)): vec![text(dialect, " "); count]})],
            Motif::BrokenArguments => {
                let broken = (0..count).map(|at| self::call(dialect, &format!("c{at}"), json!([])));
                vec![with_texts(dialect, count, broken.collect())]
            }
            Motif::LongItems => {
                let items = vec![text(dialect, &"long ".repeat(20)); count];
                let items = if dialect == Dialect::Gemini { json!({"output": items}) } else { items.into() };
                vec![assistant(dialect, vec![call("long")]), result(dialect, "long", items)]
            }
            Motif::Members => {
                let mut many = said(dialect, "user", "u");
                (0..count).for_each(|at| many[format!("member{at}")] = json!(0));
                vec![many, said(dialect, "user", "u")]
            }
            Motif::Window => Vec::new(),
        }
    }
}

fn text(dialect: Dialect, text: &str) -> Value {
    match dialect {
        Dialect::OpenAiChat | Dialect::Anthropic => json!({"type": "text", "text": text}),
        Dialect::Bedrock | Dialect::Gemini => json!({"text": text}),
        Dialect::OpenAiResponses => json!({"type": "input_text", "text": text}),
    }
}

/// The member that has the parts of a message.
fn content(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Gemini { "parts" } else { "content" }
}

fn said(dialect: Dialect, role: &str, words: &str) -> Value {
    match (dialect, role) {
        (Dialect::OpenAiChat | Dialect::OpenAiResponses, _) => json!({"role": role, "content": words}),
        (Dialect::Bedrock | Dialect::Gemini, "system") => said(dialect, "user", words),
        (_, _) => json!({"role": role, (content(dialect)): [text(dialect, words)]}),
    }
}

fn call(dialect: Dialect, id: &str, input: Value) -> Value {
    match dialect {
        Dialect::OpenAiChat => {
            json!({"id": id, "type": "function", "function": {"name": "f", "arguments": input.to_string()}})
        }
        Dialect::Anthropic => json!({"type": "tool_use", "id": id, "name": "f", "input": input}),
        Dialect::Bedrock => json!({"toolUse": {"toolUseId": id, "name": "f", "input": input}}),
        Dialect::OpenAiResponses => {
            json!({"type": "function_call", "call_id": id, "name": "f", "arguments": input.to_string()})
        }
        Dialect::Gemini if id.is_empty() => json!({"functionCall": {"name": "f", "args": input}}),
        Dialect::Gemini => json!({"functionCall": {"id": id, "name": "f", "args": input}}),
    }
}

fn assistant(dialect: Dialect, calls: Vec<Value>) -> Value {
    with_texts(dialect, 0, calls)
}

fn with_texts(dialect: Dialect, texts: usize, calls: Vec<Value>) -> Value {
    let texts = vec![text(dialect, "t"); texts];
    match dialect {
        Dialect::OpenAiChat => json!({"role": "assistant", "content": texts, "tool_calls": calls}),
        Dialect::OpenAiResponses => {
            let words = json!({"type": "message", "role": "assistant", "content": texts});
            let items: Vec<_> = std::iter::once(words).chain(calls).collect();
            if let [only] = items.as_slice() { only.clone() } else { items.into() }
        }
        Dialect::Gemini => json!({"role": "model", "parts": ([texts, calls].concat())}),
        _ => json!({"role": "assistant", "content": ([texts, calls].concat())}),
    }
}

fn result(dialect: Dialect, id: &str, content: Value) -> Value {
    match dialect {
        Dialect::OpenAiChat => json!({"role": "tool", "tool_call_id": id, "content": content}),
        Dialect::OpenAiResponses => json!({"type": "function_call_output", "call_id": id, "output": content}),
        _ => json!({"role": "user", (self::content(dialect)): [block(dialect, id, content)]}),
    }
}

fn block(dialect: Dialect, id: &str, content: Value) -> Value {
    match dialect {
        Dialect::OpenAiChat | Dialect::Anthropic => {
            json!({"type": "tool_result", "tool_use_id": id, "content": content})
        }
        Dialect::Bedrock => json!({"toolResult": {"toolUseId": id, "content": content}}),
        Dialect::Gemini if id.is_empty() => json!({"functionResponse": {"name": "f", "response": content}}),
        Dialect::Gemini => json!({"functionResponse": {"id": id, "name": "f", "response": content}}),
        other => unreachable!("{other}"),
    }
}

fn results(dialect: Dialect, ids: impl IntoIterator<Item = String>) -> Vec<Value> {
    let one = || if dialect == Dialect::Gemini { json!({"output": "r"}) } else { json!([text(dialect, "r")]) };
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => {
            ids.into_iter().map(|id| result(dialect, &id, one())).collect()
        }
        _ => {
            let blocks: Vec<_> = ids.into_iter().map(|id| block(dialect, &id, one())).collect();
            vec![json!({"role": "user", (content(dialect)): blocks})]
        }
    }
}

/// An input: a sequence of motifs.
#[derive(Debug, Clone)]
pub struct Program {
    /// The dialect of the messages.
    pub dialect: Dialect,
    /// Whether the policy truncates long messages and drops old ones.
    pub compacts: bool,
    /// The motifs, and how often each is repeated.
    pub motifs: Vec<(Motif, usize)>,
}

impl Program {
    /// Makes a program from a fuzzer's bytes.
    pub fn from_bytes(data: &[u8]) -> Program {
        let mut bytes = Bytes::new(data);
        let (dialect, compacts) = (bytes.choose(&Dialect::ALL), bytes.coin());
        let mut motifs = Vec::new();
        while bytes.any() && motifs.len() < 12 {
            motifs.push((bytes.choose(&Motif::ALL), 8 * bytes.below(256)));
        }
        Program { dialect, compacts, motifs }
    }

    /// Decodes, checks, takes in, repairs, plans and encodes the input, and returns its bytes and the steps.
    pub fn run(&self) -> (u64, u64) {
        let Program { dialect, compacts, .. } = *self;
        let inputs: Vec<(bool, Vec<String>)> = (self.motifs.iter())
            .map(|(motif, count)| {
                let messages = motif.messages(dialect, *count);
                (*motif == Motif::Window, messages.iter().map(Value::to_string).collect())
            })
            .collect();
        // In a request, the items of what the model said at once stand beside the others.
        let items = |message: &String| {
            let items = message.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            items.unwrap_or(message).to_owned()
        };
        let body = format!("[{}]", inputs.iter().flat_map(|(_, m)| m).map(items).collect::<Vec<_>>().join(","));
        let bytes = body.len() as u64;
        let before = steps();
        if let Ok(request) = Request::decode(body, Some(dialect)) {
            std::hint::black_box(dialect.check(&request));
        }
        let shortened = Truncation { head: 10, tail: 10, ..Truncation::default() };
        let policy = Policy {
            // There is a target, because a window that slides by a message costs its own size at each call.
            limits: Limits { bytes: compacts.then_some(bytes / 2), ..Limits::default() },
            target: compacts.then_some(Limits { bytes: Some(bytes / 4), ..Limits::default() }),
            stages: vec![Stage::TruncateResults { except_newest: 0, to: shortened }, Stage::Drop],
            caps: Some(Caps { file: 400, other: 200, names: 40, numbers: false, without_recall: 2 }),
            repeats: Some(Repeats { lines: 2, tokens: 0 }),
            index: Some(Index::default()),
            ..Policy::unlimited()
        };
        let counter = Arc::new(Uncounted);
        let mut engine = Engine::new(Settings::default().dialect(dialect).policy(policy).counter(counter));
        for (windows, messages) in &inputs {
            for message in messages {
                let message = dialect.decode(message).expect("a message");
                let asked = message.role() == lookback_wire::message::Role::Assistant;
                engine.push(message).expect("its own dialect");
                if asked {
                    engine.window();
                }
            }
            if *windows {
                engine.window();
            }
        }
        engine.window();
        std::hint::black_box(sent(&engine));
        (bytes, steps() - before)
    }
}

/// Checks that the program of these bytes stays within the bound.
pub fn work(data: &[u8]) {
    let program = Program::from_bytes(data);
    let (bytes, steps) = program.run();
    let most = BASE + MOST_STEPS_A_BYTE * bytes;
    assert!(steps <= most, "{steps} steps for {bytes} bytes, where {most} may be: {program:?}");
}

/// Returns the steps of this process so far.
#[allow(unsafe_code, reason = "the counters are the profiler's, and only to be had by their address")]
pub(crate) fn steps() -> u64 {
    unsafe extern "C" {
        fn __llvm_profile_begin_counters() -> *const u64;
        fn __llvm_profile_end_counters() -> *const u64;
    }
    // SAFETY: the two are the bounds of one section of this program's data. It consists of whole, aligned 64-bit
    // counters, as `-C instrument-coverage` lays them out, which are never moved or freed. The reads are volatile,
    // because other threads may go on counting.
    unsafe {
        let (begin, end) = (__llvm_profile_begin_counters(), __llvm_profile_end_counters());
        let count = end.offset_from_unsigned(begin);
        (0..count).map(|at| begin.add(at).read_volatile()).fold(0, u64::wrapping_add)
    }
}

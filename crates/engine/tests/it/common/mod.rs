//! Generators of policies and of valid and broken histories (as a provider's JSON), and a driver that runs an engine
//! with them.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]
#![allow(clippy::cast_possible_truncation)]

pub mod laws;

use std::collections::HashMap;
use std::io::Write as _;

use lookback_engine::group::{Group, GroupKind, Pin};
use lookback_engine::policy::Caps;
use lookback_engine::policy::{Cold, Index, Keep, Payback, Repeats, Tokens};
use lookback_engine::transcript::{Entry, Origin, Position, UsageReport};
use lookback_engine::view::Item;
use lookback_engine::{
    Engine, Settings, SummaryClaim, SummaryRejected, WindowOutcome,
    policy::{Limits, Mode, Pace, Policy, Stage, Summarize, SystemRule},
    transcript::Transcript,
    view::View,
};
use lookback_tokens::cut::{Truncation, Unit};
use lookback_wire::dialect::Shown;
use lookback_wire::edit::{self, Change, Hidden};
use lookback_wire::message::PartRef;
use lookback_wire::size::Size;
use lookback_wire::{
    Start,
    dialect::{Dialect, Preamble, Request},
    message::{Message, Role},
};
use proptest::prelude::*;
use serde_json::value::RawValue;

/// Reports that a test is skipped, directly to the terminal, because the harness hides the output of tests that pass.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The next event of a history. References to calls are numbers, modulo the number of existing calls.
#[derive(Debug, Clone)]
pub enum Op {
    /// Instructions. In Anthropic's format, a user message comes before them and an assistant message after them, as
    /// the provider demands.
    System(Text),
    /// A user's message.
    User(Vec<Bit>),
    /// An assistant message. If `asked`, a window is taken right before it, and it is the model's answer.
    Assistant { asked: bool, bits: Vec<Bit>, calls: Vec<CallSpec> },
    /// The results of all open calls, in one message or in one message each.
    Results { split: bool, reversed: bool, spec: ResultSpec },
    /// One result, of an open call, an answered call or an unknown call, with optional words before or after it.
    Result { of: CallRef, spec: ResultSpec, words: Option<(bool, Text)> },
    /// A note by Lookback.
    Note(Text),
    /// A window that is never answered.
    Window,
    /// A change of the system prompt and the tools.
    Preamble(u8),
    /// The provider reports the tokens of the last window, as a percentage of our count.
    Usage(u64),
    /// An additional checkpoint.
    Checkpoint,
}

#[derive(Debug, Clone)]
pub enum CallRef {
    Open(usize),
    Answered(usize),
    Nobody,
}

#[derive(Debug, Clone)]
pub enum Bit {
    Text(Text),
    Image,
    Opaque,
    Marker,
    Signed,
    Redacted,
    Unsigned,
}

/// A text, by its kind and length.
#[derive(Debug, Clone)]
pub enum Text {
    Empty,
    Blank,
    Trailing,
    Words(usize),
    /// The first lines of a fixed text.
    Lines(usize),
    Odd,
}

#[derive(Debug, Clone)]
pub struct CallSpec {
    pub id: Id,
    pub arguments: u8,
}

#[derive(Debug, Clone)]
pub enum Id {
    Fresh,
    /// An identifier that was used before.
    Again(usize),
    /// An identifier with characters that some providers refuse.
    Bad,
}

#[derive(Debug, Clone)]
pub struct ResultSpec {
    pub text: Text,
    pub items: u8,
    pub image: bool,
    pub error: bool,
}

/// A history, and the settings for running it.
#[derive(Debug, Clone)]
pub struct Case {
    pub dialect: Dialect,
    pub policy: Policy,
    pub window: Option<u64>,
    pub ops: Vec<Op>,
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        1 => Just(Text::Empty),
        1 => Just(Text::Blank),
        1 => Just(Text::Trailing),
        1 => Just(Text::Odd),
        8 => (1usize..12).prop_map(Text::Words),
        2 => (20usize..300).prop_map(Text::Words),
        3 => (1usize..12).prop_map(Text::Lines),
    ]
}

fn bits() -> impl Strategy<Value = Vec<Bit>> {
    let bit = prop_oneof![
        8 => text().prop_map(Bit::Text),
        1 => Just(Bit::Image),
        1 => Just(Bit::Opaque),
        1 => Just(Bit::Marker),
    ];
    prop::collection::vec(bit, 0..4)
}

fn assistant_bits() -> impl Strategy<Value = Vec<Bit>> {
    let bit = prop_oneof![
        8 => text().prop_map(Bit::Text),
        4 => Just(Bit::Signed),
        1 => Just(Bit::Redacted),
        1 => Just(Bit::Unsigned),
        1 => Just(Bit::Opaque),
        1 => Just(Bit::Marker),
    ];
    prop::collection::vec(bit, 0..4)
}

fn call() -> impl Strategy<Value = CallSpec> {
    let id = prop_oneof![12 => Just(Id::Fresh), 2 => (0usize..8).prop_map(Id::Again), 1 => Just(Id::Bad)];
    (id, 0u8..8).prop_map(|(id, arguments)| CallSpec { id, arguments })
}

fn result() -> impl Strategy<Value = ResultSpec> {
    (text(), 0u8..4, prop::bool::weighted(0.1), prop::bool::weighted(0.2))
        .prop_map(|(text, items, image, error)| ResultSpec { text, items, image, error })
}

fn call_ref() -> impl Strategy<Value = CallRef> {
    prop_oneof![
        6 => (0usize..8).prop_map(CallRef::Open),
        2 => (0usize..8).prop_map(CallRef::Answered),
        1 => Just(CallRef::Nobody),
    ]
}

pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => text().prop_map(Op::System),
        8 => bits().prop_map(Op::User),
        8 => (prop::bool::weighted(0.7), assistant_bits()).prop_map(|(asked, bits)| Op::Assistant {
            asked, bits, calls: Vec::new()
        }),
        14 => (prop::bool::weighted(0.7), assistant_bits(), prop::collection::vec(call(), 1..4))
            .prop_map(|(asked, bits, calls)| Op::Assistant { asked, bits, calls }),
        14 => (any::<bool>(), any::<bool>(), result())
            .prop_map(|(split, reversed, spec)| Op::Results { split, reversed, spec }),
        5 => (call_ref(), result(), prop::option::weighted(0.3, (any::<bool>(), text())))
            .prop_map(|(of, spec, words)| Op::Result { of, spec, words }),
        2 => text().prop_map(Op::Note),
        3 => Just(Op::Window),
        1 => (0u8..3).prop_map(Op::Preamble),
        1 => (50u64..300).prop_map(Op::Usage),
        1 => Just(Op::Checkpoint),
    ]
}

pub fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..40)
}

fn limits() -> impl Strategy<Value = Limits> {
    let tokens = prop_oneof![
        4 => (1u64..1500).prop_map(Tokens::Count),
        1 => (0.05f64..1.0).prop_map(Tokens::Share),
    ];
    (
        prop::option::weighted(0.5, tokens),
        prop::option::weighted(0.4, 1u64..16),
        prop::option::weighted(0.2, 1u64..5),
        prop::option::weighted(0.2, 1u64..6),
        prop::option::weighted(0.2, 50u64..6000),
        prop::option::weighted(0.1, 0u64..3),
        prop::option::weighted(0.2, 1u64..800),
    )
        .prop_map(|(tokens, messages, turns, rounds, bytes, media, body)| Limits {
            tokens,
            body,
            messages,
            turns,
            rounds,
            bytes,
            media,
        })
}

fn truncation() -> impl Strategy<Value = Truncation> {
    (0u64..60, 0u64..60, any::<bool>()).prop_map(|(head, tail, tokens)| Truncation {
        head,
        tail,
        unit: if tokens { Unit::Tokens } else { Unit::Characters },
        marker: None,
    })
}

fn stage() -> impl Strategy<Value = Stage> {
    prop_oneof![
        2 => (truncation(), 0u64..3).prop_map(|(to, except_newest)| Stage::TruncateResults { to, except_newest }),
        2 => (0u64..3, prop::option::of(Just("[{cut} in {entry}]".to_owned())))
            .prop_map(|(except_newest, marker)| Stage::ClearResults { except_newest, marker }),
        1 => (0u64..3).prop_map(|except_newest| Stage::ClearMedia { except_newest }),
        2 => (0u64..3, 0u64..20, prop::option::of(Just("[{cut} in {entry}]".to_owned())))
            .prop_map(|(except_newest, longest, marker)| Stage::ClearInputs { longest, except_newest, marker }),
        1 => summarize().prop_map(Stage::Summarize),
        4 => Just(Stage::Drop),
    ]
}

fn summarize() -> impl Strategy<Value = Summarize> {
    let role = prop::sample::select(vec![Role::System, Role::User, Role::Assistant]);
    (0u64..80, role).prop_map(|(budget, role)| Summarize { budget, role, ..Summarize::default() })
}

fn standing() -> impl Strategy<Value = (SystemRule, Pace)> {
    let rule = (prop::bool::weighted(0.2), any::<bool>(), prop::bool::weighted(0.8));
    let rule = rule.prop_map(|(one, first, counted)| SystemRule { one, first, counted });
    let pace = prop_oneof![8 => Just(Pace::Call), 1 => (1u64..4).prop_map(Pace::Calls), 1 => Just(Pace::Turn)];
    (rule, pace)
}

fn listed() -> impl Strategy<Value = (Option<Index>, Option<Caps>, Option<Repeats>)> {
    let caps = (1u64..200, 1u64..100, 0u64..20, any::<bool>(), 1u64..3)
        .prop_map(|(file, other, names, numbers, without_recall)| Caps { file, other, names, numbers, without_recall });
    let repeats = (1u64..3, 1u64..12).prop_map(|(lines, tokens)| Repeats { lines, tokens });
    (
        prop::option::weighted(0.3, (1u64..200).prop_map(|budget| Index { budget })),
        prop::option::weighted(0.3, caps),
        prop::option::weighted(0.3, repeats),
    )
}

fn occasions() -> impl Strategy<Value = (Option<Cold>, Option<Payback>)> {
    let cold = (prop::option::of(0u64..3), limits(), limits()).prop_map(|(after, limits, target)| Cold {
        after,
        limits,
        target,
    });
    let payback = (1.0f64..20.0, limits()).prop_map(|(write, limits)| Payback { write, limits });
    (prop::option::weighted(0.2, cold), prop::option::weighted(0.2, payback))
}

pub fn policy() -> impl Strategy<Value = Policy> {
    let keep = (
        prop_oneof![3 => Just(0u64), 1 => 0u64..4],
        prop_oneof![3 => Just(0u64), 1 => 0u64..4],
        prop::bool::weighted(0.8),
        prop_oneof![2 => Just(0u64), 1 => 0u64..400],
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.2),
    );
    let keep =
        keep.prop_map(|(first, last, task, people, work, system)| Keep { first, last, task, people, work, system });
    let start = prop_oneof![3 => Just(Start::Any), 1 => Just(Start::User), 1 => Just(Start::UserOrToolPair)];
    (
        limits(),
        prop::option::weighted(0.6, limits()),
        prop::option::weighted(0.1, limits()),
        keep,
        start,
        prop::option::weighted(0.3, truncation()),
        prop::collection::vec(stage(), 0..4),
        (prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
        // Boxed, because the generator would otherwise overflow the stack of a test.
        (standing().boxed(), listed().boxed(), occasions().boxed()),
    )
        .prop_map(
            |(
                limits,
                target,
                hard,
                keep,
                start,
                arrival,
                stages,
                (on_read, drop_block),
                (standing, listed, occasions),
            )| {
                let (system, pace) = standing;
                let (index, caps, repeats) = listed;
                let (cold, payback) = occasions;
                Policy {
                    limits,
                    target,
                    cold,
                    payback,
                    hard,
                    keep,
                    system,
                    pace,
                    start,
                    arrival,
                    index,
                    caps,
                    repeats,
                    // Most policies end with the stage `Drop`.
                    stages: if stages.len() == 3 { stages } else { [stages, vec![Stage::Drop]].concat() },
                    mode: if on_read { Mode::OnRead } else { Mode::Recorded },
                    drop_block,
                    ..Policy::unlimited()
                }
            },
        )
}

pub fn case() -> impl Strategy<Value = Case> {
    let dialect = prop::sample::select(Dialect::ALL.to_vec());
    let window = prop::option::weighted(0.3, 200u64..5000);
    (dialect, policy(), window, ops()).prop_map(|(dialect, policy, window, ops)| Case { dialect, policy, window, ops })
}

pub fn groups() -> impl Strategy<Value = Vec<Group>> {
    let number = || prop_oneof![4 => 0u64..500, 1 => 0..u64::MAX / 4];
    let size = move || {
        (number(), number(), 0u64..4, 0u64..3).prop_map(|(tokens, bytes, messages, media)| Size {
            tokens,
            bytes,
            messages,
            media,
            passing: 0,
        })
    };
    let kind = prop::sample::select(vec![
        GroupKind::Preamble,
        GroupKind::System,
        GroupKind::User,
        GroupKind::Assistant,
        GroupKind::Round,
        GroupKind::Note,
    ]);
    let pin = prop::option::weighted(
        0.2,
        prop::sample::select(vec![
            Pin::Preamble,
            Pin::System,
            Pin::LaterSystem,
            Pin::Task,
            Pin::Newest,
            Pin::OpenRound,
            Pin::Unseen,
            Pin::First,
            Pin::Last,
        ]),
    );
    let group = (
        kind,
        prop_oneof![9 => 0u64..6, 1 => any::<u64>()],
        prop_oneof![9 => 0u64..6, 1 => any::<u64>()],
        pin,
        size(),
        size(),
        prop::collection::vec(size(), 0..4),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(kind, turn, round, pin, size, kept, staged, bound)| Group {
            kind,
            turn,
            round,
            pin,
            size,
            kept,
            staged,
            bound,
        });
    prop::collection::vec(group, 0..24)
}

/// The name of the tool, which identifies a call without an identifier.
const ANONYMOUS: &str = "t";

/// Writes messages of one dialect. Every text, call and signature has its own number, which distinguishes parts.
#[derive(Debug)]
pub struct Writer {
    dialect: Dialect,
    count: u64,
    /// Every call: its identifier, and whether it has a result.
    calls: Vec<(String, bool)>,
}

fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

impl Writer {
    pub fn new(dialect: Dialect) -> Self {
        Writer { dialect, count: 0, calls: Vec::new() }
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Writes a JSON string.
    fn text(&mut self, text: &Text) -> String {
        let n = self.next();
        match text {
            Text::Empty => "\"\"".to_owned(),
            Text::Blank => "\" \\n\"".to_owned(),
            Text::Trailing => format!("\"trailing {n} \""),
            Text::Lines(lines) => {
                quote(&(0..*lines).map(|line| format!("line {line} of the same file\n")).collect::<String>())
            }
            Text::Words(words) => quote(&format!("text_{n}{}", " lorem ipsum".repeat(*words))),
            // Escapes that a serializer would spell differently, and a surrogate pair.
            Text::Odd => format!("\"odd {n} \\u0041\\/\\u00e9 \\ud83d\\ude00 end\""),
        }
    }

    /// Writes members that no dialect knows, in a spelling that a serializer would change.
    fn extra(&mut self) -> String {
        let n = self.next();
        match n % 4 {
            0 => format!(", \"x_extra\" : 1.0e+2,\"x_n\":{n}"),
            _ => String::new(),
        }
    }

    fn block(&mut self, bit: &Bit, assistant: bool) -> Option<String> {
        let n = self.next();
        let chat = self.dialect == Dialect::OpenAiChat;
        let bedrock = self.dialect == Dialect::Bedrock;
        if self.dialect == Dialect::Gemini {
            return self.gemini_part(bit, assistant, n);
        }
        if self.dialect == Dialect::OpenAiResponses {
            return self.content_part(bit, assistant, n);
        }
        Some(match bit {
            Bit::Text(text) => {
                let (text, extra) = (self.text(text), self.extra());
                if bedrock {
                    format!("{{\"text\":{text}}}")
                } else {
                    format!("{{\"type\":\"text\",\"text\":{text}{extra}}}")
                }
            }
            Bit::Image if assistant => return None,
            Bit::Image => match self.dialect {
                Dialect::OpenAiChat => {
                    format!("{{\"type\":\"image_url\",\"image_url\":{{\"url\":\"https://example.org/{n}.png\"}}}}")
                }
                Dialect::Anthropic => format!(
                    "{{\"type\":\"image\",\"source\":{{\"type\":\"url\",\"url\":\"https://example.org/{n}.png\"}}}}"
                ),
                Dialect::Bedrock => {
                    format!(
                        "{{\"image\":{{\"format\":\"png\",\"source\":{{\"s3Location\":{{\"uri\":\"s3://b/{n}\"}}}}}}}}"
                    )
                }
                other => unreachable!("{other}"),
            },
            Bit::Opaque if bedrock => format!("{{\"guardContent\":{{\"n\":{n}.0e0}}}}"),
            Bit::Opaque => format!("{{\"type\":\"x_unknown\",\"n\":{n}.0e0}}"),
            Bit::Marker if chat => return None,
            Bit::Marker if bedrock => "{\"cachePoint\":{\"type\":\"default\"}}".to_owned(),
            Bit::Marker => {
                format!("{{\"type\":\"text\",\"text\":\"marked {n}\",\"cache_control\":{{\"type\":\"ephemeral\"}}}}")
            }
            Bit::Signed | Bit::Redacted | Bit::Unsigned if chat || !assistant => return None,
            Bit::Signed if bedrock => format!(
                "{{\"reasoningContent\":{{\"reasoningText\":{{\"text\":\"hm {n}\",\"signature\":\"sig{n}\"}}}}}}"
            ),
            Bit::Signed => format!("{{\"type\":\"thinking\",\"thinking\":\"hm {n}\",\"signature\":\"sig{n}\"}}"),
            Bit::Redacted if bedrock => format!("{{\"reasoningContent\":{{\"redactedContent\":\"cmVk{n}\"}}}}"),
            Bit::Redacted => format!("{{\"type\":\"redacted_thinking\",\"data\":\"cmVk{n}\"}}"),
            Bit::Unsigned if bedrock => {
                format!("{{\"reasoningContent\":{{\"reasoningText\":{{\"text\":\"hm {n}\"}}}}}}")
            }
            Bit::Unsigned => format!("{{\"type\":\"thinking\",\"thinking\":\"hm {n}\"}}"),
        })
    }

    fn gemini_part(&mut self, bit: &Bit, assistant: bool, n: u64) -> Option<String> {
        Some(match bit {
            Bit::Text(text) => {
                let (text, extra) = (self.text(text), self.extra());
                format!("{{\"text\":{text}{extra}}}")
            }
            Bit::Image if !assistant => {
                let url = format!("https://example.org/{n}.png");
                format!("{{\"fileData\":{{\"mimeType\":\"image/png\",\"fileUri\":\"{url}\"}}}}")
            }
            Bit::Opaque => format!("{{\"x_unknown\":{{\"n\":{n}.0e0}}}}"),
            Bit::Signed if assistant => {
                format!("{{\"text\":\"hm {n}\",\"thought\":true,\"thoughtSignature\":\"sig{n}\"}}")
            }
            Bit::Redacted if assistant => format!("{{\"text\":\"\",\"thoughtSignature\":\"cmVk{n}\"}}"),
            Bit::Unsigned if assistant => format!("{{\"text\":\"hm {n}\",\"thought\":true}}"),
            _ => return None,
        })
    }

    /// Writes a part of a message's content, or a separate item.
    fn content_part(&mut self, bit: &Bit, assistant: bool, n: u64) -> Option<String> {
        Some(match bit {
            Bit::Text(text) => {
                let (text, extra) = (self.text(text), self.extra());
                let kind = if assistant { "output_text" } else { "input_text" };
                format!("{{\"type\":\"{kind}\",\"text\":{text}{extra}}}")
            }
            Bit::Image if !assistant => {
                format!("{{\"type\":\"input_image\",\"image_url\":\"https://example.org/{n}.png\"}}")
            }
            Bit::Opaque => format!("{{\"type\":\"x_unknown\",\"n\":{n}.0e0}}"),
            Bit::Signed if assistant => {
                format!("{{\"type\":\"reasoning\",\"id\":\"rs_{n}\",\"summary\":[],\"encrypted_content\":\"sig{n}\"}}")
            }
            Bit::Redacted if assistant => {
                format!("{{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"cmVk{n}\"}}")
            }
            Bit::Unsigned if assistant => format!("{{\"type\":\"reasoning\",\"id\":\"rs_{n}\",\"summary\":[]}}"),
            _ => return None,
        })
    }

    /// Writes an assistant message as items.
    fn items(&mut self, blocks: Vec<String>, calls: Vec<String>) -> String {
        let item = |block: String| {
            let is_text = block.contains("\"type\":\"output_text\"");
            let message = || format!("{{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{block}]}}");
            if is_text { message() } else { block }
        };
        let items: Vec<String> = blocks.into_iter().map(item).chain(calls).collect();
        match items.as_slice() {
            [] => "{\"role\":\"assistant\",\"content\":\"\"}".to_owned(),
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }

    fn message(&mut self, role: &str, blocks: &[String], single: Option<String>) -> String {
        let extra = if self.dialect == Dialect::Bedrock { String::new() } else { self.extra() };
        if self.dialect == Dialect::Gemini {
            let role = if role == "assistant" { "model" } else { role };
            return format!("{{\"role\":\"{role}\",\"parts\":[{}]{extra}}}", blocks.join(", "));
        }
        match single {
            Some(text) => format!("{{\"role\":\"{role}\",\"content\": {text}{extra}}}"),
            None => format!("{{\"role\":\"{role}\",\"content\":[{}]{extra}}}", blocks.join(", ")),
        }
    }

    pub fn user(&mut self, bits: &[Bit]) -> String {
        let blocks: Vec<_> = bits.iter().filter_map(|bit| self.block(bit, false)).collect();
        let single = match bits {
            [Bit::Text(text)] if !matches!(self.dialect, Dialect::Bedrock | Dialect::Gemini) => Some(self.text(text)),
            _ => None,
        };
        self.message("user", &blocks, single)
    }

    pub fn system(&mut self, text: &Text) -> String {
        let text = self.text(text);
        let is_openai = matches!(self.dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses);
        let role = if is_openai && self.next().is_multiple_of(3) { "developer" } else { "system" };
        self.message(role, &[], Some(text))
    }

    fn identifier(&mut self, id: &Id) -> String {
        let n = self.next();
        let again = |at: usize| self.calls.get(at.checked_rem(self.calls.len())?).map(|call| call.0.clone());
        match id {
            Id::Fresh => format!("call_{n}"),
            Id::Again(at) => again(*at).unwrap_or_else(|| format!("call_{n}")),
            Id::Bad => format!("call {n}/\u{e9}"),
        }
    }

    pub fn assistant(&mut self, bits: &[Bit], calls: &[CallSpec]) -> String {
        let mut blocks: Vec<_> = bits.iter().filter_map(|bit| self.block(bit, true)).collect();
        let mut wire = Vec::new();
        for call in calls {
            // In Gemini's format, a call may have no identifier. Its name is used instead.
            let is_anonymous = self.dialect == Dialect::Gemini && self.next().is_multiple_of(3);
            let id = if is_anonymous { ANONYMOUS.to_owned() } else { self.identifier(&call.id) };
            self.calls.push((id.clone(), false));
            let n = self.next();
            let object = match call.arguments {
                0 => "7".to_owned(),
                1 => "{}".to_owned(),
                _ => format!("{{\"n\": {n}.0e+0, \"long\":\"{}\"}}", "ab ".repeat(usize::from(call.arguments))),
            };
            let id = quote(&id);
            wire.push(match self.dialect {
                Dialect::OpenAiChat => {
                    let arguments = if call.arguments == 2 { quote("{\"n\": ") } else { quote(&object) };
                    format!("{{\"id\":{id},\"type\":\"function\",\"function\":{{\"name\":\"t\",\"arguments\":{arguments}}}}}")
                }
                Dialect::Anthropic => {
                    format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":\"t\", \"input\":{object}}}")
                }
                Dialect::Bedrock => {
                    format!("{{\"toolUse\":{{\"toolUseId\":{id},\"name\":\"t\", \"input\":{object}}}}}")
                }
                Dialect::OpenAiResponses => {
                    let arguments = if call.arguments == 2 { quote("{\"n\": ") } else { quote(&object) };
                    format!(
                        "{{\"type\":\"function_call\",\"id\":\"fc_{n}\",\"call_id\":{id},\"name\":\"t\", \"arguments\":{arguments}}}"
                    )
                }
                Dialect::Gemini if is_anonymous => {
                    format!("{{\"functionCall\":{{\"name\":\"t\", \"args\":{object}}}}}")
                }
                Dialect::Gemini => format!("{{\"functionCall\":{{\"id\":{id},\"name\":\"t\", \"args\":{object}}}}}"),
            });
        }
        if self.dialect == Dialect::OpenAiResponses {
            return self.items(blocks, wire);
        }
        if self.dialect != Dialect::OpenAiChat {
            blocks.extend(wire);
            return self.message("assistant", &blocks, None);
        }
        let (content, extra) = match bits {
            [] => ("null".to_owned(), self.extra()),
            [Bit::Text(text)] => (self.text(text), self.extra()),
            _ if blocks.is_empty() => ("null".to_owned(), String::new()),
            _ => (format!("[{}]", blocks.join(", ")), self.extra()),
        };
        if wire.is_empty() && self.next().is_multiple_of(5) {
            format!("{{\"role\":\"assistant\",\"content\":{content}{extra}, \"tool_calls\":[ ]}}")
        } else if wire.is_empty() {
            format!("{{\"role\":\"assistant\",\"content\":{content}{extra}}}")
        } else {
            format!("{{\"role\":\"assistant\",\"content\":{content},\"tool_calls\":[{}]{extra}}}", wire.join(", "))
        }
    }

    /// Returns the identifier that a result names.
    fn target(&mut self, of: &CallRef) -> String {
        let n = self.next();
        let wanted = |answered: bool, at: usize| {
            let open: Vec<_> =
                self.calls.iter().enumerate().filter(|(_, c)| c.1 == answered).map(|(index, _)| index).collect();
            open.get(at.checked_rem(open.len())?).copied()
        };
        let found = match of {
            CallRef::Open(at) => wanted(false, *at),
            CallRef::Answered(at) => wanted(true, *at),
            CallRef::Nobody => None,
        };
        match found.and_then(|index| self.calls.get_mut(index)) {
            Some(call) => {
                call.1 = true;
                call.0.clone()
            }
            None => format!("nobody_{n}"),
        }
    }

    fn result_block(&mut self, id: &str, spec: &ResultSpec) -> String {
        let n = self.next();
        let id = quote(id);
        let mut items = Vec::new();
        for _ in 0..spec.items {
            let text = self.text(&spec.text);
            items.push(match self.dialect {
                Dialect::Bedrock if items.len() == 2 => format!("{{\"json\":{{\"n\":{n}.0e+1}}}}"),
                Dialect::Bedrock => format!("{{\"text\":{text}}}"),
                Dialect::OpenAiResponses => format!("{{\"type\":\"input_text\",\"text\":{text}}}"),
                _ => format!("{{\"type\":\"text\",\"text\":{text}}}"),
            });
        }
        if spec.image && self.dialect != Dialect::OpenAiChat {
            items.extend(self.block(&Bit::Image, false));
        }
        let list = format!("[{}]", items.join(","));
        match self.dialect {
            Dialect::OpenAiChat => {
                let content = if spec.items == 1 { self.text(&spec.text) } else { list };
                let extra = self.extra();
                format!("{{\"role\":\"tool\",\"tool_call_id\":{id},\"content\":{content}{extra}}}")
            }
            Dialect::Anthropic => {
                let content = match spec.items {
                    0 if items.is_empty() => String::new(),
                    1 if items.len() == 1 => format!(",\"content\":{}", self.text(&spec.text)),
                    _ => format!(",\"content\":{list}"),
                };
                let error = if spec.error && !content.is_empty() { ",\"is_error\":true" } else { "" };
                let extra = self.extra();
                format!("{{\"type\":\"tool_result\",\"tool_use_id\":{id}{content}{error}{extra}}}")
            }
            Dialect::Bedrock => {
                let status = if spec.error { ",\"status\":\"error\"" } else { "" };
                format!("{{\"toolResult\":{{\"toolUseId\":{id},\"content\":{list}{status}}}}}")
            }
            Dialect::OpenAiResponses => {
                let output = if spec.items == 1 { self.text(&spec.text) } else { list };
                let extra = self.extra();
                format!("{{\"type\":\"function_call_output\",\"call_id\":{id},\"output\":{output}{extra}}}")
            }
            Dialect::Gemini => {
                let response = match spec.items {
                    0 => "{}".to_owned(),
                    1 => format!("{{\"output\":{}}}", self.text(&spec.text)),
                    2 => format!("{{\"error\":{}}}", self.text(&spec.text)),
                    _ => format!("{{\"n\":{n}.0e+1,\"said\":{}}}", self.text(&spec.text)),
                };
                let id = if id == quote(ANONYMOUS) { String::new() } else { format!("\"id\":{id},") };
                format!("{{\"functionResponse\":{{{id}\"name\":\"t\",\"response\":{response}}}}}")
            }
        }
    }

    fn user_of(&self, blocks: &[String]) -> String {
        let content = if self.dialect == Dialect::Gemini { "parts" } else { "content" };
        format!("{{\"role\":\"user\",\"{content}\":[{}]}}", blocks.join(","))
    }

    /// Returns whether each result is a separate message.
    fn has_single_results(&self) -> bool {
        matches!(self.dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses)
    }

    fn results(&mut self, split: bool, reversed: bool, spec: &ResultSpec) -> Vec<String> {
        let mut ids: Vec<String> = self.calls.iter().filter(|call| !call.1).map(|call| call.0.clone()).collect();
        self.calls.iter_mut().for_each(|call| call.1 = true);
        if reversed {
            ids.reverse();
        }
        let blocks: Vec<_> = ids.iter().map(|id| self.result_block(id, spec)).collect();
        if self.has_single_results() || blocks.is_empty() {
            return blocks;
        }
        if split { blocks.chunks(1).map(|blocks| self.user_of(blocks)).collect() } else { vec![self.user_of(&blocks)] }
    }

    fn result(&mut self, of: &CallRef, spec: &ResultSpec, words: Option<&(bool, Text)>) -> Vec<String> {
        let id = self.target(of);
        let block = self.result_block(&id, spec);
        if self.has_single_results() {
            return vec![block];
        }
        let words = words.and_then(|(first, text)| Some((*first, self.block(&Bit::Text(text.clone()), false)?)));
        let blocks = match words {
            Some((true, words)) => vec![words, block],
            Some((false, words)) => vec![block, words],
            None => vec![block],
        };
        vec![self.user_of(&blocks)]
    }
}

/// One part of an encoded request: its role and its bytes.
pub type Part = (Role, String);

/// A window that was taken.
#[derive(Debug, Clone)]
pub struct Step {
    /// The view before the call.
    pub before: View,
    pub outcome: WindowOutcome,
    /// The view to send: the engine's, or the view of a policy that records nothing.
    pub view: View,
    pub request: Vec<String>,
    /// The engine after the call.
    pub engine: Engine,
    /// The log's length after the call.
    pub end: Position,
    /// Whether a summary was being made before the call, and after it.
    pub held: bool,
    pub pending: bool,
}

impl Step {
    pub fn compacted(&self) -> bool {
        self.outcome.entries.iter().any(|entry| matches!(entry, Entry::Compaction(_)))
    }
}

/// The outcome of a case.
#[derive(Debug)]
pub struct Run {
    pub settings: Settings,
    pub engine: Engine,
    pub log: Transcript,
    pub pushed: Vec<String>,
    pub steps: Vec<Step>,
    /// For each signature, its original prefix and preamble.
    pub signed: HashMap<String, (Vec<Part>, String)>,
    /// The log's length and the view after each change.
    pub snapshots: Vec<(Position, String)>,
    /// A summary that is being made.
    pub pending: Option<SummaryClaim>,
    /// Summaries that did not fit.
    pub unfit: Vec<SummaryRejected>,
}

pub fn settings(case: &Case) -> Settings {
    let mut settings = Settings::default().dialect(case.dialect).policy(case.policy.clone()).model("m");
    settings.model_window = case.window;
    settings
}

impl Run {
    pub fn new(settings: Settings) -> Run {
        Run {
            engine: Engine::new(settings.clone()),
            settings,
            log: Transcript::default(),
            pushed: Vec::new(),
            steps: Vec::new(),
            signed: HashMap::new(),
            snapshots: Vec::new(),
            pending: None,
            unfit: Vec::new(),
        }
    }

    pub fn from_case(case: &Case) -> Run {
        let mut run = Run::new(settings(case));
        let mut writer = Writer::new(case.dialect);
        for op in &case.ops {
            run.take(op, &mut writer);
        }
        run.window();
        run
    }

    fn take(&mut self, op: &Op, writer: &mut Writer) {
        match op {
            Op::System(text) => match self.settings.dialect {
                Dialect::OpenAiChat | Dialect::OpenAiResponses => self.push(&writer.system(text), Origin::Client),
                // A request may not begin with a system message, which must be between a user and an assistant message.
                Dialect::Anthropic => {
                    let words = [Bit::Text(Text::Words(2))];
                    self.push(&writer.user(&words), Origin::Client);
                    self.push(&writer.system(&Text::Words(3)), Origin::Client);
                    self.push(&writer.assistant(&words, &[]), Origin::Model);
                }
                _ => {}
            },
            Op::User(bits) => self.push(&writer.user(bits), Origin::Client),
            Op::Assistant { asked, bits, calls } => {
                let message = writer.assistant(bits, calls);
                if *asked {
                    let sent = self.window();
                    self.answer(&message, sent);
                } else {
                    self.push(&message, Origin::Client);
                }
            }
            Op::Results { split, reversed, spec } => {
                for message in writer.results(*split, *reversed, spec) {
                    self.push(&message, Origin::Client);
                }
            }
            Op::Result { of, spec, words } => {
                for message in writer.result(of, spec, words.as_ref()) {
                    self.push(&message, Origin::Client);
                }
            }
            Op::Note(text) => {
                let message = writer.user(&[Bit::Text(text.clone())]);
                self.push(&message, Origin::Lookback);
            }
            Op::Window => {
                self.window();
            }
            Op::Preamble(n) => {
                let raw = |text: String| serde_json::value::to_raw_value(&text).ok();
                let system =
                    raw(format!("You are number {n}.")).filter(|_| self.settings.dialect != Dialect::OpenAiChat);
                let tools = RawValue::from_string(format!("[{{\"name\":\"t{n}\"}}]")).ok();
                let mut preamble = Preamble::default();
                preamble.system = system;
                preamble.tools = tools;
                let entries = self.engine.set_preamble(&preamble);
                self.record(entries);
            }
            Op::Usage(percent) => {
                let estimated = self.engine.view().totals().size.tokens;
                let reported = estimated * percent / 100;
                let entries = self.engine.usage(UsageReport {
                    model: "m".to_owned(),
                    asked: None,
                    estimated,
                    reported,
                    cached: None,
                });
                self.record(entries);
            }
            Op::Checkpoint => {
                let mut entries = Vec::new();
                self.engine.checkpoint(&mut entries);
                self.record(entries);
            }
        }
    }

    fn record(&mut self, entries: Vec<Entry>) {
        self.log.extend(entries);
        self.snapshots.push((self.log.len(), snapshot(self.engine.view())));
    }

    pub fn push(&mut self, json: &str, origin: Origin) {
        let message = self.settings.dialect.decode(json).unwrap_or_else(|error| panic!("{error}: {json}"));
        // If there may be only one system message, a repeated one is ignored.
        let again = self.settings.policy.system.one && message.role() == Role::System;
        let entries = self.engine.receive(message, origin, None).unwrap();
        if !(again && entries.is_empty()) {
            self.pushed.push(json.to_owned());
        }
        self.record(entries);
    }

    /// Adds the model's answer.
    pub fn answer(&mut self, json: &str, sent: bool) {
        let message = self.settings.dialect.decode(json).unwrap();
        if sent {
            let step = self.steps.last().unwrap();
            let prefix = (parts(self.settings.dialect, &step.request), preamble(&step.view));
            for signature in signatures(&message) {
                self.signed.insert(signature, prefix.clone());
            }
        }
        self.push(json, Origin::Model);
    }

    /// Takes a window, and returns whether it may be sent.
    pub fn window(&mut self) -> bool {
        let before = self.engine.view().clone();
        // A summary arrives at once, later, much later, or never, depending on the log's length.
        if let Some(claim) = self.pending.take_if(|_| !self.log.len().is_multiple_of(3)) {
            let text = "Said before. ".repeat([0, 1, 40][self.log.len() as usize / 3 % 3]);
            match self.engine.accept_summary(&claim, &text) {
                Ok(entries) => self.record(entries),
                Err(unfit) => self.unfit.push(unfit),
            }
            self.engine.release_limits();
        }
        let held = self.pending.is_some();
        let outcome = self.engine.window();
        if let Some(wanted) = &outcome.summary_request {
            self.pending = Some(wanted.claim.clone());
            self.engine.hold_limits();
        }
        self.record(outcome.entries.clone());
        let view = outcome.on_read.as_deref().unwrap_or(self.engine.view()).clone();
        let request = encode(self.settings.dialect, &view);
        let sendable = outcome.exceeded.is_none() && !request.is_empty();
        let engine = self.engine.clone();
        let (end, pending) = (self.log.len(), self.pending.is_some());
        self.steps.push(Step { before, outcome, view, request, engine, end, held, pending });
        sendable
    }

    /// Returns the pushed messages, element by element. An assistant message may be several elements.
    pub fn elements(&self) -> Vec<String> {
        let dialect = self.settings.dialect;
        let elements = self.pushed.iter().flat_map(|json| {
            let message = dialect.decode(json).unwrap();
            let elements = message.wire().unwrap().elements();
            elements.into_iter().map(|raw| raw.get().to_owned()).collect::<Vec<_>>()
        });
        elements.collect()
    }

    /// Returns the windows that may be sent.
    pub fn sent(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.outcome.exceeded.is_none() && !step.request.is_empty())
    }
}

pub fn signatures(message: &Message) -> Vec<String> {
    let signature = |part: PartRef<'_>| match part {
        PartRef::Reasoning(reasoning) => reasoning.signature.clone(),
        _ => None,
    };
    message.parts().filter_map(signature).collect()
}

pub fn preamble(view: &View) -> String {
    serde_json::to_string(&view.preamble()).unwrap()
}

pub fn encode(dialect: Dialect, view: &View) -> Vec<String> {
    encode_items(dialect, view.shown())
}

pub fn encode_items<'a>(dialect: Dialect, shown: impl Iterator<Item = Shown<'a>>) -> Vec<String> {
    dialect.encode(shown).unwrap().iter().map(|raw| raw.get().to_owned()).collect()
}

pub fn request(dialect: Dialect, messages: &[String]) -> Request {
    Request::decode(format!("[{}]", messages.join(",")), Some(dialect)).unwrap()
}

/// Returns everything that a view shows, as one text.
pub fn snapshot(view: &View) -> String {
    let edits = |item: &Item| serde_json::to_string(item.edits()).unwrap();
    let items: Vec<_> =
        view.messages().map(|item| (item.position(), edits(item), item.size(), item.is_own())).collect();
    let checkpoint = serde_json::to_string(&view.checkpoint()).unwrap();
    let preamble = view.preamble().map(|preamble| serde_json::to_string(preamble).unwrap());
    let beside = view.has_beside();
    format!("{checkpoint} {:?} {preamble:?} {} {beside} {items:?}", view.totals(), view.history_len())
}

/// Returns the parts of a message as it arrived, and its other members.
pub fn pieces(dialect: Dialect, json: &str) -> (Vec<String>, Vec<(String, String)>) {
    if dialect == Dialect::OpenAiResponses && json.starts_with('[') {
        let items: Vec<Box<RawValue>> = serde_json::from_str(json).unwrap();
        return (items.iter().flat_map(|item| pieces(dialect, item.get()).0).collect(), Vec::new());
    }
    let members = members(json);
    let get = |key: &str| members.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let list = |json: &str| -> Vec<String> {
        let elements: Vec<Box<RawValue>> = serde_json::from_str(json).unwrap();
        elements.into_iter().map(|raw| raw.get().to_owned()).collect()
    };
    let is_tool = dialect == Dialect::OpenAiChat && get("role") == Some("\"tool\"");
    let is_item = dialect == Dialect::OpenAiResponses && get("type").is_some_and(|kind| kind != "\"message\"");
    if is_tool || is_item {
        return (vec![format!("{:?}", members)], Vec::new());
    }
    let content =
        get(if dialect == Dialect::Gemini { "parts" } else { "content" }).filter(|content| *content != "null");
    let mut parts = match content {
        Some(content) if content.starts_with('[') => list(content),
        Some(text) => vec![format!("{{\"type\":\"text\",\"text\":{text}}}")],
        None => Vec::new(),
    };
    if dialect == Dialect::OpenAiChat {
        parts.extend(get("tool_calls").map(list).unwrap_or_default());
    }
    let known = |key: &str| {
        matches!(key, "role" | "content" | "parts" | "type") || (key == "tool_calls" && dialect == Dialect::OpenAiChat)
    };
    let others = members.iter().filter(|(key, _)| !known(key)).cloned().collect();
    (parts.into_iter().filter_map(without_marker).collect(), others)
}

/// Removes cache markers, which the encoder may change.
pub fn without_marker(part: String) -> Option<String> {
    (part != "{\"cachePoint\":{\"type\":\"default\"}}")
        .then(|| part.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", ""))
        // The encoder also adds this signature.
        .map(|part| part.replace(",\"thoughtSignature\":\"skip_thought_signature_validator\"", ""))
}

fn members(json: &str) -> Vec<(String, String)> {
    struct Members(Vec<(String, String)>);
    impl<'de> serde::Deserialize<'de> for Members {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Members;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                    let mut members = Vec::new();
                    while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                        members.push((key, value.get().to_owned()));
                    }
                    Ok(Members(members))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    serde_json::from_str::<Members>(json).unwrap().0
}

pub fn role(json: &str) -> Role {
    match members(json).iter().find(|(key, _)| key == "role").map(|(_, role)| role.as_str()) {
        Some("\"system\"" | "\"developer\"") => Role::System,
        Some("\"assistant\"" | "\"model\"") => Role::Assistant,
        // An item without a role is the model's, unless it is an output.
        None if json.contains("_call_output\"") => Role::User,
        None => Role::Assistant,
        _ => Role::User,
    }
}

/// Returns the parts of a request. In the block formats, boundaries between messages of one role are ignored. In
/// OpenAI's format, a message is one part.
pub fn parts(dialect: Dialect, request: &[String]) -> Vec<Part> {
    let of = |json: &String| {
        let role = role(json);
        let parts = match dialect {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => vec![json.clone()],
            _ => pieces(dialect, json).0,
        };
        parts.into_iter().map(move |part| (role, part))
    };
    request.iter().flat_map(of).collect()
}

/// Returns whether a part of an item is shown.
pub fn visible(item: &Item, part: usize) -> bool {
    !edit::is_hidden(item.edits(), part)
}

pub fn is_late(entry: &Entry) -> bool {
    matches!(entry, Entry::Message(arrival) if arrival.edits.iter().any(|e| e.change == Change::Hide(Hidden::Late)))
}

/// Returns whether the shown parts of an item have words of a person.
pub fn person(item: &Item) -> bool {
    let speaks = |part: &PartRef<'_>| match part {
        PartRef::ToolResult(_) => false,
        PartRef::Opaque(opaque) => !opaque.is_cache_marker(),
        _ => true,
    };
    !item.is_own()
        && item.message().role() == Role::User
        && item.message().parts().enumerate().any(|(index, part)| visible(item, index) && speaks(&part))
}

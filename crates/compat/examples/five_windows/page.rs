//! Writes the page: each transcript of `corpus/systems/transcripts` under the five presets, beside what the original
//! systems send.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use futures_lite::future::block_on;
use lookback_engine::transcript::Entry;
use lookback_engine::{Engine, Settings, SummaryRequest};
use lookback_presets as presets;
use lookback_summarize::calls;
use lookback_summarize::{Extractive, run};
use lookback_tokens::Estimate;
use lookback_wire::dialect::Shown;
use lookback_wire::edit;
use lookback_wire::{
    dialect::{Dialect, Request},
    message::{Message, Role},
};
use serde::Deserialize;
use serde_json::value::RawValue;

type Fault = Box<dyn std::error::Error>;

/// The presets, each with a window of four of what it counts, and the systems that they are named after.
const PRESETS: [(&str, &str, &str); 5] = [
    ("turn-window", "max_turns=4", "AgentLIB"),
    ("rolling-summary", "window_size=4", "Crux"),
    ("two-tier", "sliding_window_size=4", "KB Labs"),
    ("message-window", "max_messages=4", "LangChain4j"),
    ("managed-window", "window_size=4", "Strands"),
];

const TRANSCRIPTS: [&str; 4] = [
    include_str!("../../../../corpus/systems/transcripts/chat.json"),
    include_str!("../../../../corpus/systems/transcripts/tools.json"),
    include_str!("../../../../corpus/systems/transcripts/toolheavy.json"),
    include_str!("../../../../corpus/systems/transcripts/inflight.json"),
];

const HEAD: &str = "\
# Five windows

<!-- Made by `cargo run --release -p lookback-compat --example five_windows > docs/reference/five-windows.md`; a test says when it is stale. -->

Five systems can keep a window of four, and each counts something else: four turns, four messages after a summary, four rounds, four
messages including the system prompt, or four messages without it. This page shows what each sends of the same four conversations, and
what Lookback's [preset](policies.md#presets) of that name sends. The messages are taken in one by one, and a window is made before each
call of the model; the tables show the last window.

What the originals send was observed by running their versions of 2026 on conversations of these shapes. The vectors of
[`corpus/systems`](../../corpus/README.md) hold the presets to what the systems promise.

| preset | system | what it counts |
|---|---|---|
| `turn-window:max_turns=4` | AgentLIB | turns, each from a user message to the next |
| `rolling-summary:window_size=4` | Crux | messages, except system messages and the summary |
| `two-tier:sliding_window_size=4` | KB Labs | rounds: an assistant message with the results of its calls |
| `message-window:max_messages=4` | LangChain4j | messages, including the system message |
| `managed-window:window_size=4` | Strands | messages; the system prompt is outside the list |

In the tables, **●** is sent unchanged, **◐** is truncated or cleared, **Σ** is merged into the summary, and **·** is not sent. If the
original does something else with a message, parentheses show what.
";

/// A transcript, and what each system sends of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Transcript {
    title: String,
    says: String,
    messages: Vec<Box<RawValue>>,
    originals: BTreeMap<String, Original>,
}

/// What an original system sends of a transcript.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Original {
    /// The indices of the messages in its window.
    shows: BTreeSet<usize>,
    /// The indices of those among them that are shortened.
    #[serde(default)]
    edited: BTreeSet<usize>,
    /// What else is in its window.
    adds: Option<String>,
    /// Why the preset sends something else; absent if it sends the same.
    why: Option<String>,
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Whole,
    Edited,
    Summarized,
    Gone,
}

impl Fate {
    fn sign(self) -> &'static str {
        match self {
            Fate::Whole => "●",
            Fate::Edited => "◐",
            Fate::Summarized => "Σ",
            Fate::Gone => "·",
        }
    }
}

/// What a preset sends of a transcript.
struct Ours {
    fates: Vec<Fate>,
    summary: Option<String>,
}

/// Returns the whole page.
pub(crate) fn page() -> Result<String, Fault> {
    let mut page = HEAD.to_owned();
    for text in TRANSCRIPTS {
        section(&mut page, &serde_json::from_str(text)?)?;
    }
    Ok(page)
}

fn section(page: &mut String, transcript: &Transcript) -> Result<(), Fault> {
    let messages = Request::from_raw(Dialect::OpenAiChat, &transcript.messages)?.into_messages();
    let mut columns = Vec::new();
    for (preset, option, system) in PRESETS {
        let original = transcript.originals.get(preset).ok_or("a transcript has no entry for a system")?;
        columns.push((preset, system, ours(&messages, preset, option)?, original));
    }
    writeln!(page, "\n## {}\n\n{}\n", transcript.title, transcript.says)?;
    let names: Vec<_> = columns.iter().map(|(preset, ..)| format!("`{preset}`")).collect();
    writeln!(page, "| | message | {} |\n|---|---|{}", names.join(" | "), ":-:|".repeat(names.len()))?;
    for (index, message) in messages.iter().enumerate() {
        write!(page, "| {index} | {} |", label(message))?;
        for (_, _, ours, original) in &columns {
            let here = ours.fates.get(index).copied().unwrap_or(Fate::Gone);
            let there = fate_there(original, index);
            let brackets = if here == there { String::new() } else { format!(" ({})", there.sign()) };
            write!(page, " {}{brackets} |", here.sign())?;
        }
        writeln!(page)?;
    }
    writeln!(page, "\n| preset | what the original sends | why the preset differs |\n|---|---|---|")?;
    for (preset, system, ours, original) in &columns {
        let same = (0..messages.len()).all(|index| ours.fates.get(index) == Some(&fate_there(original, index)));
        let adds_alike = original.adds.is_none() || ours.summary.is_some();
        if (same && adds_alike) != original.why.is_none() {
            return Err(format!(
                "{}, {preset}: a difference without a reason, or a reason without a difference",
                transcript.title
            )
            .into());
        }
        let sends = spans(&original.shows);
        let sends = original.adds.as_ref().map_or(sends.clone(), |adds| format!("{sends}, and {adds}"));
        let why = original.why.as_deref().unwrap_or("It does not.");
        writeln!(page, "| `{preset}` | {system}: {sends} | {why} |")?;
    }
    for summary in columns.iter().filter_map(|(_, _, ours, _)| ours.summary.as_ref()) {
        writeln!(page, "\nThe summary, made without a model from sentences of the conversation:\n")?;
        for line in summary.lines() {
            writeln!(page, "> {line}  ")?;
        }
    }
    Ok(())
}

fn fate_there(original: &Original, index: usize) -> Fate {
    let summarized = original.adds.as_deref() == Some("the summary");
    match (original.shows.contains(&index), original.edited.contains(&index)) {
        (true, true) => Fate::Edited,
        (true, false) => Fate::Whole,
        (false, _) if summarized => Fate::Summarized,
        (false, _) => Fate::Gone,
    }
}

/// Takes a transcript in under a preset, call by call, and returns what the last window shows.
fn ours(messages: &[Message], preset: &str, option: &str) -> Result<Ours, Fault> {
    // Strands' messages are Bedrock's: the system prompt is not in the list, and the results of parallel calls share a
    // message.
    let bedrock = preset == "managed-window";
    let (request, indices) = if bedrock { as_bedrock(messages)? } else { as_openai(messages)? };
    let policy = presets::named_with(preset, [option])?;
    let mut engine = Engine::new(Settings::default().dialect(request.dialect()).policy(policy));
    let counter = Estimate::default();
    let summarizer = Extractive::default();
    let mut summarize = |request: &SummaryRequest| {
        block_on(run(&summarizer, calls::task(request), &counter)).ok().map(|summary| summary.text)
    };
    let result = calls::run_request(&mut engine, &request, &mut summarize, &mut |_| {})?;
    let view = engine.view();
    let gone = if view.summary().is_some() { Fate::Summarized } else { Fate::Gone };
    let mut fates = vec![gone; messages.len()];
    let came = result.entries.iter().zip(0..).filter(|(entry, _)| matches!(entry, Entry::Message(_)));
    for ((_, position), indices) in came.zip(&indices) {
        let Some(item) = view.messages().find(|item| item.position() == position) else { continue };
        let edited = item.edits().iter().any(|edit| matches!(edit.change, edit::Change::Cut { .. }));
        for index in indices {
            if let Some(fate) = fates.get_mut(*index) {
                *fate = if edited { Fate::Edited } else { Fate::Whole };
            }
        }
    }
    if let (true, Some(fate)) = (bedrock, fates.first_mut()) {
        *fate = Fate::Whole;
    }
    Ok(Ours { fates, summary: view.summary().map(|summary| summary.text.clone()) })
}

/// A request, and for each of its messages the indices of the transcript's messages that it holds.
type AsRequest = (Request, Vec<Vec<usize>>);

fn as_openai(messages: &[Message]) -> Result<AsRequest, Fault> {
    let shown = messages.iter().map(|message| Shown { message, edits: &[] });
    let request = Request::from_raw(Dialect::OpenAiChat, &Dialect::OpenAiChat.encode(shown)?)?;
    Ok((request, (0..messages.len()).map(|index| vec![index]).collect()))
}

fn as_bedrock(messages: &[Message]) -> Result<AsRequest, Fault> {
    let mut raws = Vec::new();
    let mut indices = Vec::new();
    let numbered: Vec<_> = messages.iter().enumerate().filter(|(_, message)| message.role() != Role::System).collect();
    let results = |message: &Message| message.tool_results().next().is_some();
    for together in numbered.chunk_by(|(_, a), (_, b)| results(a) && results(b)) {
        let mut converted = Vec::new();
        for (_, message) in together {
            converted.extend(Dialect::Bedrock.convert(message)?);
        }
        let shown = converted.iter().map(|message| Shown { message, edits: &[] });
        raws.extend(Dialect::Bedrock.encode(shown)?.into_iter().map(|raw| raw.into_owned()));
        indices.push(together.iter().map(|(index, _)| *index).collect());
    }
    Ok((Request::from_raw(Dialect::Bedrock, &raws)?, indices))
}

/// Returns who speaks, and how the message begins.
fn label(message: &Message) -> String {
    let calls: Vec<_> = message.tool_calls().map(|(_, call)| call.id.as_str()).collect();
    let result = message.tool_results().next().map(|(_, result)| result.call_id.as_str());
    let who = match (message.role(), result) {
        (Role::System, _) => "system".to_owned(),
        (Role::User, Some(call)) => format!("result of {call}"),
        (Role::User, None) => "user".to_owned(),
        (Role::Assistant, _) if !calls.is_empty() => return format!("assistant calls {}", calls.join(", ")),
        (Role::Assistant, _) => "assistant".to_owned(),
    };
    let text = message.text();
    let beginning: String = text.chars().take(40).collect();
    let more = if beginning.len() < text.len() { "..." } else { "" };
    format!("{who}: {}{more}", beginning.trim_end())
}

/// Writes indices as `0, 5-12`.
fn spans(indices: &BTreeSet<usize>) -> String {
    let indices: Vec<usize> = indices.iter().copied().collect();
    let span = |run: &[usize]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(ToString::to_string).collect(),
    };
    indices.chunk_by(|a, b| a + 1 == *b).map(span).collect::<Vec<_>>().join(", ")
}

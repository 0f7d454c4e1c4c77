//! The script: a task of many steps, each a command in the client's shell.
//!
//! A user asks for `steps 1 to 12`. The model calls the client's shell for each step, sometimes for two at once. The
//! output of each step contains its number, so the newest messages alone show what comes next, even if the window was
//! cut. If there is a tool `recall`, the model sometimes calls it before a step, or beside it.

use std::sync::LazyLock;

use lookback_wire::{
    dialect::{Dialect, Request},
    message::{Message, Role},
};
use regex::Regex;
use serde_json::{Value, json};

use crate::model::{Call, Said};
use crate::schema::{Tool, instance, tools};

/// Matches the user's request: the first and the last step.
static ASKED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"steps (\d+) to (\d+)").ok());
/// Matches a tool call that the user requests, such as `CALL recall {"query":"port"}`.
static CALL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"CALL (\w+) (\{[^{}]*\})").ok());
/// Matches a command that the user wants in the client's shell, such as `RUN (seq 1 4000)`.
static RUN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"RUN \(([^()]*)\)").ok());
/// Matches the result of starting an agent, with its identifier.
static BEGUN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"\{"agent_id":"([^"]+)""#).ok());
/// Matches the first line of a step's output, with the step and the last step. Of a command, which recalled messages may
/// have, it matches only the third group.
static DONE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"STEP (\d+) OF (\d+)|(echo STEP)").ok());

/// The tool with which the model reads messages that have left its window.
const RECALL: &str = "recall";

/// The tools that run commands, by preference.
const SHELLS: [&str; 6] = ["run", "exec_command", "shell", "bash", "run_shell_command", "Bash"];

/// Returns the model's answer to a request.
pub(crate) fn say(request: &Request, number: usize) -> Said {
    let newest = said_since(request.messages());
    if newest.is_empty() && request.member("input").is_some_and(|input| input.get().contains("compaction_trigger")) {
        return Said { compacts: true, ..Said::default() };
    }
    if let Some(form) = form(request) {
        return Said { text: instance(&form).to_string(), ..Said::default() };
    }
    let declared = request.preamble().tools.as_deref().and_then(|tools| serde_json::from_str(tools.get()).ok());
    let tools = tools(&declared.unwrap_or(Value::Null));
    if asks_for_summary(request, &newest, &tools) {
        let text = format!("This is summary {number}: the user asked for steps, and some of them are done.");
        return Said { text, ..Said::default() };
    }
    let shells: Vec<&Tool> =
        SHELLS.iter().filter_map(|name| tools.iter().find(|tool| tool.name == *name)).chain(&tools).collect();
    let running = |command: &str| shells.iter().find_map(|tool| Some((*tool, tool.running(command)?)));
    let wanted = || {
        let command = RUN.as_ref()?.captures(&newest)?.get(1)?.as_str();
        let (tool, arguments) = running(command)?;
        Some(tool.called(format!("run_{:x}", newest.len()), arguments))
    };
    let calls = match waits(&newest, &tools).or_else(wanted) {
        Some(call) => vec![call],
        None => named(&newest, &tools),
    };
    if !calls.is_empty() {
        return Said { text: "I shall see.".to_owned(), calls, ..Said::default() };
    }
    let (since_run, has_recalled) = since_run(request.messages());
    match next(&since_run) {
        Some((step, last)) if step <= last => {
            // Every fourth call runs two steps at once.
            let steps = if step % 4 == 1 && step < last { step..step + 2 } else { step..step + 1 };
            let call = |step: u64| {
                let (tool, arguments) = running(&command(step, last))?;
                Some(tool.called(format!("call_{step}"), arguments))
            };
            let recall = if has_recalled { None } else { tools.iter().find(|tool| tool.name == RECALL) };
            let recall = recall.map(|tool| tool.called(format!("recall_{step}"), json!({"query": "heron"})));
            if step % 6 == 3
                && let Some(recall) = recall
            {
                return Said { text: "I look it up.".to_owned(), calls: vec![recall], ..Said::default() };
            }
            let beside = recall.filter(|_| step % 6 == 5);
            let calls: Vec<Call> = beside.into_iter().chain(steps.filter_map(call)).collect();
            let text =
                if calls.is_empty() { "There is no shell.".to_owned() } else { format!("Now comes step {step}.") };
            Said { text, calls, ..Said::default() }
        }
        Some((_, last)) => Said { text: format!("All steps up to {last} are done."), ..Said::default() },
        // The number makes each answer different.
        None => Said { text: format!("This is answer {number}."), ..Said::default() },
    }
}

/// Returns the text after the model's newest message.
fn said_since(messages: &[Message]) -> String {
    let newest = messages.iter().rposition(|message| message.role() == Role::Assistant).map_or(0, |last| last + 1);
    messages.iter().skip(newest).map(Message::text).collect::<Vec<_>>().join("\n")
}

/// Returns the text after the model's newest message except for those that only called `recall`, and whether there are
/// such messages.
fn since_run(messages: &[Message]) -> (String, bool) {
    let mut end = messages.len();
    loop {
        let text = said_since(messages.get(..end).unwrap_or_default());
        let said = messages.iter().take(end).rposition(|message| message.role() == Role::Assistant);
        let calls = said.and_then(|at| Some((at, messages.get(at)?.tool_calls().any(|(_, call)| call.name == RECALL))));
        let has_run = DONE.as_ref().is_some_and(|done| done.captures_iter(&text).any(|found| found.get(1).is_some()));
        match calls {
            Some((at, true)) if !has_run => end = at,
            _ => return (text, end < messages.len()),
        }
    }
}

/// Returns whether a client asks for a summary of its history: without tools, or of its chat.
fn asks_for_summary(request: &Request, newest: &str, tools: &[Tool]) -> bool {
    let says = |text: &str| ["summar", "SUMMAR", "state_snapshot"].iter().any(|word| text.contains(word));
    let first = || request.messages().first().is_some_and(|first| first.role() == Role::System && says(&first.text()));
    let system = || request.preamble().system.as_deref().is_some_and(|system| says(system.get()));
    let of_chat = newest.contains("Respond with TEXT ONLY") || says(newest) && newest.contains("whole chat");
    of_chat || tools.is_empty() && (says(newest) || first() || system())
}

/// Returns a call that waits for an agent that was started, if there is such a tool.
fn waits(newest: &str, tools: &[Tool]) -> Option<Call> {
    let agent = BEGUN.as_ref()?.captures(newest)?.get(1)?.as_str();
    let tool = tools.iter().find(|tool| tool.name == "wait_agent")?;
    Some(tool.called(format!("waits_{}", agent.len()), json!({"ids": [agent], "targets": [agent]})))
}

/// Returns the tool calls that the newest messages request, of tools that exist.
fn named(newest: &str, tools: &[Tool]) -> Vec<Call> {
    let found = CALL.as_ref().map(|call| call.captures_iter(newest).collect::<Vec<_>>()).unwrap_or_default();
    let call = |(index, found): (usize, &regex::Captures<'_>)| {
        let name = found.get(1)?.as_str();
        let tool = tools.iter().find(|tool| tool.name == name)?;
        let arguments = found.get(2)?.as_str();
        // Some clients escape the quotation marks of the user's message.
        let plain = || serde_json::from_str(&arguments.replace("\\\"", "\""));
        let arguments = serde_json::from_str(arguments).or_else(|_| plain()).ok()?;
        Some(tool.called(format!("named_{index}_{:x}", newest.len()), arguments))
    };
    let mut calls: Vec<Call> = Vec::new();
    for call in found.iter().enumerate().filter_map(call) {
        // A request that is quoted several times is called once.
        if !calls.iter().any(|other| other.name == call.name && other.arguments == call.arguments) {
            calls.push(call);
        }
    }
    calls
}

/// Returns the command of a step. Its output has about a thousand tokens.
fn command(step: u64, last: u64) -> String {
    format!("echo STEP {step} OF {last}; seq {step} 2 800 | tr '\\n' ' '")
}

/// Returns the numbers of the next step and of the last.
fn next(newest: &str) -> Option<(u64, u64)> {
    let numbers = |regex: &LazyLock<Option<Regex>>| -> Option<(u64, u64)> {
        // In a command that is only printed, the step has not run yet.
        let all = regex
            .as_ref()?
            .captures_iter(newest)
            .filter_map(|found| Some((found.get(1)?.as_str().parse().ok()?, found.get(2)?.as_str().parse().ok()?)));
        all.max()
    };
    match (numbers(&DONE), numbers(&ASKED)) {
        (Some((done, last)), _) => Some((done + 1, last)),
        (None, asked) => asked,
    }
}

/// Returns the schema that the answer must conform to, if the request has one.
fn form(request: &Request) -> Option<Value> {
    let member = |name: &str| serde_json::from_str::<Value>(request.member(name)?.get()).ok();
    let at = |value: Value, pointer: &str| value.pointer(pointer).cloned();
    match request.dialect() {
        Dialect::OpenAiChat => at(member("response_format")?, "/json_schema/schema"),
        Dialect::OpenAiResponses => at(member("text")?, "/format/schema"),
        Dialect::Anthropic => at(member("output_config").or_else(|| member("output_format"))?, "/format/schema"),
        Dialect::Gemini => {
            let config = member("generationConfig")?;
            at(config.clone(), "/responseJsonSchema").or_else(|| at(config, "/responseSchema"))
        }
        _ => None,
    }
}

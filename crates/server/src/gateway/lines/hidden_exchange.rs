//! The exchange between gateway and model that the client does not see: notes, and tool calls that the gateway answers.

use std::sync::Arc;

use lookback_agent::{Event, FactSheet, Flow, Middleware, Progress, Reaction, Run, ToolOutcome, ToolStatus};
use lookback_engine::transcript::{Origin, Position};
use lookback_engine::view::View;
use lookback_facts::{Memory, tools};
use lookback_session::Batch;
use lookback_session::{Error, Session};
use lookback_wire::message::{Content, ResultItem, ToolCall, ToolResult, UserPart};
use lookback_wire::{
    dialect::{Dialect, Preamble, RawRequest},
    message::Message,
};
use tokio::task::spawn_blocking;

use crate::gateway::config::additions::Add;

/// The most answers in a row whose tool calls the gateway answers itself. After that, it tells the model to stop
/// calling.
pub(crate) const MOST: u32 = 8;
/// The most calls of one answer that the gateway answers.
const MOST_AT_ONCE: usize = 32;
/// The most further answers with such calls, before the gateway gives up.
pub(crate) const MORE: u32 = 3;

/// The result of a client's tool that the model called together with the gateway's tools. Only the client can run it,
/// and the client does not get this answer.
const ALONE: &str = "This was not run, because it was called together with a memory tool. Call it again.";
/// The result of a call after too many calls of the gateway's tools.
const ENOUGH: &str = "This was not done: there were too many calls of memory tools. Go on without them.";

/// The most tools of a request. OpenAI and Vertex AI refuse more.
pub(crate) const MOST_TOOLS: usize = 128;

/// A tool that the gateway offers.
pub(crate) type Offered = tools::Tool;

/// Returns the tools that the gateway offers with a request, except for those with the name of a client's tool. A tool
/// with calls in the window is offered as long as they are there.
pub(crate) fn offered(adds: &[Add], request: &RawRequest<'_>, preamble: &Preamble, view: &View) -> Vec<Offered> {
    let messages = view.has_beside().then(|| view.messages()).into_iter().flatten();
    let beside = messages.filter(|item| item.is_beside());
    let called: Vec<&str> =
        beside.flat_map(|item| item.message().tool_calls()).map(|(_, call)| call.name.as_str()).collect();
    let asks = adds.iter().any(|add| matches!(add, Add::MemoryTools | Add::Recall));
    if (!asks && called.is_empty()) || !request.takes_tools() {
        return Vec::new();
    }
    let taken = preamble.tool_names();
    if taken.len() >= MOST_TOOLS {
        return Vec::new();
    }
    let is_offered = |tool: &Offered| {
        let is_asked = adds.iter().any(|add| add.answers(tool.name)) || called.contains(&tool.name);
        is_asked && !taken.iter().any(|name| name == tool.name)
    };
    let mut offered: Vec<Offered> = tools::tools().into_iter().filter(is_offered).collect();
    // The policy counts on this one.
    offered.sort_by_key(|tool| tool.name != tools::RECALL);
    offered.truncate(MOST_TOOLS - taken.len());
    offered
}

/// Returns the preamble of a request including the offered tools, because the provider counts them.
pub(crate) fn preamble(request: &RawRequest<'_>, preamble: &Preamble, offered: &[Offered]) -> Preamble {
    if offered.is_empty() {
        return preamble.clone();
    }
    let none: [Box<serde_json::value::RawValue>; 0] = [];
    let changed = offered
        .iter()
        .fold(request.change().messages(&none), |body, tool| body.tool(tool.name, tool.description, &tool.parameters));
    RawRequest::read(&changed.write(), Some(request.dialect()))
        .map_or_else(|_| preamble.clone(), |changed| changed.preamble())
}

/// The middleware of an open session.
pub(crate) struct Watch {
    memory: Memory,
    sheet: Option<FactSheet>,
    progress: Option<Progress>,
    /// Notes for the client's next request, and the number of messages of the conversation before that.
    late: Option<(Vec<String>, u64)>,
}

impl Watch {
    pub(crate) fn new(memory: Memory) -> Watch {
        Watch { memory, sheet: None, progress: None, late: None }
    }

    /// Returns the notes for this request. `new` is the number of new messages at its end.
    pub(crate) async fn notes(&mut self, adds: &[Add], session: &Session, asks: bool, new: u64) -> Vec<String> {
        let run = run(session);
        let mut notes = Vec::new();
        if adds.contains(&Add::FactSheet) {
            let sheet = self.sheet.take().unwrap_or_else(|| FactSheet::new(self.memory.clone()));
            let (sheet, reaction) = ask(sheet, vec![Event::BeforeModel], run.clone()).await;
            self.sheet = sheet;
            notes.extend(reaction.notes);
        }
        // A request that is sent again shows neither progress nor a lack of it.
        if adds.contains(&Add::Progress) && new > 0 {
            let progress = self.progress.take().unwrap_or_default();
            let (progress, reaction) = ask(progress, events(session.view(), asks, new), run).await;
            self.progress = progress;
            notes.extend(reaction.notes);
        }
        notes
    }

    /// Answers calls of an answer whose other calls the client answers. The results are kept for its next request.
    pub(crate) async fn answer_later(&mut self, session: &Session, calls: &[OwnCall]) {
        let mut notes = Vec::new();
        for OwnCall { call, is_too_many, .. } in calls.iter().filter(|call| call.is_ours) {
            let text = if *is_too_many { ENOUGH.to_owned() } else { self.answer(session, call, None).await.0 };
            notes.push(format!("[You also called {} with {}. It returned:]\n{text}", call.name, call.arguments));
        }
        self.late = Some((notes, session.view().history_len()));
    }

    /// Returns whether there are notes for the client's next request.
    pub(crate) fn has_late(&self) -> bool {
        self.late.is_some()
    }

    /// Returns the notes for a request that knows `known` messages and has `new` ones. If it left the answer's branch,
    /// they are dropped.
    pub(crate) fn late(&mut self, known: u64, new: u64) -> Vec<String> {
        let is_due = |messages: u64| known >= messages || new > 0;
        let Some((notes, messages)) = self.late.take_if(|(_, messages)| is_due(*messages)) else { return Vec::new() };
        if known >= messages { notes } else { Vec::new() }
    }

    /// Answers the tool calls of an answer. `at` is the position of the answer in the log.
    pub(crate) async fn results(&mut self, session: &Session, calls: &[OwnCall], at: Option<Position>) -> Vec<Message> {
        let mut results = Vec::new();
        for OwnCall { call, is_ours, is_too_many } in calls {
            let (text, failed) = match (is_ours, is_too_many) {
                (false, _) => (ALONE.to_owned(), true),
                (true, true) => (ENOUGH.to_owned(), true),
                (true, false) => self.answer(session, call, at).await,
            };
            results.push(result(session.settings().dialect, call, text, failed));
        }
        results
    }

    async fn answer(&mut self, session: &Session, call: &ToolCall, at: Option<Position>) -> (String, bool) {
        // The sheet notes the facts that the model writes itself, so that it does not repeat them.
        if let Some(sheet) = self.sheet.take() {
            let (sheet, reaction) = ask(sheet, vec![Event::BeforeTool(call.clone())], run(session)).await;
            self.sheet = sheet;
            match reaction.flow {
                Flow::Answer(text) => return (text, false),
                Flow::Refuse(text) => return (text, true),
                _ => {}
            }
        }
        let memory = at.map_or_else(|| self.memory.clone(), |at| self.memory.at(at));
        let reply = tools::call(&memory, &call.name, &call.arguments).await;
        (reply.text, reply.error)
    }
}

/// A tool call in an answer with calls of the gateway's tools.
pub(crate) struct OwnCall {
    call: ToolCall,
    /// Whether it calls a tool of the gateway.
    pub(crate) is_ours: bool,
    /// Whether the model made too many calls.
    is_too_many: bool,
}

/// Returns the tool calls of an answer. `None` if the gateway answers none of them.
pub(crate) fn calls(message: &Message, offered: &[Offered], rounds: u32) -> Option<Vec<OwnCall>> {
    let is_ours = |call: &ToolCall| offered.iter().any(|tool| tool.name == call.name);
    let own = |(number, (_, call)): (usize, (usize, &ToolCall))| {
        let is_too_many = rounds >= MOST || number >= MOST_AT_ONCE;
        OwnCall { call: call.clone(), is_ours: is_ours(call), is_too_many }
    };
    let calls: Vec<OwnCall> = message.tool_calls().enumerate().map(own).collect();
    calls.iter().any(|call| call.is_ours).then_some(calls)
}

/// Appends notes to a session.
pub(crate) async fn write(session: &mut Session, notes: Vec<String>) -> Result<(), Error> {
    for note in notes {
        session.append(Batch::from(Message::user(note)).origin(Origin::Lookback).at(None)).await?;
    }
    Ok(())
}

/// Returns a tool result for the model. Not every provider can mark it as an error, so its text says so too.
fn result(dialect: Dialect, call: &ToolCall, text: String, failed: bool) -> Message {
    let message = |failed| {
        let result = ToolResult::new(&call.id, text.clone()).with_error(failed).answering(call);
        Message::new(Content::User(vec![UserPart::ToolResult(result)]))
    };
    Some(message(true)).filter(|message| failed && dialect.convert(message).is_ok()).unwrap_or_else(|| message(false))
}

fn run(session: &Session) -> Run {
    let settings = session.settings();
    Run::new(session.name().clone(), session.view().clone(), settings.dialect, settings.policy.clone())
}

/// Sends events to a middleware, on a thread where it may wait for the store. A middleware that panics is dropped.
async fn ask<M: Middleware + 'static>(mut middleware: M, events: Vec<Event>, run: Run) -> (Option<M>, Reaction) {
    let asked = spawn_blocking(move || {
        let mut last = Reaction::none();
        for event in &events {
            last = middleware.on(event, &run).unwrap_or_default();
        }
        (middleware, last)
    });
    match asked.await {
        Ok((middleware, reaction)) => (Some(middleware), reaction),
        Err(_) => (None, Reaction::none()),
    }
}

/// Returns the events that the newest messages mean for [`Progress`]: a new task, or the results of an iteration.
fn events(view: &View, asks: bool, new: u64) -> Vec<Event> {
    if asks {
        return vec![Event::Start, Event::BeforeModel];
    }
    let items: Vec<_> = view.messages().filter(|item| !item.is_own()).collect();
    let first = items.len().saturating_sub(usize::try_from(new).unwrap_or(usize::MAX));
    let call = |id: &str| {
        let calls = items.iter().rev().flat_map(|item| item.message().tool_calls());
        calls.map(|(_, call)| call).find(|call| call.id == id).cloned()
    };
    let results = items.iter().skip(first).flat_map(|item| item.message().tool_results());
    let outcome = |result: &ToolResult| {
        let status = if result.error { ToolStatus::Failed } else { ToolStatus::Returned };
        Some(Event::AfterTool(ToolOutcome::new(call(&result.call_id)?, text(result), status)))
    };
    let outcomes = results.filter_map(|(_, result)| outcome(result));
    outcomes.chain([Event::AfterIteration, Event::BeforeModel]).collect()
}

fn text(result: &ToolResult) -> Arc<str> {
    let text = |item: &ResultItem| match item {
        ResultItem::Text(text) | ResultItem::Json(text) => text.clone(),
        _ => String::new(),
    };
    result.content.iter().map(text).collect::<Vec<_>>().join("\n").into()
}

//! The fact sheet stage: what is known from before stands before the model, its memory tools are answered, and facts are drawn from what
//! leaves the window.
//!
//! The sheet is a note at the end of what is sent, never a part of the system prompt: so a fact that is new breaks nobody's prefix. It is
//! sent once, when a run begins or a compaction has taken the one before it. What others state meanwhile follows on a sheet of changes; what
//! the model states itself it has seen in its own tool call.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use blocking::Task;
use futures_lite::future;
use lookback_core::message::{Message, ToolCall};
use lookback_core::tokens::{Estimate, TokenCounter};
use lookback_core::transcript::{Compaction, Position};

use super::{Event, Failure, Middleware, Reaction, Run};
use crate::memory::{FactId, Memory, MemoryError, Sheet, SheetOptions, sheet, tools};
use crate::summarize::Summarizer;

/// Messages that wait until facts are drawn from them, at the most.
const WAITING: usize = 1_024;

/// Shows a memory to the model, within a token budget.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::sync::Arc;
/// use lookback::memory::{Kind, Memory, Scope, Source, Speaker, Statement};
/// use lookback::middleware::{FactSheet, Pipeline};
/// use lookback::{MemoryStore, Message, Session, Settings};
///
/// let store = Arc::new(MemoryStore::new());
/// let memory = Memory::open(store.clone(), "agent-1").await?;
/// memory.state(Scope::Shared, Statement::new(Kind::Preference, "Use pnpm.", Source::of(Speaker::Person))).await?;
///
/// let session = Session::open(store, "agent-1", Settings::default()).await?;
/// let mut run = Pipeline::new(session).with(FactSheet::new(memory));
/// run.start(Message::user("Install the packages.")).await?;
/// let call = run.next().await?.unwrap();
/// assert!(call.to_json()?.contains("Use pnpm."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct FactSheet {
    memory: Memory,
    options: SheetOptions,
    counter: Arc<dyn TokenCounter>,
    drawing: Option<Drawing>,
    /// The facts that the model knows of; absent until it was told.
    told: Option<BTreeSet<FactId>>,
    /// The newest compaction that was looked at.
    seen: Option<Arc<Compaction>>,
}

/// How facts are drawn from what leaves the window.
#[derive(Debug)]
struct Drawing {
    summarizer: Arc<dyn Summarizer>,
    time_limit: Duration,
    waiting: VecDeque<(Position, Arc<Message>)>,
    /// The one that is under way.
    task: Option<Task<()>>,
}

impl FactSheet {
    /// Where it stands among the stages.
    pub const ORDER: u32 = 20;

    /// The facts of a memory, on a sheet of at most 2,000 tokens.
    pub fn new(memory: Memory) -> Self {
        let (options, counter) = (SheetOptions::default(), Arc::new(Estimate::default()));
        FactSheet { memory, options, counter, drawing: None, told: None, seen: None }
    }

    /// Another sheet, such as one of another budget.
    #[must_use]
    pub fn options(self, options: SheetOptions) -> Self {
        FactSheet { options, ..self }
    }

    /// What counts the sheet's tokens, instead of an estimate.
    #[must_use]
    pub fn counter(self, counter: Arc<dyn TokenCounter>) -> Self {
        FactSheet { counter, ..self }
    }

    /// Draws facts from messages that leave the window (see [`Memory::draw`]), in the background and one call at a time. What is not done when
    /// the run ends is waited for within the stage's time limit, and else given up: the messages stay in the log.
    #[must_use]
    pub fn drawing(self, summarizer: impl Summarizer + 'static, time_limit: Duration) -> Self {
        let (summarizer, waiting) = (Arc::new(summarizer), VecDeque::new());
        FactSheet { drawing: Some(Drawing { summarizer, time_limit, waiting, task: None }), ..self }
    }

    async fn before_model(&mut self, run: &Run) -> Result<Reaction, MemoryError> {
        let now = self.memory.ids().await?;
        if let Some(known) = self.told.replace(now.clone()) {
            let mut new = Vec::new();
            for id in now.difference(&known) {
                new.extend(self.memory.get(*id).await?);
            }
            let gone: Vec<FactId> = known.difference(&now).copied().collect();
            return Ok(said(sheet::changes(&new, &gone, &self.options, &*self.counter)));
        }
        let sheet = self.memory.sheet(&self.options, &*self.counter).await?;
        // It may have been told in another run, or by another process.
        let stands = sheets(run).next_back().is_some_and(|last| last == sheet.text);
        Ok(if stands { Reaction::none() } else { said(sheet) })
    }

    async fn answer(&mut self, call: &ToolCall, run: &Run) -> Result<Reaction, MemoryError> {
        let asked =
            run.view.messages().filter(|item| item.message().tool_calls().any(|(_, other)| other.id == call.id));
        let memory = asked.last().map_or_else(|| self.memory.clone(), |item| self.memory.at(item.position()));
        let before = self.memory.ids().await?;
        let reply = tools::call(&memory, &call.name, &call.arguments).await;
        // What the model changes itself, it knows.
        let after = self.memory.ids().await?;
        if let Some(told) = &mut self.told {
            told.retain(|id| after.contains(id) || !before.contains(id));
            told.extend(after.difference(&before));
        }
        Ok(if reply.error { Reaction::none().refuse(reply.text) } else { Reaction::none().answer(reply.text) })
    }

    /// A compaction may have taken the sheet, and what the model said of facts itself.
    fn notice(&mut self, run: &Run) {
        let is_seen = |new: &Arc<Compaction>| self.seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, new));
        if let Some(new) = run.compaction.as_ref().filter(|new| !is_seen(new)) {
            self.seen = Some(new.clone());
            if sheets(run).next().is_none() {
                self.told = None;
            }
        }
    }
}

impl Drawing {
    /// Takes up what has left the window, and begins to draw from it where nothing is under way.
    fn take_up(&mut self, run: &Run, memory: &Memory, counter: &Arc<dyn TokenCounter>) {
        self.waiting.extend(run.left.iter().cloned());
        while self.waiting.len() > WAITING {
            self.waiting.pop_front();
        }
        if self.task.as_ref().is_none_or(Task::is_finished) && !self.waiting.is_empty() {
            let messages: Vec<_> = self.waiting.drain(..).collect();
            let (memory, counter, summarizer) = (memory.clone(), counter.clone(), self.summarizer.clone());
            let time_limit = self.time_limit;
            self.task = Some(blocking::unblock(move || {
                future::block_on(async {
                    let timer = async {
                        async_io::Timer::after(time_limit).await;
                        tracing::warn!(session = %memory.session(), "facts were not drawn in time");
                    };
                    let draw = async {
                        if let Err(error) = memory.draw(&messages, &*summarizer, &*counter).await {
                            tracing::warn!(session = %memory.session(), %error, "facts were not drawn");
                        }
                    };
                    future::or(draw, timer).await;
                });
            }));
        }
    }

    /// Waits for what is under way.
    fn settle(&mut self) {
        if let Some(task) = self.task.take() {
            future::block_on(task);
        }
    }
}

impl Middleware for FactSheet {
    fn name(&self) -> &str {
        "fact_sheet"
    }

    fn order(&self) -> u32 {
        FactSheet::ORDER
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        self.notice(run);
        if let Some(drawing) = &mut self.drawing {
            drawing.take_up(run, &self.memory, &self.counter);
        }
        match event {
            Event::Start => self.told = None,
            Event::BeforeModel | Event::Compacted => return Ok(future::block_on(self.before_model(run))?),
            Event::BeforeTool(call) if tools::is_tool(&call.name) => {
                return Ok(future::block_on(self.answer(call, run))?);
            }
            Event::Stop(_) => self.drawing.iter_mut().for_each(Drawing::settle),
            Event::BeforeIteration
            | Event::AfterModel(_)
            | Event::BeforeTool(_)
            | Event::AfterTool(_)
            | Event::AfterIteration
            | Event::Overflow(_) => {}
        }
        Ok(Reaction::none())
    }
}

/// The sheets that the model sees now.
fn sheets(run: &Run) -> impl DoubleEndedIterator<Item = String> {
    let notes: Vec<_> = run.view.messages().filter(|item| item.is_note()).map(|item| item.message().text()).collect();
    notes.into_iter().filter(|text| sheet::is_sheet(text))
}

fn said(sheet: Sheet) -> Reaction {
    if sheet.text.is_empty() { Reaction::none() } else { Reaction::none().note(sheet.text) }
}

//! The fact sheet stage: what is known from before stands before the model, its memory tools are answered, and facts are drawn from what
//! leaves the window.
//!
//! The sheet is a note at the end of what is sent, never a part of the system prompt: so a fact that is new breaks nobody's prefix. It is
//! sent once, when a run begins or a compaction has taken the one before it. What others state meanwhile follows on a sheet of changes; what
//! the model states itself it has seen in its own tool call. A memory that cannot be read ends no run: the model is told that it is not
//! available, and whoever runs it gets the error.

use std::collections::{BTreeSet, VecDeque};
use std::error::Error as _;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_channel::{Receiver, TryRecvError};
use futures_lite::{FutureExt as _, future};
use lookback_core::message::{Message, ToolCall};
use lookback_core::tokens::{Estimate, TokenCounter};
use lookback_core::transcript::{Compaction, Position};

use super::{Event, Failure, Middleware, Reaction, Run};
use crate::memory::{DrawError, Fact, FactId, Memory, MemoryError, Sheet, SheetOptions, sheet, tools};
use crate::session::Job;
use crate::summarize::{Spawner, Summarizer};

/// How long the end of a run waits for facts that are being drawn: less than the stage may take.
const SETTLING: Duration = Duration::from_secs(4);
/// Messages that wait until facts are drawn from them, at the most.
const WAITING: usize = 1_024;

/// Shows a memory to the model, within a token budget.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::sync::Arc;
/// use lookback::memory::{FactKind, Memory, Scope, Source, Speaker, Statement};
/// use lookback::middleware::{FactSheet, Pipeline};
/// use lookback::{MemoryStore, Message, Session, Settings};
///
/// let store = Arc::new(MemoryStore::new());
/// let memory = Memory::open(store.clone(), "agent-1").await?;
/// memory.state(Scope::Shared, Statement::new(FactKind::Preference, "Use pnpm.", Source::of(Speaker::Person))).await?;
///
/// let session = Session::open(store, "agent-1", Settings::default()).await?;
/// let mut run = Pipeline::new(session).with(FactSheet::new(memory));
/// run.start(Message::user("Install the packages.")).await?;
/// let call = run.next().await?.unwrap();
/// assert!(call.to_json()?.contains("Use pnpm."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct FactSheet {
    memory: Memory,
    options: SheetOptions,
    counter: Arc<dyn TokenCounter>,
    spawner: Spawner,
    drawing: Option<Drawing>,
    /// The facts that the model knows of; absent until it was told.
    told: Option<BTreeSet<FactId>>,
    /// What was said last, and what the model knows if it hears that.
    saying: Option<(String, BTreeSet<FactId>)>,
    /// Whether a sheet stood in the window when it was last looked at.
    stood: bool,
    /// The newest compaction that was looked at.
    seen: Option<Arc<Compaction>>,
    /// Whether the model was told that the memory cannot be read, and it cannot still.
    unavailable: bool,
}

/// How facts are drawn from what leaves the window.
struct Drawing {
    summarizer: Arc<dyn Summarizer>,
    time_limit: Duration,
    waiting: VecDeque<(Position, Arc<Message>)>,
    under_way: Option<UnderWay>,
    /// What is under way has failed before.
    failed: bool,
}

/// Where facts are drawn, and into which memory.
struct Place<'a> {
    memory: &'a Memory,
    counter: &'a Arc<dyn TokenCounter>,
    spawner: &'a Spawner,
}

/// A job that draws facts.
struct UnderWay {
    /// What it draws from.
    messages: Left,
    /// Tells whether it succeeded; closed without a word if the job was dropped.
    done: Receiver<bool>,
}

impl UnderWay {
    /// Whether it succeeded; `None` while it goes on.
    fn ended(&self) -> Option<bool> {
        match self.done.try_recv() {
            Ok(drawn) => Some(drawn),
            Err(TryRecvError::Closed) => Some(false),
            Err(TryRecvError::Empty) => None,
        }
    }
}

/// Messages that have left the window.
type Left = Arc<[(Position, Arc<Message>)]>;

impl fmt::Debug for FactSheet {
    /// Leaves out what the sheet says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactSheet")
            .field("memory", &self.memory)
            .field("options", &self.options)
            .field("drawing", &self.drawing.is_some())
            .field("told", &self.told.as_ref().map(BTreeSet::len))
            .field("unavailable", &self.unavailable)
            .finish_non_exhaustive()
    }
}

impl FactSheet {
    /// Where it stands among the stages.
    pub const ORDER: u32 = 20;

    /// The facts of a memory, on a sheet of at most 2,000 tokens.
    pub fn new(memory: Memory) -> Self {
        let (options, counter) = (SheetOptions::default(), Arc::new(Estimate::default()));
        FactSheet {
            memory,
            options,
            counter,
            spawner: Spawner::default(),
            drawing: None,
            told: None,
            saying: None,
            stood: false,
            seen: None,
            unavailable: false,
        }
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

    /// Draws facts from messages that leave the window (see [`Memory::draw`]), in the background and one call at a time. What fails is
    /// tried once more. The end of a run waits for it, four seconds at the most; the messages stay in the log in any case.
    #[must_use]
    pub fn drawing(self, summarizer: impl Summarizer + 'static, time_limit: Duration) -> Self {
        let (summarizer, waiting) = (Arc::new(summarizer), VecDeque::new());
        FactSheet { drawing: Some(Drawing { summarizer, time_limit, waiting, under_way: None, failed: false }), ..self }
    }

    /// Sets the function that starts the drawing of facts in the background, for example `tokio::spawn`. What it returns is dropped. It is
    /// called on the task that runs the pipeline.
    ///
    /// By default facts are drawn on a thread of a pool; with the feature `tokio`, on the tokio runtime that the pipeline is used in. A
    /// summarizer whose client needs tokio, such as `reqwest`, needs one of the two: see [`Spawner`].
    #[must_use]
    pub fn with_spawner<R>(self, spawn: impl Fn(Job) -> R + Send + Sync + 'static) -> Self {
        FactSheet { spawner: Spawner::new(spawn), ..self }
    }

    async fn before_model(&mut self, run: &Run) -> Result<Reaction, MemoryError> {
        let now = self.memory.ids().await?;
        let sheet = match &self.told {
            Some(known) if *known == now => Sheet::default(),
            Some(known) => {
                let facts = self.memory.facts().await?;
                let new: Vec<Fact> = facts.into_iter().filter(|fact| !known.contains(&fact.id)).collect();
                let gone: Vec<FactId> = known.difference(&now).copied().collect();
                sheet::changes(&new, &gone, &self.options, &*self.counter)
            }
            None => self.memory.sheet(&self.options, &*self.counter).await?,
        };
        // It may have been told in another run, or by another process.
        let stands = self.told.is_none() && sheets(run).next_back().is_some_and(|last| last == sheet.text);
        if sheet.text.is_empty() || stands {
            self.told = Some(now);
            return Ok(Reaction::none());
        }
        // Whether the model hears it is seen when it stands in the window.
        self.saying = Some((sheet.text.clone(), now));
        Ok(Reaction::none().note(sheet.text))
    }

    /// Says once that the memory cannot be read.
    fn without_memory(&mut self, error: &MemoryError) -> Reaction {
        tracing::warn!(session = %self.memory.session(), %error, "no fact sheet could be made");
        if std::mem::replace(&mut self.unavailable, true) {
            return Reaction::none();
        }
        let words = "what was remembered cannot be read, and nothing can be added. Go on without it";
        Reaction::none().note(format!("{}: {words}.", tools::UNAVAILABLE))
    }

    async fn answer(&mut self, call: &ToolCall, run: &Run) -> Reaction {
        let mut asked =
            run.view.messages().filter(|item| item.message().tool_calls().any(|(_, other)| other.id == call.id));
        let at = asked.next_back().map(|item| item.position());
        let memory = at.map_or_else(|| self.memory.clone(), |at| self.memory.at(at));
        let before = self.memory.ids().await;
        let reply = tools::call(&memory, &call.name, &call.arguments).await;
        let after = self.memory.facts().await;
        if let (Some(told), Ok(before), Ok(facts)) = (&mut self.told, before, after) {
            // What the model changes itself, it knows.
            let own = |fact: &&Fact| fact.statement.source.message == at && !before.contains(&fact.id);
            told.extend(facts.iter().filter(own).map(|fact| fact.id));
            told.retain(|id| !before.contains(id) || facts.iter().any(|fact| fact.id == *id));
        }
        if reply.error { Reaction::none().refuse(reply.text) } else { Reaction::none().answer(reply.text) }
    }

    /// Whether the model has heard what was said last, and whether anything took the sheet since, and what the model said of facts itself.
    fn notice(&mut self, event: &Event, run: &Run) {
        if let Some((text, known)) = self.saying.take() {
            let heard = notes(run).any(|note| note == text);
            let later = matches!(event, Event::BeforeModel | Event::AfterModel(_) | Event::Stop(_));
            match heard {
                true => self.told = Some(known),
                // It was said too late, or the stage failed after it.
                false if later => {}
                false => self.saying = Some((text, known)),
            }
        }
        let stands = sheets(run).next().is_some();
        let is_seen = |new: &Arc<Compaction>| self.seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, new));
        let compacted = run.compaction.as_ref().filter(|new| !is_seen(new)).cloned();
        if !stands && (self.stood || compacted.is_some()) {
            self.told = None;
        }
        self.stood = stands;
        self.seen = compacted.or(self.seen.take());
    }
}

impl Drawing {
    /// Takes what has left the window, and begins to draw from it unless a job is under way.
    fn take_up(&mut self, run: &Run, place: &Place<'_>) {
        self.waiting.extend(run.left.iter().cloned());
        while self.waiting.len() > WAITING {
            self.waiting.pop_front();
        }
        if let Some(drawn) = self.under_way.as_ref().and_then(UnderWay::ended) {
            self.finish(drawn);
        }
        if self.under_way.is_none() {
            self.begin(run, place);
        }
    }

    /// Puts the messages of a job that failed back, once.
    fn finish(&mut self, drawn: bool) {
        let Some(job) = self.under_way.take() else { return };
        self.failed = !drawn && !self.failed;
        if self.failed {
            job.messages.iter().rev().for_each(|message| self.waiting.push_front(message.clone()));
        }
    }

    fn begin(&mut self, run: &Run, place: &Place<'_>) {
        let messages: Left = self.waiting.drain(..).collect();
        // Without the runtime that the summarizer needs, every try would fail as the first did.
        if messages.is_empty() || place.spawner.lacks_runtime() {
            return;
        }
        let (tell, done) = async_channel::bounded(1);
        self.under_way = Some(UnderWay { messages: messages.clone(), done });
        let (memory, counter, spawner) = (place.memory.clone(), place.counter.clone(), place.spawner.clone());
        let (summarizer, time_limit) = (self.summarizer.clone(), self.time_limit);
        let job = async move {
            let session = memory.session().clone();
            let draw = async {
                match AssertUnwindSafe(memory.draw(&messages, &*summarizer, &*counter)).catch_unwind().await {
                    Ok(Ok(_)) => return true,
                    Ok(Err(error)) => {
                        if let DrawError::Summarizer(error) = &error {
                            spawner.learn(error);
                        }
                        let cause = error.source().map(tracing::field::display);
                        tracing::warn!(%session, %error, cause, "facts were not drawn");
                    }
                    Err(_) => tracing::warn!(%session, "facts were not drawn: the summarizer panicked"),
                }
                false
            };
            let timer = async {
                async_io::Timer::after(time_limit).await;
                tracing::warn!(%session, "facts were not drawn in time");
                false
            };
            let drawn = future::or(draw, timer).await;
            _ = tell.try_send(drawn);
        };
        run.spawn(place.spawner, Box::pin(job));
    }

    /// Waits for the job that is under way and for what waits behind it, as long as the middleware may. What is not done by then goes on by
    /// itself.
    fn settle(&mut self, run: &Run, place: &Place<'_>) {
        let end = Instant::now() + SETTLING;
        while let Some(job) = &self.under_way {
            let done = async { Some(job.done.recv().await.unwrap_or(false)) };
            let timer = async {
                async_io::Timer::at(end).await;
                None
            };
            let Some(drawn) = future::block_on(future::or(done, timer)) else {
                self.under_way = None;
                return;
            };
            self.finish(drawn);
            self.begin(run, place);
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
        self.notice(event, run);
        let place = Place { memory: &self.memory, counter: &self.counter, spawner: &self.spawner };
        if let Some(drawing) = &mut self.drawing {
            drawing.take_up(run, &place);
        }
        match event {
            Event::Start => (self.told, self.saying, self.unavailable) = (None, None, false),
            // Whoever runs it learns here that the memory cannot be read, and may have that end the run; the model learns it at the call.
            Event::BeforeIteration => _ = future::block_on(self.memory.ids())?,
            Event::BeforeModel | Event::Compacted => {
                return Ok(match future::block_on(self.before_model(run)) {
                    Ok(reaction) => {
                        self.unavailable = false;
                        reaction
                    }
                    Err(error) => self.without_memory(&error),
                });
            }
            Event::BeforeTool(call) if tools::is_tool(&call.name) => {
                return Ok(future::block_on(self.answer(call, run)));
            }
            Event::Stop(_) => {
                let place = Place { memory: &self.memory, counter: &self.counter, spawner: &self.spawner };
                if let Some(drawing) = &mut self.drawing {
                    drawing.settle(run, &place);
                }
            }
            Event::AfterModel(_)
            | Event::BeforeTool(_)
            | Event::AfterTool(_)
            | Event::AfterIteration
            | Event::Overflow(_) => {}
        }
        Ok(Reaction::none())
    }
}

/// What Lookback has told the model, and the model sees now.
fn notes(run: &Run) -> impl DoubleEndedIterator<Item = String> {
    let notes: Vec<_> = run.view.messages().filter(|item| item.is_note()).map(|item| item.message().text()).collect();
    notes.into_iter()
}

/// The whole sheets among that.
fn sheets(run: &Run) -> impl DoubleEndedIterator<Item = String> {
    notes(run).filter(|text| sheet::is_sheet(text))
}

//! The fact sheet: shows the model what is remembered, answers its memory tools, and draws facts from what leaves the
//! window.
//!
//! The sheet is a note at the end of what is sent, and no part of the system prompt, so that a new fact breaks no
//! prefix. It is sent once: when a run begins, and again after a compaction has dropped it. Facts that others state
//! meanwhile follow on a sheet of changes. Facts that the model states itself are in its own tool calls. A memory that
//! cannot be read ends no run: the model is told that it is not available, and the caller gets the error.

use std::collections::{BTreeSet, VecDeque};
use std::error::Error as _;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_channel::{Receiver, TryRecvError};
use futures_lite::{FutureExt as _, future};
use lookback_engine::transcript::Compaction;
use lookback_tokens::{Estimate, TokenCounter};
use lookback_wire::message::ToolCall;

use super::{Event, Failure, Middleware, Reaction, Run};
use lookback_facts::{DrawError, Fact, FactId, LeftMessage, Memory, MemoryError, Sheet, SheetOptions, sheet, tools};
use lookback_summarize::Job;
use lookback_summarize::{Spawner, Summarizer};

/// How long the end of a run waits for facts that are being drawn. It is less than the time limit of the middleware.
const SETTLING: Duration = Duration::from_secs(4);
/// The most messages that wait until facts are drawn from them.
const WAITING: usize = 1_024;

/// Shows a memory to the model, within a token budget.
///
/// ```
/// # futures_lite::future::block_on(async {
/// use std::sync::Arc;
/// use lookback_facts::{FactKind, Memory, Scope, Source, Speaker, Statement};
/// use lookback_agent::{FactSheet, Pipeline};
/// use lookback_store::MemoryStore;
/// use lookback_wire::message::Message;
/// use lookback_session::Session;
/// use lookback_engine::Settings;
///
/// let store = Arc::new(MemoryStore::new());
/// let memory = Memory::open(store.clone(), "agent-1").await?;
/// memory.state(Scope::Shared, Statement::new(FactKind::Preference, "Use pnpm.", Source::new(Speaker::Person))).await?;
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
    /// The facts that the model knows of. `None` until it has had a sheet.
    told: Option<BTreeSet<FactId>>,
    /// The last sheet, and the facts that the model knows once it has read that.
    saying: Option<(String, BTreeSet<FactId>)>,
    /// Whether a sheet was in the window when it was last seen.
    stood: bool,
    /// The newest compaction that was seen.
    seen: Option<Arc<Compaction>>,
    /// Whether the memory cannot be read, and the model was told so.
    unavailable: bool,
}

/// The drawing of facts from messages that leave the window.
struct Drawing {
    summarizer: Arc<dyn Summarizer>,
    time_limit: Duration,
    waiting: VecDeque<LeftMessage>,
    under_way: Option<UnderWay>,
    /// Whether the job that is under way repeats one that failed.
    failed: bool,
}

/// What a job needs of the fact sheet.
struct Place<'a> {
    memory: &'a Memory,
    counter: &'a Arc<dyn TokenCounter>,
    spawner: &'a Spawner,
}

/// A job that draws facts.
struct UnderWay {
    /// The messages that it draws from.
    messages: Left,
    /// Receives whether it succeeded. Closed without a message if the job was dropped.
    done: Receiver<bool>,
}

impl UnderWay {
    /// Whether the job succeeded, or `None` while it goes on.
    fn ended(&self) -> Option<bool> {
        match self.done.try_recv() {
            Ok(drawn) => Some(drawn),
            Err(TryRecvError::Closed) => Some(false),
            Err(TryRecvError::Empty) => None,
        }
    }
}

/// Messages that have left the window.
type Left = Arc<[LeftMessage]>;

impl fmt::Debug for FactSheet {
    /// Leaves out the sheet's text.
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
    /// Its place among the middleware.
    pub const ORDER: u32 = 20;

    /// Creates a middleware that shows the facts of a memory on a sheet of at most 2,000 tokens.
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

    /// Sets the options of the sheet, for example its budget.
    #[must_use]
    pub fn with_options(self, options: SheetOptions) -> Self {
        FactSheet { options, ..self }
    }

    /// Sets what counts the sheet's tokens. The default is an estimate.
    #[must_use]
    pub fn with_counter(self, counter: impl TokenCounter + 'static) -> Self {
        FactSheet { counter: Arc::new(counter), ..self }
    }

    /// Draws facts from messages that leave the window (see [`Memory::draw`]), in the background, in one call at a
    /// time. A call that fails or takes longer than the time limit is repeated once. The end of a run waits for the
    /// calls for at most four seconds. The messages stay in the log in any case.
    #[must_use]
    pub fn with_drawing(self, summarizer: impl Summarizer + 'static, time_limit: Duration) -> Self {
        let (summarizer, waiting) = (Arc::new(summarizer), VecDeque::new());
        FactSheet { drawing: Some(Drawing { summarizer, time_limit, waiting, under_way: None, failed: false }), ..self }
    }

    /// Sets the function that starts the drawing of facts in the background, for example `tokio::spawn`. What it
    /// returns is dropped. It is called on the task that runs the pipeline.
    ///
    /// By default facts are drawn on a thread of a pool; with the feature `tokio`, on the tokio runtime that the
    /// pipeline is used in. A summarizer whose client needs tokio, such as `reqwest`, needs one of the two: see
    /// [`Spawner`].
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
        // Another run, or another process, may have sent the same sheet.
        let stands = self.told.is_none() && sheets(run).next_back().is_some_and(|last| last == sheet.text);
        if sheet.text.is_empty() || stands {
            self.told = Some(now);
            return Ok(Reaction::none());
        }
        // The model knows it once the sheet is in the window.
        self.saying = Some((sheet.text.clone(), now));
        Ok(Reaction::none().note(sheet.text))
    }

    /// Tells the model once that the memory cannot be read.
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
            // The model knows what it changes itself.
            let own = |fact: &&Fact| fact.statement.source.message == at && !before.contains(&fact.id);
            told.extend(facts.iter().filter(own).map(|fact| fact.id));
            told.retain(|id| !before.contains(id) || facts.iter().any(|fact| fact.id == *id));
        }
        if reply.error { Reaction::none().refuse(reply.text) } else { Reaction::none().answer(reply.text) }
    }

    /// Notices whether the last sheet is in the window, and whether a compaction has dropped it.
    fn notice(&mut self, event: &Event, run: &Run) {
        if let Some((text, known)) = self.saying.take() {
            let heard = notes(run).any(|note| note == text);
            let later = matches!(event, Event::BeforeModel | Event::AfterModel(_) | Event::Stop(_));
            match heard {
                true => self.told = Some(known),
                // The sheet came too late, or the middleware failed after it.
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
                let error = summarizer.trouble().map(tracing::field::display);
                tracing::warn!(%session, error, "facts were not drawn in time");
                false
            };
            let drawn = future::or(draw, timer).await;
            _ = tell.try_send(drawn);
        };
        run.spawn(place.spawner, Box::pin(job));
    }

    /// Waits for the job that is under way and for what waits behind it, as long as the middleware may. What is not
    /// done by then goes on by itself.
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
            // If the memory cannot be read, the caller learns it here, and may have that end the run. The model learns
            // it at the call.
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

/// The notes in the window.
fn notes(run: &Run) -> impl DoubleEndedIterator<Item = String> {
    let notes: Vec<_> = run.view.messages().filter(|item| item.is_note()).map(|item| item.message().text()).collect();
    notes.into_iter()
}

/// The whole sheets among the notes in the window.
fn sheets(run: &Run) -> impl DoubleEndedIterator<Item = String> {
    notes(run).filter(|text| sheet::is_sheet(text))
}

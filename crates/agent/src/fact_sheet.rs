//! The fact sheet: shows the facts of a memory to the model, answers the model's memory tools, and extracts facts from
//! messages that leave the window.
//!
//! The sheet is a note at the end of the window and not part of the system prompt, so a new fact does not break the
//! prefix. It is sent when a run begins, and again after a compaction has dropped it. Facts from other sources that are
//! stated meanwhile follow on a sheet of changes. Facts that the model states itself are in its own tool calls. If the
//! memory cannot be read, the run continues: the model gets a note, and the caller gets the error.

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
use lookback_facts::{ExtractError, Fact, FactId, LeftMessage, Memory, MemoryError, Sheet, SheetOptions, sheet, tools};
use lookback_summarize::Job;
use lookback_summarize::{Spawner, Summarizer};

/// How long the end of a run waits for facts that are being extracted. It is less than the time limit of the
/// middleware.
const SETTLING: Duration = Duration::from_secs(4);
/// The most messages that wait for extraction. If there are more, the oldest are skipped.
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
    extraction: Option<Extraction>,
    /// The facts that the model knows. `None` while it has no sheet.
    told: Option<BTreeSet<FactId>>,
    /// The last sheet, and the facts that the model knows once the sheet is in the window.
    saying: Option<(String, BTreeSet<FactId>)>,
    /// Whether a sheet was in the window at the last event.
    had_sheet: bool,
    /// The newest compaction that was seen.
    seen: Option<Arc<Compaction>>,
    /// Whether the memory cannot be read, and the model has a note about it.
    unavailable: bool,
}

/// The extraction of facts from messages that leave the window.
struct Extraction {
    summarizer: Arc<dyn Summarizer>,
    time_limit: Duration,
    waiting: VecDeque<LeftMessage>,
    under_way: Option<RunningJob>,
    /// Whether the current job repeats one that failed.
    failed: bool,
}

/// The parts of the fact sheet that a job needs.
struct Place<'a> {
    memory: &'a Memory,
    counter: &'a Arc<dyn TokenCounter>,
    spawner: &'a Spawner,
}

/// A job that extracts facts.
struct RunningJob {
    /// The messages from which it extracts facts.
    messages: Left,
    /// Receives whether the job succeeded. Closed without a message if the job was dropped.
    done: Receiver<bool>,
}

impl RunningJob {
    /// Returns whether the job succeeded; `None` while it runs.
    fn ended(&self) -> Option<bool> {
        match self.done.try_recv() {
            Ok(extracted) => Some(extracted),
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
            .field("extraction", &self.extraction.is_some())
            .field("told", &self.told.as_ref().map(BTreeSet::len))
            .field("unavailable", &self.unavailable)
            .finish_non_exhaustive()
    }
}

impl FactSheet {
    /// Its order among the middleware.
    pub const ORDER: u32 = 20;

    /// Creates a middleware that shows the facts of a memory on a sheet of at most 2,000 tokens.
    pub fn new(memory: Memory) -> Self {
        let (options, counter) = (SheetOptions::default(), Arc::new(Estimate::default()));
        FactSheet {
            memory,
            options,
            counter,
            spawner: Spawner::default(),
            extraction: None,
            told: None,
            saying: None,
            had_sheet: false,
            seen: None,
            unavailable: false,
        }
    }

    /// Sets the options of the sheet, for example its budget.
    #[must_use]
    pub fn with_options(self, options: SheetOptions) -> Self {
        FactSheet { options, ..self }
    }

    /// Sets the counter of the sheet's tokens. The default is an estimate.
    #[must_use]
    pub fn with_counter(self, counter: impl TokenCounter + 'static) -> Self {
        FactSheet { counter: Arc::new(counter), ..self }
    }

    /// Extracts facts from messages that leave the window (see [`Memory::extract`]), in the background, with one call at
    /// a time. A call that fails or exceeds the time limit is repeated once. The end of a run waits for the calls for at
    /// most four seconds. The messages stay in the log in any case.
    #[must_use]
    pub fn with_extraction(self, summarizer: impl Summarizer + 'static, time_limit: Duration) -> Self {
        let (summarizer, waiting) = (Arc::new(summarizer), VecDeque::new());
        FactSheet {
            extraction: Some(Extraction { summarizer, time_limit, waiting, under_way: None, failed: false }),
            ..self
        }
    }

    /// Sets the function that runs an extraction in the background, for example `tokio::spawn`. Its return value is
    /// dropped. It is called on the task that runs the pipeline.
    ///
    /// By default, an extraction runs on a thread of a pool; with the feature `tokio`, on the tokio runtime in which
    /// the pipeline is used. If the summarizer's client needs tokio, as `reqwest` does, set a spawner or enable the
    /// feature: see [`Spawner`].
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
        // The model knows the facts once the sheet is in the window.
        self.saying = Some((sheet.text.clone(), now));
        Ok(Reaction::none().note(sheet.text))
    }

    /// Returns a note to the model that the memory cannot be read. The note comes once.
    fn without_memory(&mut self, error: &MemoryError) -> Reaction {
        tracing::warn!(session = %self.memory.session(), %error, "no fact sheet could be made");
        if std::mem::replace(&mut self.unavailable, true) {
            return Reaction::none();
        }
        let words = "remembered facts cannot be read, and new ones cannot be added. Continue without them";
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
            // The model knows its own changes.
            let own = |fact: &&Fact| fact.statement.source.message == at && !before.contains(&fact.id);
            told.extend(facts.iter().filter(own).map(|fact| fact.id));
            told.retain(|id| !before.contains(id) || facts.iter().any(|fact| fact.id == *id));
        }
        if reply.error { Reaction::none().refuse(reply.text) } else { Reaction::none().answer(reply.text) }
    }

    /// Checks whether the last sheet is in the window, and whether a compaction has dropped it.
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
        if !stands && (self.had_sheet || compacted.is_some()) {
            self.told = None;
        }
        self.had_sheet = stands;
        self.seen = compacted.or(self.seen.take());
    }
}

impl Extraction {
    /// Takes the messages that have left the window, and begins to extract facts, unless a job is running.
    fn take_up(&mut self, run: &Run, place: &Place<'_>) {
        self.waiting.extend(run.left.iter().cloned());
        while self.waiting.len() > WAITING {
            self.waiting.pop_front();
        }
        if let Some(extracted) = self.under_way.as_ref().and_then(RunningJob::ended) {
            self.finish(extracted);
        }
        if self.under_way.is_none() {
            self.begin(run, place);
        }
    }

    /// Ends a job. If it failed for the first time, its messages wait again.
    fn finish(&mut self, extracted: bool) {
        let Some(job) = self.under_way.take() else { return };
        self.failed = !extracted && !self.failed;
        if self.failed {
            job.messages.iter().rev().for_each(|message| self.waiting.push_front(message.clone()));
        }
    }

    fn begin(&mut self, run: &Run, place: &Place<'_>) {
        let messages: Left = self.waiting.drain(..).collect();
        // Without the runtime that the summarizer needs, every try would fail like the first one.
        if messages.is_empty() || place.spawner.lacks_runtime() {
            return;
        }
        let (tell, done) = async_channel::bounded(1);
        self.under_way = Some(RunningJob { messages: messages.clone(), done });
        let (memory, counter, spawner) = (place.memory.clone(), place.counter.clone(), place.spawner.clone());
        let (summarizer, time_limit) = (self.summarizer.clone(), self.time_limit);
        let job = async move {
            let session = memory.session().clone();
            let draw = async {
                match AssertUnwindSafe(memory.extract(&messages, &*summarizer, &*counter)).catch_unwind().await {
                    Ok(Ok(_)) => return true,
                    Ok(Err(error)) => {
                        if let ExtractError::Summarizer(error) = &error {
                            spawner.learn(error);
                        }
                        let cause = error.source().map(tracing::field::display);
                        tracing::warn!(%session, %error, cause, "facts were not extracted");
                    }
                    Err(_) => tracing::warn!(%session, "facts were not extracted: the summarizer panicked"),
                }
                false
            };
            let timer = async {
                async_io::Timer::after(time_limit).await;
                let error = summarizer.take_error().map(tracing::field::display);
                tracing::warn!(%session, error, "facts were not extracted in time");
                false
            };
            let extracted = future::or(draw, timer).await;
            _ = tell.try_send(extracted);
        };
        run.spawn(place.spawner, Box::pin(job));
    }

    /// Waits for the current job, and for jobs with the waiting messages, for at most [`SETTLING`]. After that, the
    /// current job continues in the background.
    fn settle(&mut self, run: &Run, place: &Place<'_>) {
        let end = Instant::now() + SETTLING;
        while let Some(job) = &self.under_way {
            let done = async { Some(job.done.recv().await.unwrap_or(false)) };
            let timer = async {
                async_io::Timer::at(end).await;
                None
            };
            let Some(extracted) = future::block_on(future::or(done, timer)) else {
                self.under_way = None;
                return;
            };
            self.finish(extracted);
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
        if let Some(extraction) = &mut self.extraction {
            extraction.take_up(run, &place);
        }
        match event {
            Event::Start => (self.told, self.saying, self.unavailable) = (None, None, false),
            // If the memory cannot be read, report the error to the caller here. The caller may let it end the run. The
            // model gets its note at the call.
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
                if let Some(extraction) = &mut self.extraction {
                    extraction.settle(run, &place);
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

/// Returns the notes in the window.
fn notes(run: &Run) -> impl DoubleEndedIterator<Item = String> {
    let notes: Vec<_> = run.view.messages().filter(|item| item.is_note()).map(|item| item.message().text()).collect();
    notes.into_iter()
}

/// Returns the complete sheets among the notes in the window.
fn sheets(run: &Run) -> impl DoubleEndedIterator<Item = String> {
    notes(run).filter(|text| sheet::is_sheet(text))
}

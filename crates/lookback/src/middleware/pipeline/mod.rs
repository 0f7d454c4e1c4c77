//! The pipeline: the stages in their order, the session that they share, and the run that an agent's loop drives.

mod building;
mod chain;
mod log;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use lookback_core::dialect::TooLong;
use lookback_core::message::{Message, ToolCall};
use lookback_core::transcript::{Compaction, Origin, Position};
use lookback_core::{Policy, View};

use super::slot::Slot;
use super::{Call, CallUsage, EndReason, Event, ModelAnswer, Note, MiddlewareError, Stopped, ToolOutcome, ToolUse};
use crate::memory::sheet;
use crate::session::{Error, Session};

/// The stages up to this order are asked before the window of a call is made.
const BEFORE_WINDOW: u32 = 15;
/// A session, the stages around its model calls, and one run of an agent after another.
///
/// The future of a call may be dropped: the session stays valid, and the same call made again goes on where that one was.
/// A tool that was being run is run again.
pub struct Pipeline {
    session: Session,
    slots: Vec<Slot>,
    task: Option<Arc<str>>,
    sub_agent: bool,
    continuity: Option<u64>,
    /// Whether a run has begun in this session's window already.
    resumed: bool,
    iterations: Option<u64>,
    iteration: u64,
    step: Step,
    asking: Option<Asking>,
    /// Notes that are not in the session yet.
    pending: VecDeque<Note>,
    /// Notes of this iteration that are.
    notes: Vec<Note>,
    /// A write that was begun, and where the log ended before it.
    writing: Option<Position>,
    bound: Option<Policy>,
    tools: ToolUse,
    compaction: Option<Arc<Compaction>>,
    /// The one that was the newest when the stages behind the window were asked.
    windowed: Option<Arc<Compaction>>,
    /// The view as it was last looked at, with the log's end then.
    seen: Option<(Position, Arc<View>)>,
    sent: Option<Sent>,
    /// Whether what was reported of the answer that is being taken is in the session.
    reported: bool,
    /// Whether it may use tools.
    allowed: ToolUse,
    costs: Costs,
    /// Tool calls of the newest answer that have no result.
    open: Vec<ToolCall>,
    outcome: Option<ToolOutcome>,
    stopped: Option<Stopped>,
    failures: VecDeque<Arc<MiddlewareError>>,
}

/// What comes next.
enum Step {
    /// Nothing has begun.
    New,
    /// The task is there, and the stages are to be told.
    Start,
    Iteration,
    /// The stages before the window, the window, and those after it.
    Before,
    Window,
    After,
    /// Room is made for what they said, and they are told where that took anything.
    Room,
    Compacted,
    /// The call is to be handed out, or is.
    Call,
    /// The call was refused as too long, and the stages know: the window is made smaller. The log ended here before.
    Overflow(TooLong, Position),
    /// An answer came, and is in the session; the stages are to be told.
    Answered(ModelAnswer),
    /// Tools are run.
    Tools,
    IterationDone,
    /// The run ends: open calls are answered, and the stages told.
    Stopping,
    Over,
}

/// An event, and the stages that are still to be asked.
struct Asking {
    event: Arc<Event>,
    slots: VecDeque<usize>,
}

/// What the model was sent, and when.
struct Sent {
    view: Arc<View>,
    tokens: u64,
    since: Instant,
}

/// Tokens of a run's calls.
#[derive(Default)]
struct Costs {
    spent: u64,
    new: u64,
    /// Those of the newest call's input.
    input: Option<u64>,
}

impl Costs {
    fn add(&mut self, input: u64, output: u64) {
        let more = input.saturating_sub(self.input.replace(input).unwrap_or(input));
        self.spent = self.spent.saturating_add(input).saturating_add(output);
        self.new = self.new.saturating_add(more).saturating_add(output);
    }
}

impl Pipeline {
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The session, without the stages and what they tightened. Where a run is under way, it is left as it is.
    pub fn into_session(mut self) -> Session {
        self.session.bind(None);
        self.session
    }

    /// How the run ended; `None` while it goes on.
    pub fn stopped(&self) -> Option<&Stopped> {
        self.stopped.as_ref()
    }

    /// The newest failures of stages, the oldest first: 64 at the most.
    pub fn failures(&self) -> impl Iterator<Item = &MiddlewareError> {
        self.failures.iter().map(|failure| &**failure)
    }

    /// Begins a run: its task is pushed, and the stages are told. Where a run is under way, that goes on with one more message.
    ///
    /// # Errors
    /// As [`Session::push`].
    pub async fn start(&mut self, task: Message) -> Result<(), Error> {
        if matches!(self.step, Step::Over) {
            self.begin_anew();
        }
        if matches!(self.step, Step::New) {
            self.task = Some(task.text().into());
            if self.resumed {
                self.push(task, Origin::Client).await?;
            } else {
                let turns = if self.sub_agent { 0 } else { Session::RESUMED_TURNS };
                self.session.resume(task, self.continuity.unwrap_or(turns)).await?;
                self.resumed = true;
            }
            self.step = Step::Start;
        } else if !matches!(self.step, Step::Start) {
            return self.push(task, Origin::Client).await;
        }
        self.begin().await
    }

    /// The next model call. `None`: the run is over, and [`Pipeline::stopped`] says why. A call that was handed out and had no answer is
    /// handed out again.
    ///
    /// # Errors
    /// As [`Session::window`]. The same call may be asked for again.
    pub async fn next(&mut self) -> Result<Option<Call>, Error> {
        loop {
            match &self.step {
                Step::New | Step::Start => {
                    self.step = Step::Start;
                    self.begin().await?;
                }
                Step::Iteration => {
                    self.ask(Event::BeforeIteration, 0..self.slots.len()).await?;
                    self.go_on(Step::Before);
                }
                Step::Before => {
                    self.flush().await?;
                    self.ask(Event::BeforeModel, 0..self.early()).await?;
                    self.go_on(Step::Window);
                }
                Step::Window => {
                    self.window().await?;
                    self.windowed = self.compaction.clone();
                    self.step = Step::After;
                }
                Step::After => {
                    self.ask(Event::BeforeModel, self.early()..self.slots.len()).await?;
                    self.go_on(Step::Room);
                }
                Step::Room => {
                    self.window().await?;
                    let same = match (&self.windowed, &self.compaction) {
                        (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                        (before, now) => before.is_none() && now.is_none(),
                    };
                    self.step = if same { Step::Call } else { Step::Compacted };
                }
                Step::Compacted => {
                    self.ask(Event::Compacted, 0..self.slots.len()).await?;
                    self.go_on(Step::Call);
                }
                Step::Call => {
                    self.flush().await?;
                    return self.call().await.map(Some);
                }
                Step::Overflow(..) => self.reduce().await?,
                Step::Answered(_) | Step::Tools | Step::IterationDone => {
                    self.step = Step::IterationDone;
                    self.ask(Event::AfterIteration, 0..self.slots.len()).await?;
                    self.go_on(Step::Iteration);
                    self.begin_iteration();
                }
                Step::Stopping => self.finish().await?,
                Step::Over => return Ok(None),
            }
        }
    }

    /// The provider refused the call that was handed out as too long: the window is made smaller, and [`Pipeline::next`] gives the same
    /// call with it. The stages are told, and not asked about the call again. Where no call is handed out, nothing happens.
    ///
    /// # Errors
    /// As [`Session::overflow`].
    pub async fn overflow(&mut self, cause: TooLong) -> Result<(), Error> {
        if matches!(self.step, Step::Overflow(..)) {
            return self.reduce().await;
        }
        if !matches!(self.step, Step::Call) {
            return Ok(());
        }
        self.ask(Event::Overflow(cause), 0..self.slots.len()).await?;
        self.go_on(Step::Overflow(cause, self.session.stats().entries));
        self.reduce().await
    }

    /// The model answered: gives the tool calls that are to be run, each with [`Pipeline::tool`]. Without any, the run is over. So it is
    /// where the model was to give its last answer: the tools that it calls all the same are not run, their results say so, and
    /// [`Pipeline::stopped`] is [`Stopped::NoAnswer`]. Each call that is handed out has one answer; without one, nothing is taken.
    ///
    /// # Errors
    /// Where the answer cannot be said in the session's dialect, or the store fails.
    pub async fn answered(&mut self, answer: Message, usage: Option<CallUsage>) -> Result<Vec<ToolCall>, Error> {
        if matches!(self.step, Step::Call) {
            self.take_answer(answer, usage).await?;
        }
        if let Step::Answered(answer) = &self.step {
            let event = Event::AfterModel(answer.clone());
            self.ask(event, 0..self.slots.len()).await?;
            self.go_on(Step::Tools);
        }
        if matches!(self.step, Step::Tools) && (self.open.is_empty() || self.allowed != ToolUse::Free) {
            self.step = Step::IterationDone;
        }
        if matches!(self.step, Step::IterationDone) {
            self.ask(Event::AfterIteration, 0..self.slots.len()).await?;
            let stopped = match &self.allowed {
                ToolUse::Free => Stopped::Answered,
                ToolUse::None(reason) if self.open.is_empty() => Stopped::LastAnswer(reason.clone()),
                ToolUse::None(reason) => Stopped::NoAnswer(reason.clone()),
            };
            self.stop_with(stopped);
        }
        if matches!(self.step, Step::Stopping) {
            self.finish().await?;
        }
        Ok(self.open.clone())
    }

    /// Runs a tool that the model called, unless a stage answers instead, and pushes the result. An error of the tool is a result too, and
    /// the model is told of it. A call that is not open is passed over.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn tool<F, T, E>(&mut self, call: &ToolCall, run: impl FnOnce(ToolCall) -> F) -> Result<(), Error>
    where
        F: Future<Output = Result<T, E>>,
        T: Into<String>,
        E: fmt::Display,
    {
        // What a call before this has given, whose future was dropped, comes first.
        self.tell_outcome().await?;
        if matches!(self.step, Step::Tools) && self.open.iter().any(|open| open.id == call.id) {
            let answer = self.ask(Event::BeforeTool(call.clone()), 0..self.slots.len()).await?;
            if self.stopped.is_none() {
                self.outcome = Some(outcome(call, answer, run).await);
            }
            self.tell_outcome().await?;
        }
        if matches!(self.step, Step::Stopping) {
            self.finish().await?;
        }
        Ok(())
    }

    /// Ends the run. Tools that were called and not run have results that say so.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn stop(&mut self, reason: impl Into<String>) -> Result<(), Error> {
        self.stop_with(Stopped::Cut(EndReason::Said(reason.into())));
        self.finish().await
    }

    /// Puts what a tool has given into the session, and tells the stages.
    async fn tell_outcome(&mut self) -> Result<(), Error> {
        let Some(outcome) = self.outcome.clone() else { return Ok(()) };
        self.answer(&outcome.call, &outcome.text, outcome.error, outcome.ran).await?;
        if self.stopped.is_none() {
            self.ask(Event::AfterTool(outcome), 0..self.slots.len()).await?;
        }
        self.outcome = None;
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), Error> {
        // What the stages told a run before this one is not for this one. What is remembered is, and stays where it stands.
        self.session.dismiss(|note| !sheet::is_any_sheet(&note.message().text())).await?;
        self.ask(Event::Start, 0..self.slots.len()).await?;
        self.go_on(Step::Iteration);
        self.begin_iteration();
        Ok(())
    }

    fn begin_anew(&mut self) {
        self.step = Step::New;
        (self.iteration, self.costs) = (0, Costs::default());
        (self.tools, self.stopped, self.task) = (ToolUse::Free, None, None);
        self.pending.clear();
        self.bound = None;
        self.session.bind(None);
    }

    /// A new iteration, unless there were enough.
    fn begin_iteration(&mut self) {
        if !matches!(self.step, Step::Iteration) {
            return;
        }
        if let Some(most) = self.iterations.filter(|most| self.iteration >= *most) {
            return self.stop_with(Stopped::Cut(EndReason::Iterations { most }));
        }
        self.iteration += 1;
        self.notes.clear();
        self.compaction = None;
        tracing::debug!(session = %self.session.name(), iteration = self.iteration, "an iteration begins");
    }

    /// Goes on, unless the run was stopped meanwhile.
    fn go_on(&mut self, step: Step) {
        if self.stopped.is_none() {
            self.step = step;
        }
    }

    fn stop_with(&mut self, stopped: Stopped) {
        if self.stopped.is_none() {
            self.stopped = Some(stopped);
            self.step = Step::Stopping;
            self.asking = None;
        }
    }

    async fn finish(&mut self) -> Result<(), Error> {
        let Some(stopped) = self.stopped.clone().filter(|_| matches!(self.step, Step::Stopping)) else { return Ok(()) };
        self.tell_outcome().await?;
        while let Some(call) = self.open.first().cloned() {
            self.answer(&call, "[This call was not run: the run has ended.]", true, false).await?;
        }
        self.ask(Event::Stop(stopped.clone()), 0..self.slots.len()).await?;
        tracing::debug!(session = %self.session.name(), iteration = self.iteration, how = stopped.name(), "the run is over");
        self.step = Step::Over;
        Ok(())
    }

    /// How many stages are asked before the window is made.
    fn early(&self) -> usize {
        self.slots.partition_point(|slot| slot.order <= BEFORE_WINDOW)
    }
}

/// What comes of a tool call: a stage's answer, or the tool's.
async fn outcome<F, T, E>(
    call: &ToolCall,
    answer: Option<(String, bool)>,
    run: impl FnOnce(ToolCall) -> F,
) -> ToolOutcome
where
    F: Future<Output = Result<T, E>>,
    T: Into<String>,
    E: fmt::Display,
{
    let (begun, ran) = (Instant::now(), answer.is_none());
    let (text, error) = match answer {
        Some(answer) => answer,
        None => match run(call.clone()).await {
            Ok(text) => (text.into(), false),
            Err(error) => (error.to_string(), true),
        },
    };
    ToolOutcome { call: call.clone(), text: text.into(), error, ran, duration: begun.elapsed() }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages: Vec<_> = self.slots.iter().map(|slot| &*slot.name).collect();
        f.debug_struct("Pipeline")
            .field("session", &self.session)
            .field("stages", &stages)
            .field("iteration", &self.iteration)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

//! The pipeline: the stages in their order, the session that they share, and the run that an agent's loop drives.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookback_core::dialect::TooLong;
use lookback_core::message::{Content, Message, ToolCall, ToolResult, UserPart};
use lookback_core::transcript::{Compaction, Entry, Origin, Position};
use lookback_core::{Mode, Policy, View};

use super::slot::Slot;
use super::{
    Answer, Budget, Call, Cause, Event, Flow, Middleware, Note, Observe, OnFailure, Progress, Reaction, Reason, Run,
    Settings, StageError, Stopped, ToolOutcome, ToolUse, Usage,
};
use crate::session::{Error, Session, now};

/// The stages up to this order are asked before the window of a call is made.
const BEFORE_WINDOW: u32 = 15;
/// How many failures are remembered.
const FAILURES: usize = 64;

/// A session, the stages around its model calls, and one run of an agent after another.
///
/// The future of a call may be dropped: the session stays valid, and the same call made again goes on where that one was.
/// A tool that was being run is run again.
pub struct Pipeline {
    session: Session,
    slots: Vec<Slot>,
    task: Option<Arc<str>>,
    sub_agent: bool,
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
    /// The view as it was last looked at, with the log's end then.
    seen: Option<(Position, Arc<View>)>,
    /// What the model was sent, and when.
    sent: Option<(Arc<View>, Instant)>,
    /// Whether it may use tools.
    allowed: ToolUse,
    spent: u64,
    /// Tool calls of the newest answer that have no result.
    open: Vec<ToolCall>,
    outcome: Option<ToolOutcome>,
    stopped: Option<Stopped>,
    failures: VecDeque<Arc<StageError>>,
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
    /// The call is to be handed out, or is.
    Call,
    /// An answer came, and is in the session; the stages are to be told.
    Answered(Answer),
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

impl Pipeline {
    /// A session without stages.
    pub fn new(session: Session) -> Self {
        Pipeline {
            session,
            slots: Vec::new(),
            task: None,
            sub_agent: false,
            iterations: None,
            iteration: 0,
            step: Step::New,
            asking: None,
            pending: VecDeque::new(),
            notes: Vec::new(),
            writing: None,
            bound: None,
            tools: ToolUse::Free,
            compaction: None,
            seen: None,
            sent: None,
            allowed: ToolUse::Free,
            spent: 0,
            open: Vec::new(),
            outcome: None,
            stopped: None,
            failures: VecDeque::new(),
        }
    }

    /// A session with the stages that most runs want: [`Observe`], this budget, and [`Progress`]. Its window is that of its own policy; with
    /// [`Window`](super::Window) it is a narrower one.
    #[must_use]
    pub fn standard(session: Session, budget: Budget) -> Self {
        Pipeline::new(session).with(Observe::new()).with(budget).with(Progress::new())
    }

    /// Puts a stage in its place: after those of the same order.
    #[must_use]
    pub fn with(self, stage: impl Middleware + 'static) -> Self {
        self.with_settings(stage, Settings::default())
    }

    /// Puts a stage in its place, with settings instead of its own.
    #[must_use]
    pub fn with_settings(mut self, stage: impl Middleware + 'static, settings: Settings) -> Self {
        let slot = Slot::new(Box::new(stage), settings);
        let at = self.slots.partition_point(|other| other.order <= slot.order);
        self.slots.insert(at, slot);
        self
    }

    /// A run has at most so many iterations.
    #[must_use]
    pub fn iterations(self, most: u64) -> Self {
        Pipeline { iterations: Some(most), ..self }
    }

    /// Another agent gives the task, and no person.
    #[must_use]
    pub fn sub_agent(self) -> Self {
        Pipeline { sub_agent: true, ..self }
    }

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
    pub fn failures(&self) -> impl Iterator<Item = &StageError> {
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
            self.push(task, Origin::Client).await?;
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
                    self.step = Step::After;
                }
                Step::After => {
                    self.ask(Event::BeforeModel, self.early()..self.slots.len()).await?;
                    self.go_on(Step::Call);
                }
                Step::Call => {
                    self.flush().await?;
                    return self.call().await.map(Some);
                }
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
    /// call with it. No stage is asked for the call again.
    ///
    /// # Errors
    /// As [`Session::overflow`].
    pub async fn overflow(&mut self, cause: TooLong) -> Result<(), Error> {
        if !matches!(self.step, Step::Call) {
            return Ok(());
        }
        self.ask(Event::Overflow(cause), 0..self.slots.len()).await?;
        if self.stopped.is_none() {
            self.session.overflow(cause).await?;
            self.look();
        }
        Ok(())
    }

    /// The model answered: gives the tool calls that are to be run, each with [`Pipeline::tool`]. Without any, the run is over. So it is
    /// where the model was to give its last answer: the tools that it calls all the same are not run, and their results say so.
    ///
    /// # Errors
    /// Where the answer cannot be said in the session's dialect, or the store fails.
    pub async fn answered(&mut self, answer: Message, usage: Option<Usage>) -> Result<Vec<ToolCall>, Error> {
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
                ToolUse::None(reason) => Stopped::LastAnswer(reason.clone()),
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
        if matches!(self.step, Step::Tools) && self.open.iter().any(|open| open.id == call.id) {
            if self.outcome.as_ref().is_none_or(|outcome| outcome.call != *call) {
                let answer = self.ask(Event::BeforeTool(call.clone()), 0..self.slots.len()).await?;
                if self.stopped.is_none() {
                    self.outcome = Some(outcome(call, answer, run).await);
                }
            }
            if let Some(outcome) = self.outcome.clone() {
                self.answer(&outcome.call, &outcome.text, outcome.error).await?;
            }
        }
        if let Some(outcome) = self.outcome.clone().filter(|outcome| outcome.call == *call) {
            self.ask(Event::AfterTool(outcome), 0..self.slots.len()).await?;
            self.outcome = None;
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
        self.stop_with(Stopped::Cut(Reason::Said(reason.into())));
        self.finish().await
    }

    async fn begin(&mut self) -> Result<(), Error> {
        self.ask(Event::Start, 0..self.slots.len()).await?;
        self.go_on(Step::Iteration);
        self.begin_iteration();
        Ok(())
    }

    fn begin_anew(&mut self) {
        self.step = Step::New;
        (self.iteration, self.spent) = (0, 0);
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
            return self.stop_with(Stopped::Cut(Reason::Iterations { most }));
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
        while let Some(call) = self.open.first().cloned() {
            self.answer(&call, "[This call was not run: the run has ended.]", true).await?;
        }
        self.outcome = None;
        self.ask(Event::Stop(stopped.clone()), 0..self.slots.len()).await?;
        tracing::debug!(session = %self.session.name(), iteration = self.iteration, how = stopped.name(), "the run is over");
        self.step = Step::Over;
        Ok(())
    }

    /// How many stages are asked before the window is made.
    fn early(&self) -> usize {
        self.slots.partition_point(|slot| slot.order <= BEFORE_WINDOW)
    }

    async fn take_answer(&mut self, message: Message, usage: Option<Usage>) -> Result<(), Error> {
        let calls: Vec<_> = message.tool_calls().map(|(_, call)| call.clone()).collect();
        let kept = Arc::new(message.clone());
        if let Some(usage) = &usage
            && let Some(model) = usage.model.as_ref().or(self.session.settings().model.as_ref()).cloned()
        {
            self.session.usage(&model, usage.input).await?;
        }
        self.push(message, Origin::Model).await?;
        self.open = calls;
        let reported = usage.as_ref().map_or(0, |usage| usage.input.saturating_add(usage.output));
        self.spent = self.spent.saturating_add(reported);
        let (sent, duration) = match self.sent.take() {
            Some((sent, since)) => (sent, since.elapsed()),
            None => (self.look(), Duration::ZERO),
        };
        self.step = Step::Answered(Answer { message: kept, usage, sent, duration });
        Ok(())
    }

    /// A result of a call, which is open no longer.
    async fn answer(&mut self, call: &ToolCall, text: &str, error: bool) -> Result<(), Error> {
        let Some(at) = self.open.iter().position(|open| open == call) else { return Ok(()) };
        let message = |error| {
            let result = ToolResult { error, ..ToolResult::new(&call.id, text) };
            Message::new(Content::User(vec![UserPart::ToolResult(result)]))
        };
        // Not every provider has a way to say that a result is an error; the text says it then.
        let failed =
            Some(message(true)).filter(|message| error && self.session.settings().dialect.convert(message).is_ok());
        self.push(failed.unwrap_or_else(|| message(false)), Origin::Client).await?;
        self.open.remove(at);
        Ok(())
    }

    /// Pushes a message once, though the future of an earlier try was dropped, or failed, with the message written.
    async fn push(&mut self, message: Message, origin: Origin) -> Result<(), Error> {
        if let Some(end) = self.writing {
            self.session.catch_up().await?;
            let new = self.session.view().messages().filter(|item| item.position() >= end);
            let written = new
                .map(|item| item.message())
                .any(|other| other.role() == message.role() && other.text() == message.text());
            self.writing = None;
            if written {
                return Ok(());
            }
        }
        self.writing = Some(self.session.stats().entries);
        self.session.receive(message, origin, now()).await?;
        self.writing = None;
        Ok(())
    }

    /// Puts what the stages said into the session.
    async fn flush(&mut self) -> Result<(), Error> {
        while let Some(note) = self.pending.front().cloned() {
            self.push(Message::user(&*note.text), Origin::Lookback).await?;
            self.pending.pop_front();
            self.notes.push(note);
        }
        Ok(())
    }

    /// Makes the window, and takes note of what left it.
    async fn window(&mut self) -> Result<(Arc<View>, u64), Error> {
        self.look();
        let window = self.session.window().await?;
        let newest = window.entries().iter().rev().find_map(|entry| match entry {
            Entry::Compaction(compaction) => Some(Arc::new(compaction.clone())),
            _ => None,
        });
        let (view, tokens) = (Arc::new(window.view().clone()), window.tokens());
        self.compaction = newest.or(self.compaction.take());
        self.see(view.clone());
        Ok((view, tokens))
    }

    async fn call(&mut self) -> Result<Call, Error> {
        let (view, tokens) = self.window().await?;
        self.sent = Some((view.clone(), Instant::now()));
        self.allowed = self.tools.clone();
        let dialect = self.session.settings().dialect;
        Ok(Call { view, dialect, tokens, tools: self.tools.clone(), iteration: self.iteration })
    }

    /// The view as it is.
    fn look(&mut self) -> Arc<View> {
        match &self.seen {
            Some((end, view)) if *end == self.session.stats().entries => view.clone(),
            _ => {
                let view = Arc::new(self.session.view().clone());
                self.see(view.clone());
                view
            }
        }
    }

    /// Takes note of a view, and for each stage of what has left it since the one before.
    fn see(&mut self, view: Arc<View>) {
        let before = self.seen.replace((self.session.stats().entries, view.clone()));
        // What is left out on read comes back at the next.
        let Some((_, before)) = before.filter(|_| self.session.settings().policy.mode == Mode::Recorded) else {
            return;
        };
        let shown: HashSet<_> = view.messages().map(|item| item.position()).collect();
        let gone = before.messages().filter(|item| !item.is_own() && !shown.contains(&item.position()));
        let left: Vec<_> = gone.map(|item| (item.position(), Arc::new(item.message().clone()))).collect();
        for slot in self.slots.iter_mut().filter(|slot| !slot.is_out()) {
            slot.left.extend(left.iter().cloned());
        }
    }

    /// Asks stages, one after another, and does what each wants. Gives the answer that one has for a tool.
    async fn ask(&mut self, event: Event, range: Range<usize>) -> Result<Option<(String, bool)>, Error> {
        if self.asking.as_ref().is_none_or(|asking| !asking.event.is_same(&event)) {
            let slots = if event.is_after() { range.rev().collect() } else { range.collect() };
            self.asking = Some(Asking { event: Arc::new(event), slots });
        }
        while let Some((event, index)) =
            self.asking.as_ref().and_then(|asking| Some((asking.event.clone(), *asking.slots.front()?)))
        {
            let reaction = self.ask_one(&event, index).await;
            if let Some(asking) = &mut self.asking {
                asking.slots.pop_front();
            }
            match self.take(&event, index, reaction) {
                Flow::Answer { text, error } if matches!(*event, Event::BeforeTool(_)) => {
                    self.asking = None;
                    return Ok(Some((text, error)));
                }
                Flow::Stop(reason) if self.stopped.is_none() => self.stop_with(Stopped::Cut(reason)),
                Flow::LastAnswer(reason) if self.tools == ToolUse::Free => self.tools = ToolUse::None(reason),
                Flow::Continue | Flow::Answer { .. } | Flow::LastAnswer(_) | Flow::Stop(_) => {}
            }
            if matches!(*event, Event::BeforeModel) && self.stopped.is_none() {
                self.flush().await?;
            }
        }
        self.asking = None;
        Ok(None)
    }

    async fn ask_one(&mut self, event: &Arc<Event>, index: usize) -> Result<Reaction, Cause> {
        let view = self.look();
        let Some(slot) = self.slots.get_mut(index) else { return Ok(Reaction::none()) };
        if slot.is_out() && slot.on_failure == OnFailure::Open {
            return Ok(Reaction::none());
        }
        let left = std::mem::take(&mut slot.left);
        let settings = self.session.settings();
        let run = Run {
            session: self.session.name().clone(),
            task: self.task.clone(),
            iteration: self.iteration,
            iterations: self.iterations,
            sub_agent: self.sub_agent,
            tokens: self.session.tokens_of(&view),
            view,
            spent: self.spent,
            dialect: settings.dialect,
            policy: Arc::new(settings.policy.clone()),
            compaction: self.compaction.clone(),
            left: left.into(),
            notes: self.notes.iter().chain(&self.pending).cloned().collect(),
            tools: self.tools.clone(),
        };
        slot.ask(event, run).await
    }

    /// Does what a stage wants, but for the flow; or tells of its failure.
    fn take(&mut self, event: &Event, index: usize, reaction: Result<Reaction, Cause>) -> Flow {
        let Some(slot) = self.slots.get(index) else { return Flow::Continue };
        let (stage, on_failure) = (slot.name.clone(), slot.on_failure);
        match reaction {
            Ok(Reaction { notes, policy, flow }) => {
                let said = |text: String| Note { stage: stage.clone(), text: text.into() };
                self.pending.extend(notes.into_iter().filter(|text| !text.trim().is_empty()).map(said));
                if let Some(policy) = policy {
                    let window = self.session.settings().model_window;
                    let bound = self.bound.take().map_or(*policy.clone(), |bound| bound.tightened(&policy, window));
                    self.session.bind(Some(bound.clone()));
                    self.bound = Some(bound);
                }
                if flow != Flow::Continue {
                    tracing::debug!(stage = &*stage, event = event.name(), "a stage changes how the run goes on");
                }
                flow
            }
            Err(cause) => {
                let kind = match cause {
                    Cause::Failed(_) => "failed",
                    Cause::Panicked => "panicked",
                    Cause::TimedOut { .. } => "timed_out",
                    Cause::Busy => "busy",
                };
                // Not what it says: that may have the conversation in it.
                tracing::warn!(stage = &*stage, event = event.name(), kind, "a stage of the middleware failed");
                let failure = Arc::new(StageError { stage: stage.to_string(), event: event.name(), cause });
                if self.failures.len() == FAILURES {
                    self.failures.pop_front();
                }
                self.failures.push_back(failure.clone());
                if on_failure == OnFailure::Closed {
                    self.stop_with(Stopped::Stage(failure));
                }
                Flow::Continue
            }
        }
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

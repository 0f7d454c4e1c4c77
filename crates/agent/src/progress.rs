//! The progress of a run: iterations without new evidence, calls in cycles, repeated failures, and the last iteration.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use lookback_wire::message::Message;
use lookback_wire::message::ToolCall;

use super::{EndReason, Event, Failure, Flow, Middleware, Reaction, Run, ToolOutcome, ToolUse};

/// The iterations without new evidence after which the model is nudged, nudged again, and asked for its last answer.
const STUCK: [u64; 3] = [4, 6, 8];
/// The longest cycle that is recognized, in calls.
const LONGEST: usize = 3;

/// Watches a run for new evidence.
///
/// Evidence is a tool result that is not an error, not blank, and new for the same call in this run. It may come from
/// the tool or from a middleware that answers for it. Each nudge comes once, until there is progress again.
///
/// ```
/// use lookback_agent::Progress;
///
/// let patient = Progress::new().nudge_after(8).nudge_again_after(12).last_answer_after(16);
/// # let _ = patient;
/// ```
#[derive(Debug, Clone)]
pub struct Progress {
    stuck: [u64; 3],
    state: State,
}

/// The state of the current run.
#[derive(Debug, Clone, Default)]
struct State {
    evidence: HashSet<u128>,
    /// Whether this iteration brought new evidence.
    fresh: bool,
    /// The number of iterations in a row without new evidence.
    idle: u64,
    /// The number of levels whose nudge was sent.
    level: usize,
    /// The last calls, and whether each brought evidence.
    calls: VecDeque<(u128, bool)>,
    cycle: Option<usize>,
    told_cycle: bool,
    /// The number of times that each failure occurred since the last progress.
    failures: HashMap<u128, u64>,
    repeated: Option<(String, u64)>,
    told_repeated: bool,
    told_last: bool,
}

impl State {
    /// Returns the length of the cycle in the last calls, if the repetition brought no evidence.
    fn cycle(&self) -> Option<usize> {
        let calls: Vec<_> = self.calls.iter().map(|(call, _)| *call).collect();
        let period = repeated_cycle(&calls)?;
        let again = period * (repeats(period) - 1);
        self.calls.iter().rev().take(again).all(|(_, fresh)| !fresh).then_some(period)
    }
}

impl Progress {
    /// Creates a middleware that nudges the model after 4 and 6 iterations without new evidence, and asks for its last
    /// answer after 8.
    pub fn new() -> Self {
        Progress { stuck: STUCK, state: State::default() }
    }

    /// Sets the number of iterations without new evidence after which the model is nudged. The default is 4.
    #[must_use]
    pub fn nudge_after(self, iterations: u64) -> Self {
        let [_, again, last] = self.stuck;
        Progress { stuck: [iterations, again, last], ..self }
    }

    /// Sets the number of iterations after which the model is nudged again. It must be larger than that for the first
    /// nudge. The default is 6.
    #[must_use]
    pub fn nudge_again_after(self, iterations: u64) -> Self {
        let [first, _, last] = self.stuck;
        Progress { stuck: [first, iterations, last], ..self }
    }

    /// Sets the number of iterations after which the model is asked for its last answer. It must be larger than those
    /// for the nudges. The default is 8.
    #[must_use]
    pub fn last_answer_after(self, iterations: u64) -> Self {
        let [first, again, _] = self.stuck;
        Progress { stuck: [first, again, iterations], ..self }
    }

    /// Records the result of a tool, as evidence if it is new.
    fn take(&mut self, outcome: &ToolOutcome) {
        let state = &mut self.state;
        let call = signature(&outcome.call);
        let result = digest(&format!("{call:032x} {}", outcome.text));
        let good = !outcome.status.is_error() && !outcome.text.trim().is_empty();
        let fresh = good && state.evidence.insert(result);
        state.calls.push_back((call, fresh));
        if state.calls.len() > 2 * LONGEST {
            state.calls.pop_front();
        }
        if fresh {
            state.fresh = true;
            (state.idle, state.level) = (0, 0);
            (state.cycle, state.told_cycle, state.repeated, state.told_repeated) = (None, false, None, false);
            state.failures.clear();
            return;
        }
        state.cycle = state.cycle().or(state.cycle);
        if outcome.status.is_error() {
            let times = state.failures.entry(result).or_default();
            *times += 1;
            if *times >= 2 {
                state.repeated = Some((outcome.call.name.clone(), *times));
            }
        }
    }

    /// Returns the nudges before a model call.
    fn intervene(&mut self, run: &Run) -> Reaction {
        if run.tools != ToolUse::Allowed {
            return Reaction::none();
        }
        if let Some(last) = self.last_iteration(run) {
            return last;
        }
        let reaction = self.idle();
        if reaction.flow != Flow::Continue {
            return reaction;
        }
        let notes = [self.cycle(), self.repeated_failure()];
        notes.into_iter().flatten().fold(reaction, Reaction::note)
    }

    /// Announces the last iteration, once.
    fn last_iteration(&mut self, run: &Run) -> Option<Reaction> {
        let most = run.iterations.filter(|most| run.iteration >= *most)?;
        if std::mem::replace(&mut self.state.told_last, true) {
            return None;
        }
        let note = format!(
            "This is the last of {most} iterations, without tools. Answer now: give what you have found, and say what is \
             missing."
        );
        Some(Reaction::none().note(note).last_answer(EndReason::Iterations { most }))
    }

    /// Nudges the model after iterations without new evidence, and finally asks for its last answer.
    fn idle(&mut self) -> Reaction {
        let idle = self.state.idle;
        let level = self.stuck.iter().filter(|after| idle >= **after).count();
        if level <= self.state.level {
            return Reaction::none();
        }
        self.state.level = level;
        match level {
            1 => Reaction::none().note(format!(
                "The last {idle} iterations brought nothing new. State what is known so far, and try another way."
            )),
            2 => Reaction::none().note(format!(
                "Still nothing new after {idle} iterations. If you know enough, answer; if something is missing that only the \
                 user knows, ask."
            )),
            _ => Reaction::none()
                .note(format!(
                    "Nothing new after {idle} iterations. This is the last answer, without tools: state what is known, what is \
                     not, and what to ask."
                ))
                .last_answer(EndReason::Stuck { iterations: idle }),
        }
    }

    /// Returns a note that the calls repeat in a cycle, once.
    fn cycle(&mut self) -> Option<String> {
        if self.state.told_cycle {
            return None;
        }
        let period = self.state.cycle?;
        self.state.told_cycle = true;
        let times = repeats(period);
        Some(match period {
            1 => format!("The same call was made {times} times in a row, with nothing new. Make another, or answer."),
            _ => format!(
                "The same {period} calls were made {times} times in a row, with nothing new. Make others, or answer."
            ),
        })
    }

    /// Returns a note that a call keeps failing in the same way, once.
    fn repeated_failure(&mut self) -> Option<String> {
        if self.state.told_repeated {
            return None;
        }
        let (tool, times) = self.state.repeated.as_ref()?;
        let note = format!(
            "The same call of `{tool}` failed in the same way {times} times. Change its arguments, use another tool, or say what \
             is in the way."
        );
        self.state.told_repeated = true;
        Some(note)
    }
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new()
    }
}

/// Returns the length of the shortest cycle that the last calls repeat: 1 for `A A A`, 2 for `A B A B`, and 3 for
/// `A B C A B C`. Returns `None` if they do not repeat such a cycle.
///
/// ```
/// use lookback_agent::repeated_cycle;
///
/// assert_eq!(repeated_cycle(&["b", "a", "a", "a"]), Some(1));
/// assert_eq!(repeated_cycle(&["a", "b", "a", "b"]), Some(2));
/// assert_eq!(repeated_cycle(&["a", "a", "b", "a", "a"]), None);
/// ```
pub fn repeated_cycle<T: PartialEq>(calls: &[T]) -> Option<usize> {
    (1..=LONGEST).find(|period| {
        let start = calls.len().checked_sub(period * repeats(*period));
        let last = start.and_then(|start| calls.get(start..));
        last.is_some_and(|last| last.iter().zip(last.iter().skip(*period)).all(|(one, next)| one == next))
    })
}

/// The number of repetitions that make a cycle of this length.
fn repeats(period: usize) -> usize {
    if period == 1 { 3 } else { 2 }
}

/// Returns a digest of the tool and its arguments, regardless of the order of the arguments' keys.
fn signature(call: &ToolCall) -> u128 {
    Message::assistant_with_calls("", [ToolCall::new("", &call.name, &call.arguments)]).digest()
}

fn digest(text: &str) -> u128 {
    Message::user(text).digest()
}

impl Middleware for Progress {
    fn name(&self) -> &str {
        "progress"
    }

    fn order(&self) -> u32 {
        50
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs(2))
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        match event {
            Event::Start => self.state = State::default(),
            Event::BeforeModel => return Ok(self.intervene(run)),
            Event::AfterTool(outcome) => self.take(outcome),
            Event::AfterIteration => {
                self.state.idle = if self.state.fresh { 0 } else { self.state.idle + 1 };
                self.state.fresh = false;
            }
            Event::BeforeIteration
            | Event::Compacted
            | Event::AfterModel(_)
            | Event::BeforeTool(_)
            | Event::Overflow(_)
            | Event::Stop(_) => {}
        }
        Ok(Reaction::none())
    }
}

//! `lookback tune`: recommends a policy for recorded sessions by replaying them under many.

mod choice;
mod digest;
mod grid;
mod report;
mod resample;
mod state;

use crate::exit::ExitCode;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::UNIX_EPOCH;

use futures_lite::future::block_on;
use lookback_engine::{Settings, policy::Policy};
use lookback_recordings::Recording;
use lookback_replay::prices::Price;
use lookback_replay::replay::{self, ReplayedCall, Report};
use lookback_session::Error;

use self::choice::Bounds;
use self::digest::digest;
use self::report::Comparison;
use self::state::State;
use crate::args::TuneArgs;
use crate::atomic_file::AtomicFile;
use crate::failure::Failure;
use crate::interruption::{self, INTERRUPTED};
use crate::recordings::Recordings;
use crate::{input, output};

/// The policy that the others are compared with.
const USUAL: &str = "default";

/// The number of replays that run at the same time.
const THREADS: usize = 2;

/// A policy in the comparison.
struct Candidate {
    /// The policy as text, in the form of the command line.
    label: String,
    policy: Policy,
}

/// The settings and state that all replays of a run share.
struct Run<'a> {
    args: &'a TuneArgs,
    price: Price,
    settings: Settings,
    candidates: Vec<Candidate>,
    /// Identifies the build of this program.
    build: String,
    bar: indicatif::ProgressBar,
    /// Whether Ctrl-C was pressed, or the run has failed.
    interrupted: Arc<AtomicBool>,
}

/// A replay to be made.
struct Task {
    recording: Arc<Recording>,
    settings: Settings,
    unrecorded: u64,
    /// The index of the recording's row, and of the policy's column.
    place: (usize, usize),
    /// The digest that identifies the replay in the state file.
    digest: String,
}

/// A replay that was completed or cut short.
struct Outcome {
    task: Task,
    report: Result<Report, Error>,
}

/// The known reports of one recording, one place for each policy.
struct Row {
    reports: Vec<Option<Report>>,
    /// Whether a replay of the recording failed.
    is_left_out: bool,
}

pub(crate) fn run(args: &TuneArgs) -> Result<ExitCode, Failure> {
    let price = input::price(&args.prices.name)?;
    let candidates = candidates(&args.policy)?;
    let recordings = Recordings::find(&args.logs, args.dialect.name.0)?.cache_from_usage(args.usage.cache_from_usage);
    let file = args.output.as_deref().map(AtomicFile::begin).transpose()?;
    let mut state = State::open(&args.state)?;
    let steps = recordings.messages() * candidates.len() as u64;
    let settings = input::settings(args.model.name.as_deref());
    let (bar, interrupted) = (output::progress(steps, "replaying"), interruption::flag()?);
    let run = Run { args, price, settings, candidates, build: build(), bar, interrupted };
    let rows = run.replay_all(&recordings, &mut state)?;
    run.bar.finish_and_clear();
    let cut_short = run.is_interrupted();
    if !rows.is_empty() {
        let bounds = Bounds::from_args(args);
        let comparison = Comparison::new(&run.candidates, &rows, cut_short);
        report::policies(&comparison, args.json, &run.price)?;
        if !cut_short {
            return report::recommendation(&comparison, &run.candidates, &rows, &bounds, file, args.json);
        }
    }
    if cut_short {
        output::warning(&format!(
            "Ctrl-C ended this after {} of {} recordings; the same command continues from there",
            rows.len(),
            recordings.count()
        ));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Err(Failure::NoCalls)
}

/// Returns a text that identifies this build of the program. Replays by another build may give other results.
fn build() -> String {
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let made = |program: &std::fs::Metadata| program.modified().ok()?.duration_since(UNIX_EPOCH).ok();
    program.map_or_else(
        |_| "unknown".to_owned(),
        |program| format!("{:x}-{:x}", program.len(), made(&program).unwrap_or_default().as_nanos()),
    )
}

/// Returns the default policy, and then the given policies or those of the grid.
fn candidates(given: &[String]) -> Result<Vec<Candidate>, Failure> {
    let others = if given.is_empty() { grid::texts() } else { given.to_vec() };
    let mut candidates: Vec<Candidate> = Vec::new();
    for label in [USUAL.to_owned()].into_iter().chain(others) {
        let policy = input::policy(&label, &[])?;
        // Several texts may name the same policy, such as the default and an element of the grid.
        if candidates.iter().all(|other| other.policy != policy) {
            candidates.push(Candidate { label, policy });
        }
    }
    Ok(candidates)
}

impl Run<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Replays every recording under every policy, until Ctrl-C is pressed. Returns the reports of each recording that
    /// has model calls and was replayed under all policies.
    fn replay_all(&self, recordings: &Recordings, state: &mut State) -> Result<Vec<Vec<Report>>, Failure> {
        // Few tasks wait, because each holds its recording in memory.
        let (tasks, queue) = mpsc::sync_channel(THREADS);
        let (outcomes, made) = mpsc::channel();
        let queue = Mutex::new(queue);
        let mut rows = Vec::new();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let (queue, outcomes) = (&queue, outcomes.clone());
                scope.spawn(move || self.work(queue, &outcomes));
            }
            // The last worker that ends closes the channel.
            drop(outcomes);
            let fed = self.feed(recordings, tasks, &made, state, &mut rows);
            if fed.is_err() {
                // Stop the replays that are under way.
                self.interrupted.store(true, Ordering::SeqCst);
            }
            fed
        })?;
        let whole = rows.into_iter().filter_map(|row| row.reports.into_iter().collect::<Option<Vec<Report>>>());
        Ok(whole.filter(|reports| reports.first().is_some_and(|usual| usual.calls > 0)).collect())
    }

    /// Sends replays without a known report to the workers, and takes in their results.
    fn feed(
        &self,
        recordings: &Recordings,
        tasks: SyncSender<Task>,
        made: &Receiver<Outcome>,
        state: &mut State,
        rows: &mut Vec<Row>,
    ) -> Result<(), Failure> {
        let mut known = HashSet::new();
        for recording in recordings.read() {
            let recording = Arc::new(recording?);
            let replays = self.replays(&recording, rows.len());
            // A recording that is given twice counts once. Otherwise the recommendation would look surer than it is.
            if replays.first().is_some_and(|replay| !known.insert(replay.digest.clone())) {
                self.bar.inc(recording.messages.len() as u64 * replays.len() as u64);
                continue;
            }
            rows.push(Row { reports: vec![None; replays.len()], is_left_out: false });
            for task in replays {
                if self.is_interrupted() {
                    break;
                }
                match state.get(&task.digest).cloned() {
                    Some(report) => self.put(rows, &task, report),
                    // The workers receive until the queue is closed.
                    None => drop(tasks.send(task)),
                }
                while let Ok(outcome) = made.try_recv() {
                    self.take(outcome, state, rows)?;
                }
            }
            if self.is_interrupted() {
                break;
            }
        }
        drop(tasks);
        made.iter().try_for_each(|outcome| self.take(outcome, state, rows))
    }

    /// Returns the replays of a recording, one for each policy.
    fn replays(&self, recording: &Arc<Recording>, row: usize) -> Vec<Task> {
        let settings = self.settings.clone().dialect(recording.dialect);
        let unrecorded = self.args.usage.preamble_from_usage.then(|| replay::unrecorded(recording, &*settings.counter));
        let unrecorded = unrecorded.flatten().unwrap_or(0);
        let task = |(column, candidate): (usize, &Candidate)| {
            let settings = settings.clone().policy(candidate.policy.clone());
            let digest = digest(recording, &settings, &self.price, unrecorded);
            let digest = format!("{digest:032x}-{}", self.build);
            Task { recording: recording.clone(), settings, unrecorded, place: (row, column), digest }
        };
        self.candidates.iter().enumerate().map(task).collect()
    }

    /// Makes replays until the queue is closed.
    fn work(&self, queue: &Mutex<Receiver<Task>>, outcomes: &Sender<Outcome>) {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(task) = next else { return };
            let report = self.replay(&task);
            if outcomes.send(Outcome { task, report }).is_err() {
                return;
            }
        }
    }

    fn replay(&self, task: &Task) -> Result<Report, Error> {
        let mut on_call =
            |_: &ReplayedCall| if self.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let settings = task.settings.clone();
        let replay = replay::replay(&task.recording, settings, &self.price, task.unrecorded, &mut on_call);
        let mut report = block_on(replay)?.report;
        // The state file contains no names.
        report.id.clear();
        Ok(report)
    }

    /// Takes in a result. One that was cut short is not kept.
    fn take(&self, outcome: Outcome, state: &mut State, rows: &mut [Row]) -> Result<(), Failure> {
        let Outcome { task, report } = outcome;
        match report {
            Ok(report) if report.cut_short => {}
            Ok(report) => {
                let report = state.record(&task.digest, report)?;
                self.put(rows, &task, report);
            }
            Err(error) => self.leave_out(rows, &task, error),
        }
        Ok(())
    }

    fn put(&self, rows: &mut [Row], task: &Task, report: Report) {
        let (row, column) = task.place;
        if let Some(place) = rows.get_mut(row).and_then(|row| row.reports.get_mut(column)) {
            *place = Some(report);
        }
        self.bar.inc(task.recording.messages.len() as u64);
    }

    /// Leaves a recording out, because policies are compared over the same recordings. Warns once.
    fn leave_out(&self, rows: &mut [Row], task: &Task, error: Error) {
        let Some(row) = rows.get_mut(task.place.0).filter(|row| !row.is_left_out) else { return };
        row.is_left_out = true;
        let label = self.candidates.get(task.place.1).map_or(USUAL, |candidate| candidate.label.as_str());
        let (transcript, policy) = (task.recording.id.clone(), label.to_owned());
        output::warning(&format!("left out: {}", Failure::Replay { transcript, policy, error }));
    }
}

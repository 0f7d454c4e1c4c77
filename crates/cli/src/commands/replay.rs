//! `lookback replay`: replays recorded sessions and reports what they would have sent and cost.

pub(super) mod list;
mod picture;
mod tables;

use crate::exit::ExitCode;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_lite::future::block_on;
use lookback_engine::{Settings, policy::Policy};
use lookback_recordings::Recording;
use lookback_replay::prices::Price;
use lookback_replay::replay::{self, Replay, ReplayedCall, Report};
use lookback_store::{Durability, LogName, MemoryStore, Store};

use crate::args::ReplayArgs;
use crate::atomic_file::AtomicFile;
use crate::failure::Failure;
use crate::interruption::{self, INTERRUPTED};
use crate::pages::{self, Shown};
use crate::recordings::Recordings;
use crate::store::{self, Opening};
use crate::{input, output};

/// The policies that a single policy is compared with, as pairs of label and preset.
const COMPARED: [(&str, &str); 2] = [("no window", "none"), ("last 40 messages", "messages")];

/// A policy in the comparison.
struct Candidate {
    /// Its name in the tables.
    label: String,
    policy: Policy,
    /// The suffix of its sessions' names in the store. `None` if its sessions are not kept.
    suffix: Option<String>,
    total: Report,
}

/// The settings and state that all replays of a run share.
struct Run<'a> {
    args: &'a ReplayArgs,
    price: Price,
    settings: Settings,
    store: Arc<dyn Store>,
    bar: indicatif::ProgressBar,
    /// Whether Ctrl-C was pressed.
    interrupted: Arc<AtomicBool>,
}

/// The results of a run, except for the candidates' totals.
#[derive(Default)]
struct Replayed {
    /// The reports of the sessions that are kept.
    sessions: Vec<Report>,
    /// The calls of the session, if the run replays one recording under one policy.
    calls: Vec<ReplayedCall>,
    /// The number of completed replays. There is one replay for each recording and candidate.
    completed: usize,
    /// The sessions on the page, if the run writes one.
    shown: Vec<Shown>,
    /// Whether Ctrl-C ended the run before all replays were completed.
    cut_short: bool,
}

pub(crate) fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    if args.list || (args.logs.files.is_empty() && !args.logs.has_choice()) {
        return list::run(&args.logs, args.json);
    }
    let price = input::price(&args.prices.name)?;
    let mut candidates = candidates(args)?;
    let recordings = Recordings::find(&args.logs, args.dialect.name.0)?.cache_from_usage(args.usage.cache_from_usage);
    if args.html.is_some() && recordings.count() != 1 {
        return Err(Failure::SeveralPages { count: recordings.count() });
    }
    let page = args.html.as_deref().map(AtomicFile::begin).transpose()?;
    let drawing = args.svg.as_deref().map(AtomicFile::begin).transpose()?;
    let run = Run::start(args, price, recordings.messages() * candidates.len() as u64)?;
    let mut names = Names::before(candidates.iter().filter_map(|candidate| candidate.suffix.as_deref()));
    let replayed = run.replay_all(&recordings, &mut candidates, &mut names)?;
    run.bar.finish_and_clear();
    if args.json {
        candidates.iter().try_for_each(|candidate| output::json_line(&candidate.total))?;
    } else {
        run.write_tables(&replayed, &candidates)?;
    }
    if replayed.cut_short {
        output::warning(&format!(
            "Ctrl-C ended this after {} of {} replays; a replay that was cut short is neither kept nor part of a total",
            replayed.completed,
            recordings.count() * candidates.len()
        ));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if let Some(drawing) = drawing {
        drawing.finish(&picture::svg(&totals(&candidates)))?;
    }
    if let (Some(page), Some((shown, others))) = (page, replayed.shown.split_first()) {
        page.finish(&pages::html(&names.first, shown, others, &run.price, !args.no_contents))?;
    }
    if !args.json {
        suggest(&names.first, args)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the policies of the command line. If there is only one, adds policies to compare it with.
fn candidates(args: &ReplayArgs) -> Result<Vec<Candidate>, Failure> {
    let total = |label: &str| Report::new("total", label);
    let mut candidates = Vec::new();
    for (index, text) in args.policy.iter().enumerate() {
        let suffix = suffix(index, text, &candidates);
        let policy = input::policy(text, &[])?;
        candidates.push(Candidate { label: text.clone(), policy, suffix: Some(suffix), total: total(text) });
    }
    if candidates.len() == 1 && !args.json {
        for (label, preset) in COMPARED {
            let policy = input::policy(preset, &[])?;
            candidates.push(Candidate { label: label.to_owned(), policy, suffix: None, total: total(preset) });
        }
    }
    Ok(candidates)
}

/// Returns the totals of all candidates with their labels.
fn totals(candidates: &[Candidate]) -> Vec<(&str, &Report)> {
    candidates.iter().map(|candidate| (candidate.label.as_str(), &candidate.total)).collect()
}

impl<'a> Run<'a> {
    /// Opens the store and starts the progress bar, which counts `steps` messages.
    fn start(args: &'a ReplayArgs, price: Price, steps: u64) -> Result<Run<'a>, Failure> {
        Ok(Run {
            args,
            price,
            settings: input::settings(args.model.name.as_deref()),
            // A replay can be repeated, so it does not wait for the disk.
            store: store::open(&args.store.location()?, Opening::Made(Durability::System))?,
            bar: output::progress(steps, "replaying"),
            interrupted: interruption::flag()?,
        })
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Replays every recording under every candidate, until Ctrl-C is pressed.
    fn replay_all(
        &self,
        recordings: &Recordings,
        candidates: &mut [Candidate],
        names: &mut Names,
    ) -> Result<Replayed, Failure> {
        let mut replayed = Replayed::default();
        for (index, recording) in recordings.read().enumerate() {
            let recording = recording?;
            let name = names.give(&recording, index);
            let reports = self.replay_under_each(&recording, &name, candidates, &mut replayed)?;
            // The totals compare policies over the same recordings, so a recording counts only if every policy
            // completed it.
            if reports.len() == candidates.len() && reports.iter().all(|report| !report.cut_short) {
                candidates.iter_mut().zip(&reports).for_each(|(candidate, report)| candidate.total.add(report));
            }
            if self.is_interrupted() {
                candidates.iter_mut().for_each(|candidate| candidate.total.cut_short = true);
                replayed.cut_short = true;
                break;
            }
        }
        if recordings.count() != 1 || self.args.policy.len() != 1 {
            replayed.calls.clear();
        }
        Ok(replayed)
    }

    /// Replays one recording under each candidate in turn and returns the reports. Stops early if Ctrl-C is pressed.
    fn replay_under_each(
        &self,
        recording: &Recording,
        name: &str,
        candidates: &[Candidate],
        replayed: &mut Replayed,
    ) -> Result<Vec<Report>, Failure> {
        let mut reports = Vec::new();
        for candidate in candidates {
            let kept = candidate.suffix.as_ref().map(|suffix| format!("{name}{suffix}"));
            let (report, calls) = self.replay(recording, candidate, kept.as_deref(), &mut replayed.shown)?;
            replayed.completed += usize::from(!report.cut_short);
            if self.args.json {
                output::json_line(&report)?;
            } else if kept.is_some() {
                replayed.sessions.push(report.clone());
                replayed.calls = calls;
            }
            reports.push(report);
            if self.is_interrupted() {
                break;
            }
        }
        Ok(reports)
    }

    /// Replays a recording under a candidate's policy. Keeps the session if it is given a name.
    fn replay(
        &self,
        recording: &Recording,
        candidate: &Candidate,
        name: Option<&str>,
        shown: &mut Vec<Shown>,
    ) -> Result<(Report, Vec<ReplayedCall>), Failure> {
        let settings = self.settings.clone().dialect(recording.dialect).policy(candidate.policy.clone());
        let unrecorded = self.args.usage.preamble_from_usage.then(|| replay::unrecorded(recording, &*settings.counter));
        let unrecorded = unrecorded.flatten().unwrap_or(0);
        let (mut calls, start) = (Vec::new(), self.bar.position());
        let mut on_call = |call: &ReplayedCall| {
            self.bar.set_position(start + call.message as u64);
            calls.push(call.clone());
            if self.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let replay = block_on(replay::replay(recording, settings, &self.price, unrecorded, &mut on_call));
        let replay = replay.map_err(|error| {
            let (transcript, policy) = (recording.id.clone(), candidate.label.clone());
            Failure::Replay { transcript, policy, error }
        })?;
        let mut report = replay.report.clone();
        report.policy.clone_from(&candidate.label);
        if self.args.html.is_some() {
            shown.extend(self.shown(recording, replay.clone(), &candidate.label, shown.is_empty())?);
        }
        if let Some(name) = name {
            let name: LogName = name.parse().map_err(lookback_session::Error::from)?;
            block_on(replay.save(&*self.store, &name))?;
        }
        if !report.cut_short {
            self.bar.set_position(start + recording.messages.len() as u64);
        }
        Ok((report, calls))
    }

    /// Returns a completed replay for the page. Only the first can have its requests copied.
    fn shown(
        &self,
        recording: &Recording,
        replay: Replay,
        policy: &str,
        is_first: bool,
    ) -> Result<Option<Shown>, Failure> {
        let positions = replay.positions().to_vec();
        let (store, log) = (MemoryStore::new(), "replay".parse().map_err(lookback_session::Error::from)?);
        if !block_on(replay.save(&store, &log))? {
            return Ok(None);
        }
        let (counter, has_requests) = (&*self.settings.counter, is_first && !self.args.no_contents);
        let shown = Shown::read(&store, &log, counter, &self.price, Some(policy), has_requests)?;
        Ok(Some(shown.with_recording(recording, &positions)))
    }

    /// Writes the calls of one session or the list of sessions, and then the comparison of the policies.
    fn write_tables(&self, replayed: &Replayed, candidates: &[Candidate]) -> Result<(), Failure> {
        let Replayed { sessions, calls, cut_short, .. } = replayed;
        if !calls.is_empty() {
            output::rows(&tables::calls(calls))?;
            output::line("")?;
        } else if sessions.len() > 1 && self.args.policy.len() == 1 {
            output::rows(&tables::sessions(sessions))?;
            output::line("")?;
        }
        if *cut_short && candidates.iter().all(|candidate| candidate.total.calls == 0) {
            return Ok(());
        }
        output::rows(&tables::totals(&totals(candidates)))?;
        let price = &self.price;
        let [name, date, source] = [&price.name, &price.date, &price.source].map(|text| output::plain(text));
        output::line(&format!("\nInput at the prices `{name}` of {date} ({source})."))?;
        self.compare_with_reported(candidates)?;
        let invalid: u64 = candidates.iter().map(|candidate| candidate.total.invalid_requests).sum();
        if invalid > 0 {
            output::warning(&format!(
                "{} broken a rule of the provider; this is a bug in Lookback",
                if invalid == 1 { "1 request has".to_owned() } else { format!("{invalid} requests have") }
            ));
        }
        output::message(&format!("\n{}", tables::legend(!calls.is_empty())));
        Ok(())
    }

    /// Compares the replay with the usage that the provider reported, if the recordings contain it.
    fn compare_with_reported(&self, candidates: &[Candidate]) -> Result<(), Failure> {
        // The recorded session most likely sent everything, so the policy that does so is the best comparison.
        let everything = input::policy("none", &[])?;
        let whole = candidates.iter().find(|candidate| candidate.policy == everything).or(candidates.first());
        if let Some(compared) = whole.and_then(|whole| tables::compared(&whole.label, &whole.total)) {
            output::line(&compared)?;
            output::line(&tables::why(self.args.usage.preamble_from_usage))?;
        }
        Ok(())
    }
}

/// Prints where the sessions are, and suggests commands for them.
fn suggest(name: &str, args: &ReplayArgs) -> Result<(), Failure> {
    let store = &args.store;
    let (name, at) = (output::quoted(name), store::option(store));
    if let Some(page) = &args.html {
        output::message(&format!(
            "\nThe page is {}. Open it in a browser.",
            output::plain(&page.display().to_string())
        ));
    }
    output::message(&format!("\nThe sessions are in {}. Next, try:", store.location()?));
    for command in [
        format!("lookback sessions show {name}{at}"),
        format!("lookback sessions search WORDS{at}"),
        "lookback replay FILE --policy tokens:max_tokens=32000,target_tokens=16000".to_owned(),
    ] {
        output::note(&command);
    }
    Ok(())
}

/// The names of the sessions: unique, and the same each time the same files are replayed.
#[derive(Default)]
struct Names {
    given: HashSet<String>,
    /// For each name, the number that its next duplicate tries first.
    next: HashMap<String, u64>,
    first: String,
    /// The length of the longest suffix, in characters.
    suffix: usize,
}

impl Names {
    /// Returns names that leave room for the longest of the suffixes.
    fn before<'a>(suffixes: impl Iterator<Item = &'a str>) -> Names {
        Names { suffix: suffixes.map(|suffix| suffix.chars().count()).max().unwrap_or(0), ..Names::default() }
    }

    /// Returns the name for a recording's session: the recording's own name if it is valid, with a number if it is
    /// taken.
    fn give(&mut self, recording: &Recording, index: usize) -> String {
        // The prefix keeps a replay from replacing a real session.
        let mut name = format!("replay/{}", recording.id);
        if name.parse::<LogName>().is_err() {
            name = format!("replay/transcript-{index}");
        }
        let fitting = |number: &str| {
            let room = LogName::LONGEST.saturating_sub(number.len() + self.suffix);
            name.chars().take(room).chain(number.chars()).collect::<String>()
        };
        let mut own = fitting("");
        let next = self.next.entry(own.clone()).or_insert(2);
        while self.given.contains(&own) {
            own = fitting(&format!("-{next}"));
            *next += 1;
        }
        if self.given.is_empty() {
            self.first.clone_from(&own);
        }
        self.given.insert(own.clone());
        own
    }
}

/// Returns the suffix of the names of a policy's sessions.
///
/// The first policy has none, so that its sessions have the same names with one policy and with several. Every other
/// policy has its own text, or its number if the text is taken, too long, or not allowed in a name.
fn suffix(index: usize, text: &str, others: &[Candidate]) -> String {
    const LONGEST: usize = 60;
    if index == 0 {
        return String::new();
    }
    let suffix = format!("@{}", text.replace(['/', '\\'], "-"));
    let is_taken = others.iter().any(|other| other.suffix.as_ref() == Some(&suffix));
    let is_valid = format!("replay/a{suffix}").parse::<LogName>().is_ok();
    if is_valid && !is_taken && suffix.chars().count() <= LONGEST { suffix } else { format!("@policy-{}", index + 1) }
}

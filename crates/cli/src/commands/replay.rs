//! `lookback replay`: what recorded sessions would have sent, and what that would have cost.

mod recordings;
mod tables;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_lite::future::block_on;
use lookback::replay::{self, Call, Report};
use lookback::{Durability, LogName, Policy, Price, Recording, Settings, Store};

use self::recordings::Recordings;
use crate::args::ReplayArgs;
use crate::failure::Failure;
use crate::store::{self, Opening};
use crate::{input, output};

/// What a single policy is compared with.
const COMPARED: [(&str, &str); 2] = [("no window", "none"), ("last 40 messages", "messages")];

/// The exit code of a command that Ctrl-C ended, as shells have it.
const INTERRUPTED: u8 = 130;

/// One policy, under the name that it goes by in tables.
struct Candidate {
    label: String,
    policy: Policy,
    /// Whether its sessions are kept in the store, and under which ending of their names.
    kept: Option<String>,
    total: Report,
}

/// What is the same for all of a run.
struct Run<'a> {
    args: &'a ReplayArgs,
    price: Price,
    settings: Settings,
    store: Arc<dyn Store>,
    bar: indicatif::ProgressBar,
    interrupted: Arc<AtomicBool>,
}

pub(crate) fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let price = input::price(&args.prices)?;
    let mut candidates = candidates(args)?;
    let recordings = Recordings::find(args)?;
    let place = &args.store.path;
    let (counter, model_window) = input::model(args.model.name.as_deref());
    let settings = Settings { counter, model: args.model.name.clone(), model_window, ..Settings::default() };
    let steps = recordings.messages() * candidates.len() as u64;
    let run = Run {
        args,
        price,
        settings,
        // A replay can be made again, so it need not wait for the disk at each message.
        store: store::open(place, Opening::Made(Durability::System))?,
        bar: output::progress(steps, "replaying"),
        interrupted: interruption()?,
    };
    let mut names = Names::before(candidates.iter().filter_map(|candidate| candidate.kept.as_deref()));
    let (mut sessions, mut calls, mut done) = (Vec::new(), Vec::new(), 0_usize);
    let is_one = recordings.count() == 1 && args.policy.len() == 1;
    for (index, recording) in recordings.read(args).enumerate() {
        let recording = recording?;
        let name = names.give(&recording, index);
        let mut reports = Vec::new();
        for candidate in &candidates {
            let keep = candidate.kept.as_ref().map(|ending| format!("{name}{ending}"));
            let (report, made) = run.replay(&recording, candidate, keep.as_deref())?;
            done += usize::from(!report.cut_short);
            if args.json {
                output::line(&json(&report)?)?;
            } else if candidate.kept.is_some() {
                sessions.push(report.clone());
                calls.extend(made.into_iter().filter(|_| is_one));
            }
            reports.push(report);
            if run.is_over() {
                break;
            }
        }
        // Policies are compared over the same recordings, so one that not all of them have been through is in no total.
        if reports.len() == candidates.len() && reports.iter().all(|report| !report.cut_short) {
            candidates.iter_mut().zip(&reports).for_each(|(candidate, report)| candidate.total.add(report));
        }
        if run.is_over() {
            candidates.iter_mut().for_each(|candidate| candidate.total.cut_short = true);
            break;
        }
    }
    run.bar.finish_and_clear();
    let code = if run.is_over() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS };
    if args.json {
        for candidate in &candidates {
            output::line(&json(&candidate.total)?)?;
        }
    } else {
        tell(&run, &sessions, &calls, &candidates)?;
    }
    if run.is_over() {
        output::warning(&format!(
            "cut short by Ctrl-C after {done} of {} replays; what is marked so was not kept, and is in no total",
            recordings.count() * candidates.len()
        ));
        return Ok(code);
    }
    if !args.json {
        let (name, at) = (output::quoted(&names.first), store::option(place));
        output::tell(&format!("\nThe sessions are in {}. Next, try:", place.display()));
        for hint in [
            format!("lookback sessions show {name}{at}"),
            format!("lookback sessions search WORDS{at}"),
            "lookback replay FILE --policy tokens:max_tokens=32000,target_tokens=16000".to_owned(),
        ] {
            output::note(&hint);
        }
    }
    Ok(code)
}

/// The policies that were asked for; one alone with those that it is compared with.
fn candidates(args: &ReplayArgs) -> Result<Vec<Candidate>, Failure> {
    let total = |label: &str| Report { id: "total".to_owned(), policy: label.to_owned(), ..Report::default() };
    let mut candidates = Vec::new();
    for (index, text) in args.policy.iter().enumerate() {
        let ending = ending(index, text, &candidates);
        let policy = input::policy(text, &[])?;
        candidates.push(Candidate { label: text.clone(), policy, kept: Some(ending), total: total(text) });
    }
    if candidates.len() == 1 && !args.json {
        for (label, preset) in COMPARED {
            let policy = input::policy(preset, &[])?;
            candidates.push(Candidate { label: label.to_owned(), policy, kept: None, total: total(preset) });
        }
    }
    Ok(candidates)
}

/// Whether Ctrl-C was pressed, from now on. A second time it ends the program at once.
fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let pressed = interrupted.clone();
    let handler = move || {
        if pressed.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    };
    ctrlc::set_handler(handler).map_err(Failure::Handler)?;
    Ok(interrupted)
}

impl Run<'_> {
    fn is_over(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Replays a recording under a policy, and keeps the session under a name.
    fn replay(
        &self,
        recording: &Recording,
        candidate: &Candidate,
        name: Option<&str>,
    ) -> Result<(Report, Vec<Call>), Failure> {
        let settings =
            Settings { dialect: recording.dialect, policy: candidate.policy.clone(), ..self.settings.clone() };
        let unrecorded = self.args.preamble_from_usage.then(|| replay::unrecorded(recording, &*settings.counter));
        let (mut calls, begun) = (Vec::new(), self.bar.position());
        let mut on_call = |call: &Call| {
            self.bar.set_position(begun + call.message as u64);
            calls.push(call.clone());
            if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let fault = |error| {
            let (transcript, policy) = (recording.id.clone(), candidate.label.clone());
            Failure::Replay { transcript, policy, error }
        };
        let unrecorded = unrecorded.flatten().unwrap_or(0);
        let replay = block_on(replay::replay(recording, settings, &self.price, unrecorded, &mut on_call));
        let replay = replay.map_err(fault)?;
        let report = Report { policy: candidate.label.clone(), ..replay.report.clone() };
        if let Some(name) = name {
            let name: LogName = name.parse().map_err(lookback::Error::from)?;
            block_on(replay.save(&*self.store, &name))?;
        }
        if !report.cut_short {
            self.bar.set_position(begun + recording.messages.len() as u64);
        }
        Ok((report, calls))
    }
}

fn json(report: &Report) -> Result<String, Failure> {
    Ok(serde_json::to_string(report).map_err(std::io::Error::from)?)
}

/// What was replayed, for people: the calls of one session, or the sessions, and then the policies.
fn tell(run: &Run<'_>, sessions: &[Report], calls: &[Call], candidates: &[Candidate]) -> Result<(), Failure> {
    if !calls.is_empty() {
        output::rows(&tables::calls(calls))?;
        output::line("")?;
    } else if sessions.len() > 1 && run.args.policy.len() == 1 {
        output::rows(&tables::sessions(sessions))?;
        output::line("")?;
    }
    if candidates.iter().all(|candidate| candidate.total.calls == 0) && run.is_over() {
        return Ok(());
    }
    let totals: Vec<_> = candidates.iter().map(|candidate| (candidate.label.as_str(), &candidate.total)).collect();
    output::rows(&tables::totals(&totals))?;
    let price = &run.price;
    let [name, date, source] = [&price.name, &price.date, &price.source].map(|text| output::plain(text));
    output::line(&format!("\nInput at the prices `{name}` of {date} ({source})."))?;
    // What everything costs, where it is among them, is nearest to what was lived.
    let everything = input::policy("none", &[])?;
    let whole = candidates.iter().find(|candidate| candidate.policy == everything).or(candidates.first());
    if let Some(compared) = whole.and_then(|whole| tables::compared(&whole.label, &whole.total)) {
        output::line(&compared)?;
        output::line(&tables::why(run.args.preamble_from_usage))?;
    }
    let invalid: u64 = candidates.iter().map(|candidate| candidate.total.invalid_requests).sum();
    if invalid > 0 {
        output::warning(&format!("{invalid} requests break a rule of the provider; this is a fault of lookback's"));
    }
    output::tell(&format!("\n{}", tables::legend(!calls.is_empty())));
    Ok(())
}

/// The names of the sessions: each its own, and the same whenever the same files are replayed.
#[derive(Default)]
struct Names {
    given: HashSet<String>,
    /// By name, the number that the next recording of this name may have.
    next: HashMap<String, u64>,
    first: String,
    /// The most characters of what is put behind a name.
    ending: usize,
}

impl Names {
    /// Names behind which the longest of these endings has room.
    fn before<'a>(endings: impl Iterator<Item = &'a str>) -> Names {
        Names { ending: endings.map(|ending| ending.chars().count()).max().unwrap_or(0), ..Names::default() }
    }

    /// The session of a recording: its own name, where that is one, and with a number where another recording has it.
    fn give(&mut self, recording: &Recording, index: usize) -> String {
        // Under a name of their own, so that a replay never takes the place of a session that was lived.
        let mut name = format!("replay/{}", recording.id);
        if name.parse::<LogName>().is_err() {
            name = format!("replay/transcript-{index}");
        }
        let fitting = |suffix: &str| {
            // A name at its greatest length keeps to it.
            let room = LogName::LONGEST.saturating_sub(suffix.len() + self.ending);
            name.chars().take(room).chain(suffix.chars()).collect::<String>()
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

/// What stands behind the names of a policy's sessions: nothing for the first, so that what is said of one policy holds of several; else the
/// policy, where it can be part of a name, is short, and is no other's; else its number.
fn ending(index: usize, text: &str, others: &[Candidate]) -> String {
    const LONGEST: usize = 60;
    if index == 0 {
        return String::new();
    }
    let ending = format!("@{}", text.replace(['/', '\\'], "-"));
    let is_taken = others.iter().any(|other| other.kept.as_ref() == Some(&ending));
    let is_name = format!("replay/a{ending}").parse::<LogName>().is_ok();
    if is_name && !is_taken && ending.chars().count() <= LONGEST { ending } else { format!("@policy-{}", index + 1) }
}

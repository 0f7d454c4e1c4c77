//! `lookback replay`: what recorded sessions would have sent, and what that would have cost.

use std::process::ExitCode;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback::replay::{Call, Groups, Report, replay};
use lookback::{Durability, LogName, MemoryStore, Policy, Price, Recording, Settings};

use crate::args::ReplayArgs;
use crate::failure::Failure;
use crate::store::{self, Opening};
use crate::{input, output};

/// What a single policy is compared with.
const COMPARED: [(&str, &str); 2] = [("no window", "none"), ("last 40 messages", "messages")];

pub(crate) fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let price = input::price(&args.prices)?;
    let mut policies = Vec::new();
    for text in &args.policy {
        policies.push((text.clone(), input::policy(text, &[])?));
    }
    let recordings = recordings(args)?;
    let place = &args.store.path;
    // A replay can be made again, so it need not wait for the disk at each message.
    let store = store::open(place, Opening::Made(Durability::System))?;
    let (counter, model_window) = input::model(args.model.name.as_deref());
    let settings = |recording: &Recording, policy: &Policy| Settings {
        dialect: recording.dialect,
        policy: policy.clone(),
        counter: counter.clone(),
        model: args.model.name.clone(),
        model_window,
    };
    let compared: Vec<_> = if args.json || policies.len() > 1 { Vec::new() } else { COMPARED.to_vec() };
    let calls = recordings.iter().map(|recording| recording.messages.len() as u64).sum::<u64>();
    let bar = output::progress(calls * (policies.len() + compared.len()) as u64, "replaying");

    let mut names = Names::default();
    let mut totals = Vec::new();
    let mut table = Vec::new();
    for (text, policy) in &policies {
        let mut total = Report { id: "total".to_owned(), policy: text.clone(), ..Report::default() };
        for (index, recording) in recordings.iter().enumerate() {
            let name = names.give(recording, index, (policies.len() > 1).then_some(text));
            let mut calls = Vec::new();
            let done = bar.position();
            let mut on_call = |call: &Call| {
                bar.set_position(done + call.message as u64);
                calls.push(call.clone());
            };
            let report =
                block_on(replay(recording, store.clone(), &name, settings(recording, policy), &price, &mut on_call));
            let fault = |error| Failure::Replay { transcript: recording.id.clone(), policy: text.clone(), error };
            let report = Report { policy: text.clone(), ..report.map_err(fault)? };
            bar.set_position(done + recording.messages.len() as u64);
            total.add(&report);
            if args.json {
                output::line(&serde_json::to_string(&report).unwrap_or_default())?;
            } else if recordings.len() == 1 && policies.len() == 1 {
                table = calls;
            }
        }
        totals.push((text.clone(), total));
    }
    for (label, preset) in &compared {
        let policy = input::policy(preset, &[])?;
        let mut total = Report { id: "total".to_owned(), policy: (*preset).to_owned(), ..Report::default() };
        for recording in &recordings {
            let store = Arc::new(MemoryStore::new());
            let done = bar.position();
            let mut on_call = |call: &Call| bar.set_position(done + call.message as u64);
            total.add(&block_on(replay(
                recording,
                store,
                "replay",
                settings(recording, &policy),
                &price,
                &mut on_call,
            ))?);
            bar.set_position(done + recording.messages.len() as u64);
        }
        totals.push(((*label).to_owned(), total));
    }
    bar.finish_and_clear();

    if args.json {
        for (_, total) in &totals {
            output::line(&serde_json::to_string(total).unwrap_or_default())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !table.is_empty() {
        output::line(&calls_table(&table))?;
        output::line("")?;
    }
    output::line(&totals_table(&totals, &price))?;
    let (name, at) = (output::quoted(names.first()), store::option(place));
    output::tell(&format!("\nThe sessions are in {}. Next, try:", place.display()));
    for hint in [
        format!("lookback sessions show {name}{at}"),
        format!("lookback sessions search WORDS{at}"),
        "lookback replay FILE --policy tokens:max_tokens=32000,target_tokens=16000".to_owned(),
    ] {
        output::note(&hint);
    }
    Ok(ExitCode::SUCCESS)
}

fn recordings(args: &ReplayArgs) -> Result<Vec<Recording>, Failure> {
    let mut recordings = Vec::new();
    for path in &args.files {
        let place = input::place(path);
        let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "-").unwrap_or("replay");
        let read = Recording::read(&input::text(path)?, stem, args.dialect.name.0);
        let read = read.map_err(|fault| Failure::Recording { place: place.clone(), fault })?;
        if read.is_empty() {
            return Err(Failure::Empty(place));
        }
        recordings.extend(read);
    }
    Ok(recordings)
}

/// The names of the sessions: each its own, and the same whenever the same files are replayed.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    /// The session of a recording: its own name, where that is one, and with a number where another recording has it.
    fn give(&mut self, recording: &Recording, index: usize, policy: Option<&String>) -> String {
        // Under a name of their own, so that a replay never takes the place of a session that was lived.
        let mut name = format!("replay/{}", recording.id);
        if let Some(policy) = policy {
            name = format!("{name}@{}", policy.replace(['/', '\\'], "-"));
        }
        if name.parse::<LogName>().is_err() {
            name = format!("replay/transcript-{index}");
        }
        let mut own = name.clone();
        for number in 2.. {
            if !self.0.contains(&own) {
                break;
            }
            let suffix = format!("-{number}");
            // A name at its greatest length keeps to it.
            own = name.chars().take(LogName::LONGEST - suffix.len()).chain(suffix.chars()).collect();
        }
        self.0.push(own.clone());
        own
    }

    fn first(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }
}

/// The calls: those at which something happens, and the others folded.
fn calls_table(calls: &[Call]) -> String {
    let mut rows: Vec<[String; 11]> = Vec::new();
    for calls in calls.chunk_by(|a, b| !happens(a) && !happens(b)) {
        rows.extend(folded(calls));
    }
    let header =
        ["call", "messages", "kept", "cut", "cleared", "dropped", "sent", "read", "written", "cost", "what happened"];
    output::text_of(&output::table(header, &[10], rows))
}

/// Whether a call does more than extend the one before.
fn happens(call: &Call) -> bool {
    !note(call).is_empty()
}

/// What happened at a call, or right before it.
fn note(call: &Call) -> String {
    let several =
        |count: u64, one: &str, more: &str| if count == 1 { one.to_owned() } else { format!("{count} {more}") };
    let mut notes = Vec::new();
    if call.groups.summarised > 0 {
        notes.push("a summary takes the place of what it covers".to_owned());
    } else if call.groups != Groups::default() {
        notes.push("compaction".to_owned());
    } else if call.charge.breaks {
        notes.push("does not extend the call before".to_owned());
    } else if call.charge.cold {
        notes.push("cache cold".to_owned());
    }
    if call.capped > 0 {
        notes.push(several(call.capped, "a long output cut as it arrived", "long outputs cut as they arrived"));
    }
    if call.repairs > 0 {
        notes.push(several(call.repairs, "a stand-in for a missing result", "stand-ins for missing results"));
    }
    notes.join(", ")
}

/// A call in a row; calls that only extend each other in one, with the sums of what they cost.
fn folded(calls: &[Call]) -> Option<[String; 11]> {
    let (first, last) = (calls.first()?, calls.last()?);
    let range = |from: u64, to: u64| if calls.len() == 1 { from.to_string() } else { format!("{from}-{to}") };
    let count = |count: u64| if count == 0 { "-".to_owned() } else { count.to_string() };
    let sum = |part: fn(&Call) -> u64| output::number(calls.iter().map(part).sum());
    Some([
        range(first.number, last.number),
        range(first.messages, last.messages),
        count(first.groups.kept),
        count(first.groups.truncated + first.capped),
        count(first.groups.cleared),
        count(first.groups.dropped),
        sum(|call| call.charge.sent()),
        sum(|call| call.charge.read),
        sum(|call| call.charge.written),
        output::money(calls.iter().map(|call| call.charge.cost).sum()),
        note(first),
    ])
}

fn totals_table(totals: &[(String, Report)], price: &Price) -> String {
    let base = totals.first().map_or(0.0, |(_, report)| report.cost);
    let row = |(label, report): &(String, Report)| {
        let share = |part: u64, whole: u64| {
            #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
            let share = if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
            format!("{share:.1} %")
        };
        [
            label.clone(),
            output::number(report.calls),
            output::number(report.sent_tokens),
            share(report.cache_read_tokens, report.sent_tokens),
            output::number(report.max_window_tokens),
            output::number(report.compactions),
            output::number(report.prefix_breaks),
            report.invalid_requests.to_string(),
            share(report.missed_identifiers, report.reused_identifiers),
            output::money(report.cost),
            if base > 0.0 { format!("{:.2}", report.cost / base) } else { "-".to_owned() },
        ]
    };
    let header = [
        "policy",
        "calls",
        "tokens sent",
        "from cache",
        "largest",
        "compactions",
        "breaks",
        "invalid",
        "missed",
        "cost",
        "times",
    ];
    let table = output::text_of(&output::table(header, &[0], totals.iter().map(row)));
    format!("{table}\n\nInput at the prices `{}` of {} ({}).", price.name, price.date, price.source)
}

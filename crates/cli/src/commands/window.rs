//! `lookback window`: a conversation with its window in place.

use std::process::ExitCode;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback::calls::{self, Taken};
use lookback::cut::{Change, Edit, is_hidden};
use lookback::explain::{Fate, fates};
use lookback::plan::Reason;
use lookback::summarize::{Extractive, run as summary};
use lookback::tokens::{TokenCounter, Uncounted};
use lookback::transcript::{Entry, Position, Repair};
use lookback::{Engine, Error, Limits, Policy, Request, Settings, View, Wanted};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args::WindowArgs;
use crate::failure::Failure;
use crate::input::Document;
use crate::{input, output, words};

pub(crate) fn run(args: &WindowArgs) -> Result<ExitCode, Failure> {
    let policy = input::policy(&args.policy.policy, &args.policy.set)?;
    let document = Document::read(&args.file, args.dialect.name.0)?;
    let request = &document.request;
    let model = args.model.name.as_deref().or(request.model());
    let mut run = decide(args, request, &policy, model)?;
    if let Some(refusal) = run.taken.decided.refusal.take() {
        return Err(Error::Refused(refusal).into());
    }
    let view = run.view();
    let messages = view.encode(request.dialect()).map_err(Error::from)?;
    let window = document.with_messages(&messages);
    let warnings = warnings(&run.engine, &run.taken, &policy, view);
    for warning in &warnings {
        output::warning(warning);
    }
    let written = if args.explain {
        let fates = fates(&run.taken.entries, view, &run.engine.explain());
        if args.json {
            let plan = fates.iter().map(Line::of).collect();
            let window = serde_json::from_str(&window).unwrap_or_default();
            let answer = Answer { window, plan, tokens: run.engine.tokens(view) };
            output::result(&serde_json::to_string(&answer).unwrap_or_default())
        } else {
            output::tell(&explain(&fates));
            output::result(&window)
        }
    } else {
        output::result(&window)
    };
    Failure::code_after(written.map_err(Failure::from), u8::from(args.strict && !warnings.is_empty()))
}

struct Run {
    engine: Engine,
    taken: Taken,
}

impl Run {
    /// What is sent.
    fn view(&self) -> &View {
        self.taken.decided.on_read.as_deref().unwrap_or(self.engine.view())
    }
}

/// Decides the window. Tokens are counted only where something depends on them: where the policy does not limit them, a
/// window of no more bytes than its model takes tokens fits, since no token is shorter than a byte (pictures and files aside, which cost what their
/// provider says). A warning or a refusal says
/// how large things are, so it depends on them too.
fn decide(args: &WindowArgs, request: &Request, policy: &Policy, model: Option<&str>) -> Result<Run, Failure> {
    if !policy.counts_tokens() && !args.explain {
        let window = model.and_then(input::known_window);
        let unbounded = Policy { hard: policy.hard.or(Some(Limits::default())), ..policy.clone() };
        let (run, largest) = feed(args, request, unbounded, Arc::new(Uncounted), None, None)?;
        let fits = policy.hard.is_some() || window.is_none_or(|window| largest <= window);
        if fits && run.taken.decided.refusal.is_none() && policy.limits.fits(&run.view().totals()) {
            return Ok(run);
        }
    }
    let (counter, window) = input::model(model);
    Ok(feed(args, request, policy.clone(), counter, model, window)?.0)
}

/// Takes the request in, call by call or once, and gives what the largest window may cost in tokens too.
fn feed(
    args: &WindowArgs,
    request: &Request,
    policy: Policy,
    counter: Arc<dyn TokenCounter>,
    model: Option<&str>,
    model_window: Option<u64>,
) -> Result<(Run, u64), Failure> {
    let model = model.map(ToOwned::to_owned);
    let settings = Settings { dialect: request.dialect(), policy, counter: counter.clone(), model, model_window };
    let mut engine = Engine::new(settings);
    let mut largest = 0;
    let mut on_call = |engine: &Engine| largest = largest.max(most_tokens(engine.view()));
    let summarizer = Extractive::new(counter.clone());
    let mut summarise = |wanted: &Wanted| {
        let summary = block_on(summary(&summarizer, calls::task(wanted), &*counter));
        summary.ok().map(|summary| summary.text)
    };
    let take_in = if args.once { calls::take_in_once } else { calls::take_in };
    let taken = take_in(&mut engine, request, &mut summarise, &mut on_call).map_err(Error::from)?;
    Ok((Run { engine, taken }, largest))
}

/// What a view costs at the most, by its bytes alone.
fn most_tokens(view: &View) -> u64 {
    let size = view.totals().size;
    if size.media == 0 { size.bytes } else { u64::MAX }
}

#[derive(Serialize)]
struct Answer {
    /// The window in the input's shape, byte for byte.
    window: Box<RawValue>,
    plan: Vec<Line>,
    tokens: u64,
}

#[derive(Serialize)]
struct Line {
    span: (usize, usize),
    action: &'static str,
    reason: Reason,
    tokens: u64,
    sent: u64,
}

impl Line {
    fn of(fate: &Fate) -> Line {
        Line {
            span: fate.span,
            action: words::action(fate.action),
            reason: fate.reason,
            tokens: fate.tokens,
            sent: fate.sent,
        }
    }
}

fn explain(fates: &[Fate]) -> String {
    let row = |fate: &Fate| {
        let (first, end) = fate.span;
        let messages = if end - first == 1 { format!("{first}") } else { format!("{first}-{}", end - 1) };
        let (tokens, sent) = (output::number(fate.tokens), output::number(fate.sent));
        [messages, words::action(fate.action).to_owned(), tokens, sent, words::reason(&fate.reason)]
    };
    let table = output::table(["messages", "action", "tokens", "sent", "why"], &[1, 4], fates.iter().map(row));
    output::text_of(&table)
}

/// What the user should know: limits that are exceeded by what is pinned, and what was repaired.
fn warnings(engine: &Engine, taken: &Taken, policy: &Policy, view: &View) -> Vec<String> {
    let entries = &taken.entries;
    let mut warnings = Vec::new();
    let mut totals = view.totals();
    totals.size.tokens = engine.tokens(view);
    let limits = policy.for_window(engine.settings().model_window).limits;
    if !limits.fits(&totals) {
        let (plan, _) = engine.explain();
        let mut sizes: Vec<(String, u64)> = Vec::new();
        for decision in &plan.decisions {
            let what = match decision.reason {
                Reason::Pinned { pin } => pin.to_string(),
                Reason::Waits => "a tool loop with signed reasoning".to_owned(),
                _ => continue,
            };
            match sizes.iter_mut().find(|(known, _)| *known == what) {
                Some((_, tokens)) => *tokens += decision.after.tokens,
                None => sizes.push((what, decision.after.tokens)),
            }
        }
        // Not all that is there is counted, nor at each call. What is planned at each read says itself what is left.
        let over = taken.decided.plan.as_ref().filter(|_| taken.decided.on_read.is_some()).unwrap_or(&plan).over.iter();
        let over = over.filter(|excess| limits.get(excess.measure) == Some(excess.limit));
        let excesses: Vec<_> = over.map(words::excess).collect();
        let size = |(what, tokens): &(String, u64)| format!("{what} ({} tokens)", output::number(*tokens));
        let pinned: Vec<_> = sizes.iter().map(size).collect();
        if !excesses.is_empty() {
            warnings.push(format!(
                "the window has {}: what is left may not be dropped: {}",
                excesses.join(", "),
                pinned.join(", ")
            ));
        }
    }
    if taken.decided.wanted.is_some() {
        warnings.push("no summary could be made that is smaller than what it is of: that is sent still".to_owned());
    }
    let mut index = 0;
    for entry in entries {
        match entry {
            Entry::Message(arrival) => {
                let told = |edit: &&Edit| {
                    // What is left out goes by no name.
                    matches!(edit.change, Change::Hide(_)) || !is_hidden(&arrival.edits, edit.part)
                };
                let repairs = arrival.edits.iter().filter(told);
                let repairs = repairs.filter_map(|edit| words::repair(&arrival.message, edit));
                warnings.extend(repairs.map(|repair| format!("messages[{index}]: {repair}")));
                index += 1;
            }
            Entry::Repair(Repair::StandIn { message, .. }) => {
                let ids: Vec<_> = message.tool_results().map(|(_, result)| result.call_id.clone()).collect();
                warnings.push(format!("call `{}` has no result: a stand-in is sent", ids.join("`, `")));
            }
            Entry::Repair(Repair::Trim { .. }) => {
                warnings.push("the last message ends in white space: it is sent without".to_owned());
            }
            Entry::Repair(Repair::Opening { .. }) => {
                warnings
                    .push("the history does not begin with a user's message: an opening is sent before it".to_owned());
            }
            Entry::Frame { .. }
            | Entry::Compaction(_)
            | Entry::Usage(_)
            | Entry::Label(_)
            | Entry::Checkpoint(_)
            | Entry::Branch { .. } => {}
        }
    }
    warnings.extend(moved(entries, view).map(|index| {
        format!("messages[{index}]: a tool result that does not stand right behind its call is sent there")
    }));
    warnings
}

/// The messages that are sent before one that came before them, by their index in the history.
fn moved<'a>(entries: &'a [Entry], view: &'a View) -> impl Iterator<Item = usize> + 'a {
    let mut positions: Vec<Position> =
        view.messages().filter(|item| !item.is_own()).map(|item| item.position()).collect();
    // From the last to the first: whatever exceeds the least of those behind it has overtaken one of them.
    let mut least = Position::MAX;
    positions.reverse();
    positions.retain(|position| {
        let overtook = *position > least;
        least = least.min(*position);
        overtook
    });
    positions.sort_unstable();
    positions.into_iter().map(|position| {
        let before = entries.iter().zip(0..position);
        before.filter(|(entry, _)| matches!(entry, Entry::Message(_))).count()
    })
}

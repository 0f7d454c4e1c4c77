//! `lookback window`: a conversation with its window in place.

use std::process::ExitCode;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback::calls::{self, Taken};
use lookback::dialect::Mend;
use lookback::explain::{Fate, fates};
use lookback::plan::{Action, Reason};
use lookback::policy::Excess;
use lookback::summarize::{Extractive, run as summary};
use lookback::tokens::{TokenCounter, Uncounted};
use lookback::{Engine, Error, Limits, Policy, Request, Settings, SummaryRequest, View};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args::WindowArgs;
use crate::changes::changes;
use crate::failure::Failure;
use crate::input::Document;
use crate::{input, output, words};

pub(crate) fn run(args: &WindowArgs) -> Result<ExitCode, Failure> {
    let policy = input::policy(&args.policy.policy, &args.policy.set)?;
    let document = Document::read(&args.file, args.dialect.name.0, args.transcript.as_deref())?;
    let request = &document.request;
    let model = args.model.name.as_deref().or(request.model());
    let mut run = decide(args, request, &policy, model)?;
    if let Some(refusal) = run.taken.outcome.exceeded.take() {
        return Err(Error::HardLimitExceeded(refusal).into());
    }
    let view = run.view();
    let messages = view.encode(request.dialect()).map_err(Error::from)?;
    let window = document.with_messages(&messages);
    let over = over(&run.engine, &run.taken, &policy, view);
    let warnings = warnings(&run.taken, over.as_ref(), view, request);
    for warning in &warnings {
        output::warning(warning);
    }
    let written = if args.explain {
        let fates = fates(&run.taken.entries, view, request.dialect(), &run.engine.explain());
        if args.json {
            let plan = fates.iter().map(Line::of).collect();
            let window = serde_json::from_str(&window).unwrap_or_default();
            let tokens = run.engine.tokens(view);
            let answer = Answer { window, plan, tokens, over: over.map(|over| over.excesses).unwrap_or_default() };
            output::result(&serde_json::to_string(&answer).unwrap_or_default())
        } else {
            output::tell(&explain(&fates));
            if let Some(over) = over {
                output::tell(&over.sentence);
            }
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
        self.taken.outcome.on_read.as_deref().unwrap_or(self.engine.view())
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
        if fits && run.taken.outcome.exceeded.is_none() && policy.limits.fits(&run.view().totals()) {
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
    let settings = Settings {
        dialect: request.dialect(),
        policy,
        counter: counter.clone(),
        model,
        model_window,
        max_output: None,
    };
    let mut engine = Engine::new(settings);
    let mut largest = 0;
    let mut on_call = |engine: &Engine| largest = largest.max(most_tokens(engine.view()));
    let summarizer = Extractive::new(counter.clone());
    let mut summarize = |wanted: &SummaryRequest| {
        let summary = block_on(summary(&summarizer, calls::task(wanted), &*counter));
        summary.ok().map(|summary| summary.text)
    };
    let take_in = if args.once { calls::take_in_once } else { calls::take_in };
    let taken = take_in(&mut engine, request, &mut summarize, &mut on_call).map_err(Error::from)?;
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
    /// The limits that the window exceeds.
    over: Vec<Excess>,
}

#[derive(Serialize)]
struct Line {
    span: (usize, usize),
    action: &'static str,
    reason: Reason,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mends: Vec<Mend>,
    tokens: u64,
    sent: u64,
}

impl Line {
    fn of(fate: &Fate) -> Line {
        Line {
            span: fate.span,
            action: action(fate),
            reason: fate.reason,
            mends: fate.mends.clone(),
            tokens: fate.tokens,
            sent: fate.sent,
        }
    }
}

/// What became of messages, in a word: of what stays, what is done to it as it is sent.
fn action(fate: &Fate) -> &'static str {
    match (fate.action, fate.mends.first()) {
        (Action::Keep, Some(mend)) => words::mended(*mend),
        (action, _) => words::action(action),
    }
}

fn why(fate: &Fate) -> String {
    let is_said = fate.action != Action::Keep || fate.mends.is_empty();
    let reason = is_said.then(|| words::reason(&fate.reason));
    reason.into_iter().chain(fate.mends.iter().map(|mend| words::mend(*mend))).collect::<Vec<_>>().join("; ")
}

fn explain(fates: &[Fate]) -> String {
    let row = |fate: &Fate| {
        let (first, end) = fate.span;
        let messages = if end - first == 1 { format!("{first}") } else { format!("{first}-{}", end - 1) };
        let (tokens, sent) = (output::number(fate.tokens), output::number(fate.sent));
        [messages, action(fate).to_owned(), tokens, sent, why(fate)]
    };
    let table = output::table(["messages", "action", "tokens", "sent", "why"], &[1, 4], fates.iter().map(row));
    output::text_of(&table)
}

/// Limits that a window exceeds, since what is left of it is pinned.
struct Over {
    excesses: Vec<Excess>,
    sentence: String,
}

fn over(engine: &Engine, taken: &Taken, policy: &Policy, view: &View) -> Option<Over> {
    let mut totals = view.totals();
    totals.size.tokens = engine.tokens(view);
    let limits = policy.for_window(engine.settings().model_window, 0).limits;
    if limits.fits(&totals) {
        return None;
    }
    let plan = engine.explain().plan;
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
    let over = taken.outcome.plan.as_ref().filter(|_| taken.outcome.on_read.is_some()).unwrap_or(&plan).over.iter();
    let excesses: Vec<Excess> =
        over.filter(|excess| limits.get(excess.measure) == Some(excess.limit)).copied().collect();
    if excesses.is_empty() {
        return None;
    }
    let size = |(what, tokens): &(String, u64)| format!("{what} ({} tokens)", output::number(*tokens));
    let pinned: Vec<_> = sizes.iter().map(size).collect();
    let told: Vec<_> = excesses.iter().map(words::excess).collect();
    let sentence =
        format!("the window has {}: what is left may not be dropped: {}", told.join(", "), pinned.join(", "));
    Some(Over { excesses, sentence })
}

/// What the user should know: limits that are exceeded by what is pinned, and what was done to messages so that they can be sent.
fn warnings(taken: &Taken, over: Option<&Over>, view: &View, request: &Request) -> Vec<String> {
    let mut warnings: Vec<String> = over.map(|over| over.sentence.clone()).into_iter().collect();
    if taken.outcome.summary_request.is_some() {
        warnings.push("no summary could be made that is smaller than what it is of: that is sent still".to_owned());
    }
    warnings.extend(changes(&taken.entries, view, request.dialect()).iter().map(ToString::to_string));
    warnings
}

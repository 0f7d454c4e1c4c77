//! `lookback window`: writes a conversation with its window instead of its messages.

use crate::exit::ExitCode;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_engine::Explanation;
use lookback_engine::plan::{Action, Reason};
use lookback_engine::totals::Excess;
use lookback_engine::{
    Engine, Settings, SummaryRequest,
    policy::{Limits, Policy},
    view::View,
};
use lookback_replay::explain::{MessageOutcome, outcomes};
use lookback_session::Error;
use lookback_summarize::calls::{self, RequestRun};
use lookback_summarize::{Extractive, run as summary};
use lookback_tokens::Uncounted;
use lookback_wire::dialect::Request;
use lookback_wire::dialect::{Finding, Mend, Severity, Target};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args::WindowArgs;
use crate::changes::changes;
use crate::failure::Failure;
use crate::findings;
use crate::input::Document;
use crate::{input, output};

pub(crate) fn run(args: &WindowArgs) -> Result<ExitCode, Failure> {
    let policy = input::policy(&args.policy.policy, &args.policy.set)?;
    let document = Document::read(&args.file, args.dialect.name.0, args.transcript.as_deref())?;
    let document = document.bound_for(&args.target, args.model.name.as_deref());
    let request = &document.request;
    let model = args.model.name.as_deref().or(request.model());
    let mut run = decide(args, request, &policy, model)?;
    if let Some(exceeded) = run.result.outcome.exceeded.take() {
        return Err(Error::HardLimitExceeded(exceeded).into());
    }
    let view = run.view();
    let messages = view.encode(run.engine.target().clone()).map_err(Error::from)?;
    let window = document.with_messages(&messages);
    let over = over(&run.engine, &run.result, &policy, view);
    // Some broken rules have no repair that keeps the meaning of the conversation.
    let broken = request.dialect().check(&document.sent(&messages, run.engine.target())?);
    let warnings = warnings(&run.result, over.as_ref(), view, run.engine.target(), &broken);
    for warning in &warnings {
        output::warning(warning);
    }
    let written = if args.explain {
        let outcomes = outcomes(&run.result.entries, view, run.engine.target().clone(), &run.engine.explain());
        if args.json {
            write_explained(&window, &outcomes, run.engine.tokens(view), over, &broken)
        } else {
            output::message(&explain(&outcomes));
            if let Some(over) = over {
                output::message(&over.sentence);
            }
            output::result(&window).map_err(Failure::from)
        }
    } else {
        output::result(&window).map_err(Failure::from)
    };
    Failure::code_after(written, u8::from(args.strict && !warnings.is_empty()))
}

/// Writes the window and the reasons for it as one JSON object.
fn write_explained(
    window: &str,
    outcomes: &[MessageOutcome],
    tokens: u64,
    over: Option<Over>,
    broken: &[Finding],
) -> Result<(), Failure> {
    let window = serde_json::from_str(window).map_err(Failure::Json)?;
    let plan = outcomes.iter().map(Line::from_outcome).collect();
    let over = over.map(|over| over.excesses).unwrap_or_default();
    let findings = broken.iter().map(findings::Line::from_finding).collect();
    Ok(output::result(&output::json(&Answer { window, plan, tokens, over, findings })?)?)
}

struct Run {
    engine: Engine,
    result: RequestRun,
    /// An upper bound of the tokens of the largest window, computed from its bytes.
    most_tokens: u64,
}

impl Run {
    /// Returns the view that is sent.
    fn view(&self) -> &View {
        self.result.outcome.on_read.as_deref().unwrap_or(self.engine.view())
    }
}

/// Decides the window. Counts tokens only if something depends on their number.
///
/// Nothing does if the policy does not limit tokens and the window has at most as many bytes as its model accepts
/// tokens, because no token is shorter than a byte. Pictures and files are the exception, because the provider sets
/// their cost. Warnings and refusals contain sizes, so they depend on the tokens too.
fn decide(args: &WindowArgs, request: &Request, policy: &Policy, model: Option<&str>) -> Result<Run, Failure> {
    let dialect = request.dialect();
    if !policy.counts_tokens() && !args.explain {
        let room = model.and_then(input::known_room);
        let unbounded = Policy { hard: policy.hard.or(Some(Limits::default())), ..policy.clone() };
        let counter = Arc::new(Uncounted);
        let settings = Settings::default().dialect(dialect).policy(unbounded).counter(counter);
        let run = feed(args, request, settings)?;
        let fits = policy.hard.is_some() || room.is_none_or(|room| run.most_tokens <= room);
        if fits && run.result.outcome.exceeded.is_none() && policy.limits.fits(&run.view().totals()) {
            return Ok(run);
        }
    }
    let target = model.into_iter().fold(request.target().clone(), Target::with_model);
    feed(args, request, input::settings_at(&target).dialect(dialect).policy(policy.clone()))
}

/// Feeds the request to an engine, either as one model call before each assistant message or, with --once, as one call.
fn feed(args: &WindowArgs, request: &Request, settings: Settings) -> Result<Run, Failure> {
    let counter = settings.counter.clone();
    let mut engine = Engine::new(settings);
    let mut largest = 0;
    let mut on_call = |engine: &Engine| largest = largest.max(most_tokens(engine.view()));
    let summarizer = Extractive::new(counter.clone());
    let mut summarize = |request: &SummaryRequest| {
        let summary = block_on(summary(&summarizer, calls::task(request), &*counter));
        summary.ok().map(|summary| summary.text)
    };
    let run_request = if args.once { calls::run_request_once } else { calls::run_request };
    let result = run_request(&mut engine, request, &mut summarize, &mut on_call).map_err(Error::from)?;
    Ok(Run { engine, result, most_tokens: largest })
}

/// Returns an upper bound of the tokens of a view, computed from its bytes.
fn most_tokens(view: &View) -> u64 {
    let size = view.totals().size;
    if size.media == 0 { size.bytes } else { u64::MAX }
}

#[derive(Serialize)]
struct Answer<'a> {
    /// The window in the form of the input, byte for byte.
    window: Box<RawValue>,
    plan: Vec<Line>,
    tokens: u64,
    /// The limits that the window exceeds.
    over: Vec<Excess>,
    /// The rules that the window still breaks, because no repair would keep its meaning.
    findings: Vec<findings::Line<'a>>,
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
    fn from_outcome(outcome: &MessageOutcome) -> Line {
        Line {
            span: (outcome.span.start, outcome.span.end),
            action: action(outcome),
            reason: outcome.reason,
            mends: outcome.mends.clone(),
            tokens: outcome.tokens,
            sent: outcome.sent,
        }
    }
}

/// Returns the treatment of messages in one word. For kept messages, this is the change that encoding makes.
fn action(outcome: &MessageOutcome) -> &'static str {
    match (outcome.action, outcome.mends.first()) {
        (Action::Keep, Some(mend)) => mend.verb(),
        (action, _) => action.as_str(),
    }
}

fn why(outcome: &MessageOutcome) -> String {
    let is_said = outcome.action != Action::Keep || outcome.mends.is_empty();
    let reason = is_said.then(|| outcome.reason.to_string());
    reason.into_iter().chain(outcome.mends.iter().map(|mend| mend.to_string())).collect::<Vec<_>>().join("; ")
}

fn explain(outcomes: &[MessageOutcome]) -> String {
    let row = |outcome: &MessageOutcome| {
        let (first, end) = (outcome.span.start, outcome.span.end);
        let messages = if end - first == 1 { format!("{first}") } else { format!("{first}-{}", end - 1) };
        let (tokens, sent) = (output::number(outcome.tokens), output::number(outcome.sent));
        [messages, action(outcome).to_owned(), tokens, sent, why(outcome)]
    };
    let table = output::table(["messages", "action", "tokens", "sent", "why"], &[1, 4], outcomes.iter().map(row));
    output::text_of(&table)
}

/// The limits that a window exceeds because its messages may not be dropped.
struct Over {
    excesses: Vec<Excess>,
    sentence: String,
}

fn over(engine: &Engine, result: &RequestRun, policy: &Policy, view: &View) -> Option<Over> {
    let mut totals = view.totals();
    totals.size.tokens = engine.tokens(view);
    let limits = policy.for_window(engine.settings().model_window, engine.settings().max_output.unwrap_or(0)).limits;
    if limits.fits(&totals) {
        return None;
    }
    let explanation = engine.explain();
    // The policy may not limit every measure, or not at every call, so only the excesses of a plan are reported. A
    // window that is computed on read has a plan of its own.
    let own_plan = if result.outcome.on_read.is_some() { result.outcome.plan.as_ref() } else { None };
    let excesses = own_plan.map_or(&explanation.over, |plan| &plan.over).iter();
    let excesses: Vec<Excess> =
        excesses.filter(|excess| limits.get(excess.measure) == Some(excess.limit)).copied().collect();
    if excesses.is_empty() {
        return None;
    }
    let exceeded: Vec<_> = excesses.iter().map(ToString::to_string).collect();
    let size = |(what, tokens): &(String, u64)| format!("{what} ({} tokens)", output::number(*tokens));
    let undroppable: Vec<_> = undroppable(&explanation).iter().map(size).collect();
    let sentence =
        format!("the window has {}; these may not be dropped: {}", exceeded.join(" and "), undroppable.join(", "));
    Some(Over { excesses, sentence })
}

/// Returns the messages that may not be dropped, with their tokens.
fn undroppable(explanation: &Explanation) -> Vec<(String, u64)> {
    let mut sizes: Vec<(String, u64)> = Vec::new();
    for decision in explanation.groups.iter().map(|group| &group.decision) {
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
    sizes
}

/// Returns warnings for the user: exceeded limits, repairs, and rules that are still broken.
fn warnings(result: &RequestRun, over: Option<&Over>, view: &View, target: &Target, broken: &[Finding]) -> Vec<String> {
    let mut warnings: Vec<String> = over.map(|over| over.sentence.clone()).into_iter().collect();
    if result.outcome.summary_request.is_some() {
        let warning =
            "no summary could be made that is smaller than the messages it covers, so these messages are sent";
        warnings.push(warning.to_owned());
    }
    warnings.extend(changes(&result.entries, view, target).iter().map(ToString::to_string));
    let refused = broken.iter().filter(|finding| finding.severity == Severity::Refused);
    warnings.extend(
        refused.map(|finding| format!("the window breaks a rule: {}", findings::Line::from_finding(finding).text())),
    );
    warnings
}

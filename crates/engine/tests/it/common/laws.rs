//! The laws, each as a function that returns the first violation in the outcome of a case.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lookback_content::numbered::unnumbered;
use lookback_engine::LogState;
use lookback_engine::plan::{Action, Decision, Occasion, Reason, Verdict};
use lookback_engine::transcript::{Entry, Position, Repair};
use lookback_engine::view::Item;
use lookback_engine::{
    Engine,
    policy::{Limits, Mode, Pace, Policy, Stage},
    view::View,
};
use lookback_wire::dialect::{Finding, Severity};
use lookback_wire::dialect::{Mend, Shown};
use lookback_wire::edit::{self, Change};
use lookback_wire::message::PartRef;
use lookback_wire::size::Measure;
use lookback_wire::{
    dialect::{Dialect, Request},
    message::{Message, Role},
};
use serde_json::value::RawValue;

use super::{
    Part, Run, Step, encode, encode_items, parts, person, pieces, preamble, request, role, signatures, snapshot,
    visible,
};

/// The verdict of a law on a case: nothing, or how the case broke it.
pub type Found = Result<(), String>;

macro_rules! demand {
    ($holds:expr, $($why:tt)*) => {
        if !$holds {
            return Err(format!($($why)*));
        }
    };
}

/// Law 1: the log keeps every message unchanged and in order, and compactions name all entries that leave a window.
pub fn nothing_is_lost(run: &Run) -> Found {
    let came: Vec<&str> = messages(run).map(|(_, json)| json).collect();
    demand!(came == run.pushed, "the log has other messages than were pushed");
    let mut shown: BTreeSet<Position> = BTreeSet::new();
    let mut from = 0;
    for step in run.steps.iter().filter(|step| step.outcome.on_read.is_none()) {
        let now: BTreeSet<_> = step.view.messages().map(|item| item.position()).collect();
        let log = run.log.entries().get(from..step.end as usize).unwrap();
        let mut named = BTreeSet::new();
        for entry in log {
            if let Entry::Compaction(compaction) = entry {
                named.extend(compaction.groups.iter().flat_map(|group| group.spans.iter().cloned().flatten()));
            }
            if let Entry::Message(arrival) = entry {
                named.extend(&arrival.replaces);
            }
        }
        for gone in shown.difference(&now) {
            demand!(named.contains(gone), "{gone} left the window, and no compaction names it");
        }
        (shown, from) = (now, step.end as usize);
    }
    for item in run.engine.view().messages() {
        let json = item.message().wire().unwrap().raw.get();
        let entry = &run.log.entries()[item.position() as usize];
        let logged = match entry {
            Entry::Message(arrival) => arrival.message.wire().unwrap().raw.get(),
            Entry::Repair(Repair::StandIn { message, .. }) => message.wire().unwrap().raw.get(),
            Entry::Repair(Repair::Opening { message, .. }) => message.wire().unwrap().raw.get(),
            Entry::Compaction(compaction) => {
                // A compaction may add both a summary and an index.
                let summary = compaction.summary.iter().map(|summary| &summary.message);
                let own = summary.chain(compaction.index.iter().map(|index| &index.message));
                let mut own = own.map(|message| message.wire().unwrap().raw.get());
                own.find(|own| *own == json).unwrap_or_default()
            }
            _ => return Err(format!("{} is shown and is no message", item.position())),
        };
        demand!(json == logged, "{} is shown as another than it is", item.position());
    }
    Ok(())
}

fn messages(run: &Run) -> impl Iterator<Item = (usize, &str)> {
    run.log.entries().iter().enumerate().filter_map(|(position, entry)| match entry {
        Entry::Message(arrival) => Some((position, arrival.message.wire().unwrap().raw.get())),
        _ => None,
    })
}

/// Law 2: no request breaks a rule, according to the library and to a separate check of the pairing of calls and
/// results.
pub fn never_invalid(run: &Run) -> Found {
    let dialect = run.settings.dialect;
    for (index, step) in run.sent().enumerate() {
        let request = request(dialect, &step.request);
        let found = refused(run, &request);
        demand!(found.is_empty(), "window {index}: {found:?}\n{}", step.request.join("\n"));
        paired(dialect, &step.request).map_err(|why| format!("window {index}: {why}\n{}", step.request.join("\n")))?;
    }
    Ok(())
}

/// Returns the rules that a request breaks, without warnings, because it is unknown whether the rules of one provider
/// apply here.
fn refused(run: &Run, request: &Request) -> Vec<Finding> {
    let model = run.settings.model.clone();
    let request = model.into_iter().fold(request.clone(), Request::with_model);
    let found = request.dialect().check(&request).into_iter();
    found.filter(|finding| finding.severity == Severity::Refused).collect()
}

/// Checks the pairing of calls and results in the JSON, without the library's code.
fn paired(dialect: Dialect, request: &[String]) -> Found {
    let parsed: Vec<serde_json::Value> = request.iter().map(|json| serde_json::from_str(json).unwrap()).collect();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    // A call or response without an identifier is identified by its name.
    let named = |call: &serde_json::Value| text(call.get("id").unwrap_or(&call["name"]));
    if dialect == Dialect::OpenAiResponses {
        return paired_items(&parsed);
    }
    let member = if dialect == Dialect::Gemini { "parts" } else { "content" };
    let blocks = |message: &serde_json::Value| message[member].as_array().cloned().unwrap_or_default();
    let calls = |message: &serde_json::Value| -> Vec<String> {
        match dialect {
            Dialect::OpenAiChat => {
                message["tool_calls"].as_array().into_iter().flatten().map(|call| text(&call["id"])).collect()
            }
            Dialect::Anthropic => {
                blocks(message).iter().filter(|b| b["type"] == "tool_use").map(|b| text(&b["id"])).collect()
            }
            Dialect::Bedrock => {
                blocks(message).iter().filter_map(|b| b.get("toolUse")).map(|call| text(&call["toolUseId"])).collect()
            }
            Dialect::Gemini => blocks(message).iter().filter_map(|b| b.get("functionCall")).map(named).collect(),
            other => unreachable!("{other}"),
        }
    };
    let result = |block: &serde_json::Value| match dialect {
        Dialect::OpenAiChat => None,
        Dialect::Anthropic => (block["type"] == "tool_result").then(|| text(&block["tool_use_id"])),
        Dialect::Bedrock => block.get("toolResult").map(|result| text(&result["toolUseId"])),
        Dialect::Gemini => block.get("functionResponse").map(named),
        other => unreachable!("{other}"),
    };
    let mut at = 0;
    while let Some(message) = parsed.get(at) {
        let mut wanted = calls(message);
        at += 1;
        let mut given = Vec::new();
        if dialect == Dialect::OpenAiChat {
            demand!(message["role"] != "tool", "a stray tool message");
            while let Some(next) = parsed.get(at).filter(|next| next["role"] == "tool") {
                given.push(text(&next["tool_call_id"]));
                at += 1;
            }
        } else {
            let is_models = message["role"] == "assistant" || message["role"] == "model";
            // Neighbors of one role are one message, or refused.
            let mut run = |role: &serde_json::Value| {
                let run: Vec<_> = parsed[at..].iter().take_while(|next| next["role"] == *role).collect();
                at += run.len();
                run
            };
            let others = run(&message["role"]);
            wanted.extend(others.iter().flat_map(|other| calls(other)));
            demand!(dialect != Dialect::Bedrock || others.is_empty(), "roles do not alternate");
            let mut answers: Vec<&serde_json::Value> = others;
            if is_models {
                let user = serde_json::Value::from("user");
                answers = run(&user);
                if dialect == Dialect::Gemini {
                    let stray =
                        answers.iter().skip(1).any(|next| blocks(next).iter().any(|block| result(block).is_some()));
                    demand!(!stray, "results in several contents");
                }
            } else {
                answers.insert(0, message);
            }
            demand!(dialect != Dialect::Bedrock || answers.len() <= 1, "roles do not alternate");
            let results: Vec<_> = answers.iter().flat_map(|next| blocks(next)).map(|block| result(&block)).collect();
            if is_models {
                given = results.iter().map_while(Clone::clone).collect();
                if dialect == Dialect::Gemini {
                    given = results.iter().flatten().cloned().collect();
                }
            }
            demand!(results.iter().flatten().count() == given.len(), "stray results, or not at the beginning");
        }
        wanted.sort();
        given.sort();
        if dialect == Dialect::Gemini {
            // A response may name only the tool, and all calls have the same tool.
            demand!(wanted.len() == given.len(), "calls {wanted:?}, results {given:?}");
            continue;
        }
        demand!(wanted == given, "calls {wanted:?}, results {given:?}");
    }
    Ok(())
}

/// The same for items: each call has one output after it, and an item of the model follows reasoning.
fn paired_items(items: &[serde_json::Value]) -> Found {
    let mut open: Vec<&str> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let id = item["call_id"].as_str();
        match item["type"].as_str() {
            Some("function_call") => open.extend(id),
            Some("function_call_output") => {
                let at = open.iter().position(|open| Some(*open) == id);
                demand!(at.is_some(), "a stray output of {id:?}");
                open.remove(at.unwrap());
            }
            Some("reasoning") => {
                let next = items.get(index + 1);
                let is_input = |next: &serde_json::Value| {
                    next["type"] == "function_call_output" || next["role"].as_str().is_some_and(|r| r != "assistant")
                };
                demand!(!next.is_some_and(is_input), "reasoning alone, before {next:?}");
            }
            _ => {}
        }
    }
    demand!(open.is_empty(), "calls without an output: {open:?}");
    Ok(())
}

/// Law 2: repaired messages need no more repairs.
pub fn repair_is_idempotent(run: &Run) -> Found {
    let dialect = run.settings.dialect;
    for step in run.sent() {
        let mut settings = run.settings.clone();
        settings.policy = lookback_engine::policy::Policy::unlimited();
        settings.model_window = None;
        let mut engine = Engine::new(settings);
        for message in request(dialect, &step.request).into_messages() {
            for entry in engine.push(message).unwrap() {
                if let Entry::Message(arrival) = entry {
                    // In Gemini's format, a result that names only its tool is matched to its call.
                    let ties =
                        |edit: &edit::Edit| dialect == Dialect::Gemini && matches!(edit.change, Change::Rename(_));
                    demand!(arrival.edits.iter().all(ties), "mended again: {:?} in {:?}", arrival.edits, step.request);
                }
            }
        }
        let again = engine.window();
        demand!(again.entries.is_empty(), "mended again: {:?}", again.entries);
        demand!(encode(dialect, engine.view()) == step.request, "encoded again, it is another");
    }
    Ok(())
}

/// Returns the number of messages of a view that a policy does not count.
fn uncounted(policy: &Policy, view: &View) -> u64 {
    let system = |item: &&Item| {
        let dialect = item.message().wire().unwrap().dialect;
        let alone = matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses);
        alone && item.message().role() == Role::System && !item.is_own()
    };
    let own = u64::from(view.summary().is_some()) + u64::from(view.index().is_some());
    if policy.system.counted { 0 } else { view.messages().filter(system).count() as u64 + own }
}

/// Law 3: a window fits, or the rest of it is pinned, and the plan reports by how much it exceeds the limits.
pub fn a_window_fits_or_says_what_is_pinned(run: &Run) -> Found {
    let policy = run.settings.policy.for_window(run.settings.model_window, run.settings.max_output.unwrap_or(0));
    if policy.mode != Mode::Recorded {
        return Ok(());
    }
    let hard = policy.hard.unwrap_or_default();
    for (index, step) in run.steps.iter().enumerate() {
        let mut totals = step.view.totals();
        totals.size.tokens = step.engine.tokens(&step.view);
        totals.size.messages -= uncounted(&policy, &step.view);
        // Only the engine knows the head of a window.
        let body = step.engine.over(&step.view).into_iter().find(|excess| excess.measure == Measure::Body);
        totals.body = body.map_or(0, |excess| excess.actual);
        let over: Vec<_> = policy.limits.exceeded_by(&totals).collect();
        let hard: Vec<_> = hard.exceeded_by(&totals).collect();
        if step.outcome.exceeded.is_some() {
            continue;
        }
        demand!(hard.is_empty(), "window {index} is over a hard limit: {hard:?}");
        // Limits wait for the end of a signed loop, for a summary, and for the pace of the policy.
        let waits = (!policy.drop_block && is_bound(run, step)) || step.pending || policy.pace != Pace::Call;
        if over.is_empty() || waits {
            continue;
        }
        let Some(plan) = &step.outcome.plan else {
            return Err(format!("window {index} is over without a plan: {over:?}"));
        };
        for excess in &over {
            let said = plan.over.iter().any(|said| said.measure == excess.measure);
            demand!(said, "window {index}: {excess:?} is not said: {:?}", plan.over);
        }
        if policy.stages.contains(&Stage::Drop) {
            for decision in &plan.decisions {
                let pinned = matches!(decision.reason, Reason::Pinned { .. } | Reason::Start { .. });
                let leaves = decision.action == Action::Drop;
                // If a plan changed nothing, dropping the kept groups would not have helped. (Turns and rounds are not
                // measures of a single group.)
                let helps = over.iter().any(|excess| match excess.measure {
                    Measure::Tokens | Measure::Body => decision.after.tokens > 0,
                    Measure::Messages => decision.after.messages > 0,
                    Measure::Bytes => decision.after.bytes > 0,
                    Measure::Media => decision.after.media > 0,
                    _ => false,
                });
                // A late result that is larger than its stand-in may use up everything that dropping frees.
                let late = !step.view.checkpoint().late.is_empty();
                let helps = (helps && !late) || plan.verdict != Verdict::Keep;
                demand!(pinned || leaves || !helps, "window {index}: over ({over:?}), and kept: {plan:#?}");
            }
        }
    }
    Ok(())
}

/// Law 4: between two compactions, each request extends the previous one.
pub fn requests_extend_each_other(run: &Run) -> Found {
    let dialect = run.settings.dialect;
    if run.settings.policy.mode == Mode::OnRead {
        return Ok(());
    }
    let mut last: Option<(&Step, Vec<Part>)> = None;
    for step in run.sent() {
        let now = parts(dialect, &step.request);
        if let Some((before, parts)) = last {
            let between = &run.log.entries()[before.end as usize..step.end as usize];
            let changes = |entry: &Entry| match entry {
                Entry::Compaction(_) => true,
                Entry::Message(arrival) => arrival.first || !arrival.replaces.is_empty(),
                _ => false,
            };
            // In Anthropic's format, a system message at the end moves after a user message that arrives before the
            // model answers.
            let mut parts = parts;
            while dialect == Dialect::Anthropic
                && parts.last().is_some_and(|part: &Part| part.0 == Role::System)
                && now.get(parts.len() - 1).is_some_and(|part| part.0 == Role::User)
            {
                parts.pop();
            }
            // Reasoning at the end is left out once a user's message follows it.
            while dialect == Dialect::OpenAiResponses
                && parts.last().is_some_and(|part| part.1.contains("\"type\":\"reasoning\""))
            {
                parts.pop();
            }
            if !between.iter().any(changes) {
                demand!(now.starts_with(&parts), "not an extension:\n{parts:#?}\n{now:#?}");
            }
        }
        last = Some((step, now));
    }
    Ok(())
}

/// Encoding reports its changes to messages. Without a report, messages without edits are sent unchanged.
pub fn what_encoding_does_is_told(run: &Run) -> Found {
    let dialect = run.settings.dialect;
    for step in run.sent() {
        let mends = dialect.mends(step.view.shown());
        let shown = step.view.messages().filter(|item| !edit::hides_all(item.message(), item.edits()));
        let shown: Vec<&Item> = shown.collect();
        let removed = mends.iter().map(|mended| match mended.mend {
            Mend::MergedWithPrevious => 1,
            Mend::Removed { elements } => elements,
            _ => 0,
        });
        // An assistant message may be several elements.
        let alone = |item: &&Item| match dialect {
            Dialect::OpenAiResponses => {
                encode_items(dialect, [Shown { message: item.message(), edits: item.edits() }].into_iter())
            }
            _ => vec![item.message().wire().unwrap().raw.get().to_owned()],
        };
        let elements: Vec<(bool, String)> =
            shown.iter().flat_map(|item| alone(item).into_iter().map(|json| (item.edits().is_empty(), json))).collect();
        demand!(step.request.len() + removed.sum::<usize>() == elements.len(), "{mends:?} of {:?}", step.request);
        let is_same = |((whole, json), sent): (&(bool, String), &String)| !whole || json == sent;
        let same = elements.iter().zip(&step.request).all(is_same);
        demand!(same || !mends.is_empty(), "nothing is told of {:?}", step.request);
    }
    Ok(())
}

/// Law 5: each part that is shown in full keeps its bytes, and so do unknown members.
pub fn a_kept_part_is_byte_identical(run: &Run) -> Found {
    let dialect = run.settings.dialect;
    for step in run.sent() {
        let mut expected: Vec<(Role, Option<String>, bool)> = Vec::new();
        for item in step.view.messages() {
            let json = item.message().wire().unwrap().raw.get();
            // In one dialect, cache markers are separate parts, which are left out of the comparison.
            let marker = |part: &PartRef<'_>| matches!(part, PartRef::Opaque(opaque) if opaque.is_cache_marker());
            let known = item.message().parts().enumerate().filter(|(_, part)| !marker(part));
            let (came, members) = pieces(dialect, json);
            let known: Vec<_> = known.collect();
            demand!(known.len() == came.len(), "parts of {json}");
            if known.is_empty() {
                // A message without content may follow reasoning like any other.
                expected.push((item.message().role(), Some(String::new()), false));
            }
            for ((index, part), bytes) in known.into_iter().zip(came) {
                if visible(item, index) {
                    let edited = item.edits().iter().any(|edit| edit.part == index);
                    let result = matches!(part, PartRef::ToolResult(_));
                    expected.push((item.message().role(), Some(bytes).filter(|_| !edited), result));
                }
            }
            for member in members {
                // If two messages are merged, the first one's value of a common member is kept.
                let same = |other: &(String, String)| {
                    *other == member || (dialect != Dialect::OpenAiChat && other.0 == member.0)
                };
                let sent = step.request.iter().any(|json| pieces(dialect, json).1.iter().any(same));
                demand!(sent, "the member {member:?} is gone from {:?}", step.request);
            }
        }
        if dialect == Dialect::Anthropic {
            // A system message moves after the user messages that follow it, and is sent as a user message where no
            // system message is allowed.
            let speaker = |part: &(Role, Option<String>, bool)| part.0 == Role::Assistant;
            for run in expected.chunk_by_mut(|a, b| speaker(a) == speaker(b)).filter(|run| !speaker(&run[0])) {
                run.sort_by_key(|part| part.0 == Role::System);
                if run[0].0 == Role::System {
                    let theirs = run.iter().take_while(|part| part.1 == run[0].1).count().max(1);
                    run[..theirs].iter_mut().for_each(|part| part.0 = Role::User);
                }
            }
        }
        if dialect == Dialect::OpenAiResponses {
            // Reasoning without a following item of the model is left out.
            let is_reasoning = |part: &(Role, Option<String>, bool)| {
                part.1.as_ref().is_some_and(|bytes| bytes.contains("\"\\\"reasoning\\\"\""))
            };
            let mut kept: Vec<(Role, Option<String>, bool)> = Vec::new();
            for part in expected.into_iter().rev() {
                let alone = kept.last().is_some_and(|next| next.0 != Role::Assistant);
                if !(is_reasoning(&part) && alone) {
                    kept.push(part);
                }
            }
            kept.reverse();
            expected = kept;
        }
        expected.retain(|part| part.1.as_deref() != Some(""));
        if matches!(dialect, Dialect::Anthropic | Dialect::Bedrock) {
            // Results come first in user messages.
            for run in expected.chunk_by_mut(|a, b| a.0 == b.0).filter(|run| run[0].0 == Role::User) {
                run.sort_by_key(|part| !part.2);
            }
        }
        let sent: Vec<Part> = step
            .request
            .iter()
            .flat_map(|json| pieces(dialect, json).0.into_iter().map(|part| (role(json), part)))
            .collect();
        demand!(sent.len() == expected.len(), "{} parts of {}: {:#?}", sent.len(), expected.len(), step.request);
        for ((role, bytes, _), sent) in expected.iter().zip(&sent) {
            let same = *role == sent.0 && bytes.as_ref().is_none_or(|bytes| *bytes == sent.1);
            demand!(same, "kept {bytes:?}, sent {sent:?}");
        }
    }
    Ok(())
}

/// Law 6: the system prompt, newest message, open round and current task stay.
pub fn what_is_pinned_is_never_dropped(run: &Run) -> Found {
    for (index, step) in run.steps.iter().enumerate() {
        let before: Vec<_> = step.before.messages().collect();
        let after: HashSet<_> = step.view.messages().map(|item| item.position()).collect();
        // A message of only reasoning disappears when it gets stale, and sending stale reasoning would break an earlier
        // law.
        let lasts = |item: &Item| {
            let parts = item.message().parts().enumerate().filter(|(part, _)| visible(item, *part));
            let mut parts = parts.map(|(_, part)| part);
            parts.any(|part| match part {
                PartRef::Reasoning(_) => false,
                PartRef::Opaque(opaque) => !opaque.is_cache_marker(),
                _ => true,
            })
        };
        let theirs = || before.iter().filter(|item| !item.is_own() && lasts(item));
        let mut pinned: BTreeMap<Position, &str> = BTreeMap::new();
        pinned.extend(
            before
                .iter()
                // A running summary may be a system message, too.
                .take_while(|i| i.message().role() == Role::System && !i.is_own())
                .map(|i| (i.position(), "system")),
        );
        let newest = before.iter().filter(|item| !item.is_own()).max_by_key(|item| item.position());
        // A late result may be the newest message, although it is not shown yet. A compaction puts it into its place.
        let late = step.before.checkpoint().late.iter().map(|item| item.position).max();
        let newest = newest.filter(|item| late.is_none_or(|late| late < item.position()));
        pinned.extend(newest.filter(|item| lasts(item)).map(|item| (item.position(), "newest")));
        if let Some(late) = late.filter(|_| newest.is_none()) {
            let waits = step.view.checkpoint().late.iter().any(|item| item.position == late);
            demand!(
                waits || after.contains(&late),
                "window {index}: the late result {late} was dropped, and is the newest"
            );
        }
        if run.settings.policy.keep.task {
            pinned.extend(theirs().filter(|item| person(item)).map(|i| i.position()).max().map(|p| (p, "task")));
        }
        let spoke =
            before.iter().filter(|item| item.message().role() == Role::Assistant).max_by_key(|item| item.position());
        if let Some(call) = spoke.filter(|item| item.message().tool_calls().next().is_some()) {
            pinned.insert(call.position(), "open round");
            let at = before.iter().position(|item| item.position() == call.position()).unwrap();
            let results = before[at + 1..].iter().take_while(|item| {
                let visible = item.message().tool_results().filter(|(part, _)| visible(item, *part));
                visible.count() > 0
            });
            // Where results may come after later messages, results of an earlier call may follow this call.
            let asked: HashSet<&str> = call.message().tool_calls().map(|(_, call)| &*call.id).collect();
            let answers = |item: &&&Item| {
                run.settings.dialect != Dialect::OpenAiResponses
                    || item.message().tool_results().any(|(_, result)| asked.contains(&*result.call_id))
            };
            let results = results.filter(answers);
            pinned.extend(results.filter(|item| !item.is_own()).map(|item| (item.position(), "open round")));
        }
        if run.settings.policy.keep.system {
            let system = theirs().filter(|item| item.message().role() == Role::System);
            pinned.extend(system.map(|item| (item.position(), "later system message")));
        }
        let unseen = before.iter().rev().take_while(|item| item.is_note());
        pinned.extend(unseen.map(|item| (item.position(), "note that was not seen")));
        for (position, why) in pinned {
            demand!(after.contains(&position), "window {index}: {position} was dropped, and is the {why}");
        }
    }
    Ok(())
}

/// Law 7: a compaction makes a window smaller in a measure that was too large, and another one does not follow at once.
pub fn a_compaction_makes_progress(run: &Run) -> Found {
    for (index, step) in run.steps.iter().enumerate() {
        let Some(plan) = step.outcome.plan.as_ref().filter(|plan| plan.verdict == Verdict::Compact) else { continue };
        let policy = run.settings.policy.for_window(run.settings.model_window, run.settings.max_output.unwrap_or(0));
        let occasion = match plan.occasion {
            None => None,
            Some(Occasion::Repaid { .. }) => policy.payback.map(|payback| payback.limits),
            Some(_) => policy.cold.map(|cold| cold.limits),
        };
        let limits = [Some(policy.limits), policy.hard, occasion].into_iter().flatten();
        let over: Vec<_> = limits.flat_map(|limits| limits.exceeded_by(&plan.before).collect::<Vec<_>>()).collect();
        demand!(!over.is_empty(), "window {index}: a compaction without need");
        let smaller = |measure: Measure| plan.after.get(measure) < plan.before.get(measure);
        demand!(over.iter().any(|excess| smaller(excess.measure)), "window {index}: no progress: {plan:#?}");
        if run.settings.policy.mode == Mode::Recorded {
            let again = step.engine.clone().window();
            let compacts = again.entries.iter().any(|entry| matches!(entry, Entry::Compaction(_)));
            demand!(!compacts, "window {index}: compacted again at once: {plan:#?} {:#?}", again.plan);
            let mut totals = step.view.totals();
            totals.size.tokens = plan.after.size.tokens;
            totals.body = plan.after.body;
            totals.size.messages -= uncounted(&policy, &step.view);
            if let Some(Entry::Repair(Repair::Trim { .. })) = step.outcome.entries.last() {
                // White space at the end is trimmed after the compaction.
                demand!(totals.size.bytes < plan.after.size.bytes, "window {index}: trimmed to {totals:?}");
                totals.size.bytes = plan.after.size.bytes;
            }
            if let Some(Entry::Repair(Repair::Opening { .. })) = step.outcome.entries.last() {
                // If the compaction left no messages, or removed a note at the beginning, the request still needs a
                // first message.
                let first = step.before.messages().find(|item| item.message().role() != Role::System);
                let noted = first.is_some_and(|first| first.is_note());
                demand!(plan.after.size.messages == 0 || noted, "window {index}: an opening after {:?}", plan.after);
                continue;
            }
            demand!(totals == plan.after, "window {index}: promised {:?}, came out {totals:?}", plan.after);
        }
    }
    Ok(())
}

/// Law 8: each group of each plan has a reason, and its numbers agree with it.
pub fn every_group_has_a_reason(run: &Run) -> Found {
    for step in &run.steps {
        let explanation = step.engine.explain();
        let explained = explanation.groups.iter().flat_map(|group| group.entries.iter().cloned().flatten());
        let explained: HashSet<Position> = explained.collect();
        let is_explained = |item: &Item| explained.contains(&item.position());
        demand!(step.engine.view().messages().all(is_explained), "{explained:?}");
        let planned = step.outcome.plan.iter().map(|plan| (plan.verdict, plan.decisions.iter().collect::<Vec<_>>()));
        let decisions: Vec<&Decision> = explanation.groups.iter().map(|group| &group.decision).collect();
        for (verdict, decisions) in planned.chain([(explanation.verdict, decisions)]) {
            for decision in decisions {
                let sound = match decision.reason {
                    Reason::Fits => verdict == Verdict::Keep,
                    Reason::Pinned { .. } | Reason::Recent => decision.action == Action::Keep,
                    Reason::Exceeded { actual, target, .. } => decision.action != Action::Keep && actual > target,
                    Reason::Start { .. } => true,
                    Reason::Stale | Reason::Spent | Reason::Unlisted => {
                        decision.action == Action::Drop && decision.after == Default::default()
                    }
                    Reason::Capped { .. }
                    | Reason::Repeated { .. }
                    | Reason::Unnumbered
                    | Reason::Repaired { .. }
                    | Reason::Refused => false,
                    // A compaction may cut only what follows signed reasoning.
                    Reason::Waits => decision.action == Action::Keep && verdict != Verdict::Keep,
                    _ => false,
                };
                demand!(sound, "{decision:?} in {verdict:?}");
            }
        }
    }
    Ok(())
}

/// The view is the fold of the log, from its beginning and from each checkpoint, also after the log was written and
/// read.
pub fn the_view_is_the_fold_of_the_log(run: &Run, each: usize) -> Found {
    let snapshots = || run.snapshots.iter().step_by(each).chain(run.snapshots.last());
    for (end, expected) in snapshots() {
        let view = run.log.view(*end).ok_or("no view")?;
        demand!(snapshot(&view) == *expected, "at {end}:\n{expected}\n{}", snapshot(&view));
        demand!(view.has_beside() == view.messages().any(Item::is_beside), "what is beside is miscounted at {end}");
    }
    let text: Vec<String> = run.log.entries().iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
    let entries: Vec<Entry> = text.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let at = |position: Position| entries.get(position as usize);
    for (position, entry) in entries.iter().enumerate() {
        if let Entry::Checkpoint(checkpoint) = entry {
            let mut view = View::restore(checkpoint, at).ok_or_else(|| format!("checkpoint {position} is damaged"))?;
            let expected = run.log.view(position as Position).ok_or("no view")?;
            demand!(
                snapshot(&view) == snapshot(&expected),
                "checkpoint {position}:\n{}\n{}",
                snapshot(&expected),
                snapshot(&view)
            );
            let mut ends: HashMap<Position, &String> = snapshots().map(|(end, text)| (*end, text)).collect();
            for (next, entry) in entries.iter().enumerate().skip(position) {
                view.apply(next as Position, entry);
                if let Some(expected) = ends.remove(&(next as Position + 1)) {
                    demand!(
                        snapshot(&view) == *expected,
                        "from {position} to {next}:\n{expected}\n{}",
                        snapshot(&view)
                    );
                }
            }
        }
    }
    Ok(())
}

/// A session gives the same windows if it is opened again before each window.
pub fn a_session_that_is_opened_again_goes_on_the_same(run: &Run) -> Found {
    let mut from = 0;
    let mut engine = Engine::new(run.settings.clone());
    let at = |position: Position| run.log.entries().get(position as usize);
    let newest = |end: usize| run.log.entries()[..end].iter().rposition(|entry| matches!(entry, Entry::Checkpoint(_)));
    for step in &run.steps {
        let end = step.end as usize - step.outcome.entries.len();
        if let Some(position) = newest(end) {
            let Some(Entry::Checkpoint(checkpoint)) = at(position as Position) else { continue };
            let mut view = View::restore(checkpoint, at).ok_or("a damaged checkpoint")?;
            for next in position..end {
                view.apply(next as Position, at(next as Position).unwrap());
            }
            let since_checkpoint = (end - position - 1) as u64;
            engine = Engine::resume(run.settings.clone(), LogState { view, end: end as Position, since_checkpoint });
        } else {
            let mut view = engine.view().clone();
            (from..end).for_each(|next| view.apply(next as Position, at(next as Position).unwrap()));
            let log = LogState { view, end: end as Position, since_checkpoint: end as u64 };
            engine = Engine::resume(run.settings.clone(), log);
        }
        if step.held {
            engine.hold_limits();
        }
        let outcome = engine.window();
        let view = outcome.on_read.as_deref().unwrap_or(engine.view());
        demand!(encode(run.settings.dialect, view) == step.request, "another window after opening again");
        demand!(outcome.plan == step.outcome.plan, "another plan after opening again");
        from = step.end as usize;
    }
    Ok(())
}

/// Returns whether signed reasoning of an open tool loop forbids a change, by applying a policy that would change
/// everything.
fn is_bound(run: &Run, step: &Step) -> bool {
    let policy = Policy { limits: Limits { bytes: Some(0), ..Limits::default() }, ..Policy::unlimited() };
    let settings = run.settings.clone().policy(policy);
    let engine = Engine::resume(settings, LogState { view: step.view.clone(), end: step.end, since_checkpoint: 0 });
    engine.explain().groups.iter().any(|group| group.decision.reason == Reason::Waits)
}

/// A signed block is sent only after its original prefix.
pub fn no_signed_block_is_sent_under_another_prefix(run: &Run) -> Found {
    let dialect = run.settings.dialect;
    // These two dialects accept reasoning after another prefix, too.
    if matches!(dialect, Dialect::OpenAiResponses | Dialect::Gemini) {
        return Ok(());
    }
    // A window that is planned again at each read begins differently each time, which another test checks.
    if run.settings.policy.drop_block || run.settings.policy.mode == Mode::OnRead {
        return Ok(());
    }
    for (index, step) in run.sent().enumerate() {
        let items: Vec<_> = step.view.messages().collect();
        let bound = is_bound(run, step);
        for (at, item) in items.iter().enumerate() {
            let hidden = |part: usize| edit::is_hidden(item.edits(), part);
            let shown = item.message().parts().enumerate().any(|(part, value)| {
                matches!(value, PartRef::Reasoning(reasoning) if reasoning.signature.is_some()) && !hidden(part)
            });
            for signature in signatures(item.message()).into_iter().filter(|_| shown) {
                let Some((prefix, under)) = run.signed.get(&signature) else { continue };
                let before = items[..at].iter().map(|item| Shown { message: item.message(), edits: item.edits() });
                let now = parts(dialect, &encode_items(dialect, before));
                demand!(now == *prefix, "window {index}: {signature} under another prefix:\n{prefix:#?}\n{now:#?}");
                // In an open tool loop, a changed preamble cannot be repaired: the provider refuses the request with
                // the reasoning and without it.
                demand!(bound || preamble(&step.view) == *under, "window {index}: {signature} under another preamble");
            }
        }
    }
    Ok(())
}

/// A late result replaces its stand-in at the next compaction that may change the beginning of the window, if its call
/// is still there.
pub fn a_late_result_takes_its_stand_ins_place(run: &Run) -> Found {
    let waits = |step: &&Step| {
        let decisions = step.outcome.plan.iter().flat_map(|plan| &plan.decisions);
        decisions.into_iter().any(|decision| decision.reason == Reason::Waits)
    };
    for step in run.steps.iter().filter(|step| step.compacted() && !waits(step)) {
        for item in step.view.messages().filter(|item| item.is_own()) {
            for (_, stand_in) in item.message().tool_results() {
                let late = run.log.entries()[..step.end as usize].iter().any(|entry| match entry {
                    Entry::Message(arrival) => arrival.message.tool_results().any(|(part, result)| {
                        let here = |change: &dyn Fn(&Change) -> bool| {
                            arrival.edits.iter().any(|edit| edit.part == part && change(&edit.change))
                        };
                        let renamed = arrival.edits.iter().find_map(|edit| match &edit.change {
                            Change::Rename(id) if edit.part == part => Some(id.as_str()),
                            _ => None,
                        });
                        let name = renamed.unwrap_or(&result.call_id);
                        name == stand_in.call_id
                            && here(&|change| *change == Change::Hide(edit::Hidden::Late))
                            && !step.view.messages().any(|item| {
                                item.message().wire().unwrap().raw.get() == arrival.message.wire().unwrap().raw.get()
                            })
                            && run.log.entries()[..item.position() as usize].len() < position(run, arrival)
                    }),
                    _ => false,
                });
                demand!(!late, "the stand-in for {} stands though its result is there", stand_in.call_id);
            }
        }
    }
    Ok(())
}

fn position(run: &Run, arrival: &lookback_engine::transcript::Arrival) -> usize {
    let raw = arrival.message.wire().unwrap().raw.get();
    messages(run).find(|(_, json)| *json == raw).map_or(0, |(position, _)| position)
}

#[allow(dead_code, reason = "a shorthand for hand-written cases")]
pub fn raw(json: &str) -> Box<RawValue> {
    serde_json::from_str(json).unwrap()
}

/// Returns the tool results that a message shows, without the numbers of their lines.
fn shown_without_numbers(message: &Message, edits: &[edit::Edit]) -> String {
    let mut bare = String::new();
    for (part, result) in message.tool_results().filter(|(part, _)| !edit::is_hidden(edits, *part)) {
        for (item, value) in result.content.iter().enumerate() {
            let Some(text) = value.text() else { continue };
            let kept = match edit::cut_of(edits, part, item) {
                Some(cut) => cut.kept(text).collect(),
                None => vec![text],
            };
            for text in kept {
                bare.extend(unnumbered(text));
                bare.push('\0');
            }
        }
    }
    bare
}

/// Repeated lines that are left out of a result are shown above, word for word. The number that a tool puts before a
/// line is not a word of it, but only if it belongs to a count and the window hides such numbers.
pub fn what_is_left_out_is_shown_above(run: &Run) -> Found {
    for (index, step) in run.steps.iter().enumerate() {
        let mut above: BTreeMap<Position, &Item> = BTreeMap::new();
        for item in step.view.messages() {
            for edit in item.edits() {
                let Change::Cut { item: at, cut } = &edit.change else { continue };
                if cut.repeats.is_empty() {
                    continue;
                }
                let (_, result) = item.message().tool_results().find(|(part, _)| *part == edit.part).unwrap();
                let text = result.content[*at].text().unwrap();
                let lines_before = |at: usize| text[..at].split_inclusive('\n').count();
                for repeat in &cut.repeats {
                    let lines = text[repeat.start..repeat.end].trim_end_matches('\n');
                    let (first, after) = (lines_before(repeat.start), lines_before(repeat.end));
                    let bare: String = unnumbered(text).skip(first).take(after - first).collect();
                    let shown = above.get(&repeat.entry).is_some_and(|above| {
                        let hidden =
                            |edit: &edit::Edit| matches!(&edit.change, Change::Cut { cut, .. } if cut.unnumbered);
                        let hides_numbers = cut.unnumbered || above.edits().iter().any(hidden);
                        edit::shown_text(above.message(), above.edits()).contains(lines)
                            || (hides_numbers
                                && shown_without_numbers(above.message(), above.edits())
                                    .contains(bare.trim_end_matches('\n')))
                    });
                    demand!(shown, "window {index}: {lines:?} is not shown in {}", repeat.entry);
                }
            }
            if !item.is_own() {
                above.insert(item.position(), item);
            }
        }
    }
    Ok(())
}

/// Checks the laws that hold for every case.
pub fn all(run: &Run) -> Found {
    nothing_is_lost(run)?;
    what_is_left_out_is_shown_above(run)?;
    never_invalid(run)?;
    repair_is_idempotent(run)?;
    a_window_fits_or_says_what_is_pinned(run)?;
    requests_extend_each_other(run)?;
    a_kept_part_is_byte_identical(run)?;
    what_encoding_does_is_told(run)?;
    what_is_pinned_is_never_dropped(run)?;
    a_compaction_makes_progress(run)?;
    every_group_has_a_reason(run)?;
    no_signed_block_is_sent_under_another_prefix(run)
}

/// Law 7, after refusals by the provider: each window after an overflow is smaller and valid, until no group can leave.
pub fn recovery_from_overflow_is_bounded(run: &Run) -> Found {
    let dialect = run.settings.dialect;
    let mut engine = run.engine.clone();
    for attempt in 0.. {
        let before = engine.view().totals().size;
        let tokens = engine.tokens(engine.view());
        let outcome = engine.overflow(Limits::tokens(tokens - tokens.div_ceil(4)));
        let Some(plan) = outcome.plan else { return Err(format!("attempt {attempt}: no plan")) };
        if plan.verdict != Verdict::Compact {
            demand!(outcome.entries.is_empty(), "attempt {attempt}: entries of {:?}", plan.verdict);
            return Ok(());
        }
        if plan.after.size.messages == 0 {
            // If only stale reasoning was kept, the request still needs a message.
            return Ok(());
        }
        if outcome.entries.iter().any(|entry| matches!(entry, Entry::Repair(Repair::Opening { .. }))) {
            // The opening that replaces a dropped note may be longer than the note.
            return Ok(());
        }
        let after = engine.view().totals().size;
        demand!(after.tokens < before.tokens, "attempt {attempt}: {before:?} to {after:?}");
        let mut next = engine.clone();
        let outcome = next.window();
        let view = outcome.on_read.as_deref().unwrap_or(next.view());
        if outcome.exceeded.is_none() {
            let sent = encode(dialect, view);
            let found = if sent.is_empty() { Vec::new() } else { refused(run, &request(dialect, &sent)) };
            demand!(found.is_empty(), "attempt {attempt}: {found:?}\n{}", sent.join("\n"));
        }
        demand!(attempt < 1_000, "it goes on for ever");
    }
    Ok(())
}

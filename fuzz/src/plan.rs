//! Any groups under any policy have a plan, and it keeps the pinned groups.

use lookback_engine::group::{Group, GroupKind, Pin};
use lookback_engine::plan::{Action, Plan, Verdict};
use lookback_engine::policy::Caps;
use lookback_engine::policy::{Cold, Index, Keep, Payback, Repeats, Tokens};
use lookback_engine::policy::{Limits, Mode, Pace, Policy, Stage, Summarize, SystemRule};
use lookback_engine::totals::Totals;
use lookback_tokens::cut::{Truncation, Unit};
use lookback_wire::Start;
use lookback_wire::size::{Measure, Size};

use crate::Bytes;

/// Checks the plan of a policy and groups that are made from the bytes.
pub fn plan(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let policy = policy(&mut bytes);
    policy.faults();
    policy.counts_tokens();
    let policy = policy.for_window(bytes.option(Bytes::size), bytes.option(Bytes::size).unwrap_or(0));
    let groups = groups(&mut bytes, policy.stages.len());
    let plan = lookback_engine::plan::plan(&groups, &policy);
    assert_eq!(plan, lookback_engine::plan::plan(&groups, &policy), "a plan is a function of what it is given");
    holds(&groups, &policy, &plan);
}

/// Makes a policy from bytes.
pub(crate) fn policy(bytes: &mut Bytes<'_>) -> Policy {
    let keep = Keep {
        first: bytes.size(),
        last: bytes.size(),
        task: bytes.coin(),
        system: bytes.coin(),
        people: bytes.size(),
        work: bytes.coin(),
    };
    Policy {
        limits: limits(bytes),
        target: bytes.option(limits),
        hard: bytes.option(limits),
        keep: if bytes.coin() { keep } else { Keep::default() },
        start: bytes.choose(&[Start::Any, Start::UserOrToolPair, Start::User]),
        arrival: bytes.option(truncation),
        stages: (0..bytes.below(4)).map(|_| stage(bytes)).collect(),
        mode: bytes.choose(&[Mode::Recorded, Mode::OnRead]),
        drop_block: bytes.coin(),
        system: SystemRule { one: bytes.coin(), first: bytes.coin(), counted: bytes.coin() },
        pace: bytes.choose(&[Pace::Call, Pace::Calls(0), Pace::Calls(3), Pace::Turn]),
        cold: bytes.option(|bytes| Cold {
            after: bytes.option(Bytes::size),
            limits: limits(bytes),
            target: limits(bytes),
        }),
        payback: bytes
            .option(|bytes| Payback { write: bytes.choose(&[12.5, 1.0, 0.0, f64::NAN]), limits: limits(bytes) }),
        caps: bytes.option(|bytes| {
            let (file, other, names) = (bytes.size(), bytes.size(), bytes.size());
            Caps { file, other, names, numbers: bytes.coin(), without_recall: 1 + bytes.below(4) as u64 }
        }),
        repeats: bytes.option(|bytes| Repeats { lines: bytes.size(), tokens: bytes.size() }),
        index: bytes.option(|bytes| Index { budget: bytes.size() }),
        ..Policy::unlimited()
    }
}

fn limits(bytes: &mut Bytes<'_>) -> Limits {
    let tokens = |bytes: &mut Bytes<'_>| match bytes.below(8) {
        0 => Tokens::Share(bytes.choose(&[0.0, -1.0, 0.5, 1.0, 7.0, f64::NAN, f64::INFINITY])),
        _ => Tokens::Count(bytes.size()),
    };
    let mut limit = || bytes.option(Bytes::size);
    let (messages, turns, rounds, size, media, body) = (limit(), limit(), limit(), limit(), limit(), limit());
    Limits { tokens: bytes.option(tokens), messages, turns, rounds, bytes: size, media, body }
}

fn truncation(bytes: &mut Bytes<'_>) -> Truncation {
    let unit = bytes.choose(&[Unit::Characters, Unit::Tokens]);
    Truncation { head: bytes.size(), tail: bytes.size(), unit, marker: bytes.coin().then(|| "<{cut}>".to_owned()) }
}

fn stage(bytes: &mut Bytes<'_>) -> Stage {
    let except_newest = bytes.size();
    match bytes.below(7) {
        4 => Stage::Summarize(Summarize { budget: bytes.size(), ..Summarize::default() }),
        0 => Stage::TruncateResults { to: truncation(bytes), except_newest },
        1 => Stage::ClearResults { except_newest, marker: None },
        2 => Stage::ClearMedia { except_newest },
        3 => Stage::ClearInputs { longest: bytes.size(), except_newest, marker: None },
        _ => Stage::Drop,
    }
}

fn size(bytes: &mut Bytes<'_>) -> Size {
    Size { tokens: bytes.size(), bytes: bytes.size(), messages: bytes.size(), media: bytes.size(), passing: 0 }
}

fn groups(bytes: &mut Bytes<'_>, stages: usize) -> Vec<Group> {
    const PINS: [Pin; 8] =
        [Pin::Preamble, Pin::System, Pin::LaterSystem, Pin::Task, Pin::Newest, Pin::OpenRound, Pin::First, Pin::Last];
    let mut groups = Vec::new();
    while bytes.any() && groups.len() < 64 {
        let (pin, size_now, mut kept) = (bytes.option(|bytes| bytes.choose(&PINS)), size(bytes), size(bytes));
        // Only a group that is not pinned can be wholly stale. Then nothing is left of it.
        if pin.is_some() {
            kept.messages = size_now.messages;
        } else if kept.messages == 0 {
            kept = Size::default();
        }
        groups.push(Group {
            kind: bytes.choose(&[
                GroupKind::Preamble,
                GroupKind::System,
                GroupKind::Summary,
                GroupKind::Index,
                GroupKind::User,
                GroupKind::Assistant,
                GroupKind::Round,
            ]),
            turn: bytes.size(),
            round: bytes.size(),
            pin,
            size: size_now,
            kept,
            // As many as there are stages, too few, or too many.
            staged: (0..(stages + 1).saturating_sub(bytes.below(3))).map(|_| size(bytes)).collect(),
            bound: bytes.below(8) == 0,
        });
    }
    groups
}

fn holds(groups: &[Group], policy: &Policy, plan: &Plan) {
    assert_eq!(plan.decisions.len(), groups.len());
    for (group, decision) in groups.iter().zip(&plan.decisions) {
        // The current summary becomes part of the next. An index leaves if the policy makes none, or at a hard limit.
        let merged = group.kind == GroupKind::Summary && decision.action == Action::Summarize;
        let merged = merged || (group.kind == GroupKind::Index && (policy.index.is_none() || policy.hard.is_some()));
        assert!(group.pin.is_none() || !decision.action.is_gone() || merged, "pinned and dropped: {group:?}");
        assert!(!group.bound || decision.after == group.size || merged, "bound and changed: {group:?}");
        assert!(!decision.action.is_gone() || decision.after == Size::default());
        assert_eq!(decision.before, group.size);
    }
    assert_eq!(plan.before, Totals::sum(groups.iter().map(|group| (group, group.size))));
    let hard = policy.hard.unwrap_or_default();
    let over: Vec<_> = policy.limits.exceeded_by(&plan.after).chain(hard.exceeded_by(&plan.after)).collect();
    assert_eq!(plan.over, over, "what is exceeded still is said");
    match plan.verdict {
        Verdict::Keep => assert!(hard.fits(&plan.after), "a hard limit is refused and never kept: {plan:?}"),
        Verdict::Wait => assert!(hard.fits(&plan.after) && groups.iter().any(|group| group.bound)),
        Verdict::Refuse => assert!(!hard.fits(&plan.after)),
        Verdict::Compact | Verdict::Summarize => {
            let smaller = |measure| plan.after.get(measure) < plan.before.get(measure);
            assert!(Measure::ALL.into_iter().any(smaller), "a compaction makes something smaller");
            assert!(hard.fits(&plan.after));
        }
        _ => unreachable!("a verdict of which nothing is known: {plan:?}"),
    }
}

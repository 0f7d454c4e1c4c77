//! The running summary: what is wanted of whoever makes it, and how it takes the place of what it covers.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Engine;
use super::repair::own;
use crate::candidates::Candidates;
use crate::cut;
use crate::entry::{Entry, Position, Summary, spans};
use crate::group::Pin;
use crate::measure::measure;
use crate::message::{Message, Role};
use crate::plan::{Decision, Plan, Reason, Verdict};
use crate::policy::{Policy, Summarize};
use crate::size::{Measure, Size};
use crate::start::Start;
use crate::wire::Dialect;

/// A summary that is wanted, with all that it is to be made of.
#[derive(Clone)]
pub struct SummaryRequest {
    /// What it is to cover.
    pub claim: SummaryClaim,
    /// The messages, whole, in their order.
    pub messages: Vec<Arc<Message>>,
    /// Where in the log each of them stands.
    pub positions: Vec<Position>,
    /// The running summary that it is to go on from.
    pub previous: Option<String>,
    /// The most tokens that it may have: what is longer is cut.
    pub budget: u64,
    /// How many it should have, so that it is shorter than what it replaces. A hint for whoever makes it: up to the budget a summary is taken.
    pub aim: u64,
}

/// What a summary covers, by positions of the log: small enough to be written down while the summary is being made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryClaim {
    /// The entries that leave the window for it.
    pub covers: Vec<Range<Position>>,
    /// The compaction that brought the summary which it goes on from.
    #[serde(default, alias = "base", skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Position>,
    /// Why.
    pub reason: Reason,
    /// What leaves the window for it, the summary before it included.
    pub size: Size,
    /// Tokens of all that it stands for: what leaves now, and what left for the summaries before it.
    #[serde(default)]
    pub total: u64,
}

impl SummaryClaim {
    /// How many tokens a summary should have at the most, so that it pays: where tokens or bytes are limited, as many as leave the window for
    /// it; else as many as it stands for, since a running summary may well grow by more than the short message that was merged into it.
    fn worth(&self) -> u64 {
        let leaves = match self.reason {
            Reason::Exceeded { measure: Measure::Tokens | Measure::Bytes, .. } => self.size.tokens,
            _ => self.total.max(self.size.tokens),
        };
        leaves.max(SMALL) - AROUND
    }
}

/// Why a summary does not take the place of what it covers. The window stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SummaryRejected {
    /// It says nothing.
    #[error("the summary is empty")]
    Empty,
    /// What may not be dropped leaves no room for it under the hard limit.
    #[error(
        "what may not be dropped has {pinned} tokens, and leaves no room for a summary under the hard limit of {limit}"
    )]
    NoRoom {
        /// Tokens of what may not be dropped.
        pinned: u64,
        /// The hard limit in tokens.
        limit: u64,
    },
    /// Another compaction has brought another summary meanwhile, or the session has gone back to before what it covers.
    #[error("another summary came first, or the session went back to before it")]
    Superseded,
    /// Signed reasoning of an open tool loop forbids a change: it may be given again later.
    #[error("signed reasoning of the open tool loop forbids a change")]
    Waits,
    /// The policy makes no summaries.
    #[error("the policy has no stage that summarizes")]
    Unasked,
}

/// A summary may well have so many tokens, however small what it replaces: that may be a word or two.
const SMALL: u64 = 64;
/// Tokens of the words around a summary, generously.
const AROUND: u64 = 32;

impl Engine {
    /// A summary is being made (or no more): until it is there, only the hard limit is looked at.
    pub fn set_summary_pending(&mut self, pending: bool) {
        self.summary_pending = pending;
    }

    /// A summary that was wanted is there: it takes the place of what it covers, cut to its budget.
    ///
    /// One within its budget is taken, also where it is larger than what it replaces: whoever made it kept to what was asked, and would do no
    /// better the next time. Where a hard limit in tokens leaves less room beside what may not be dropped, it is cut to that.
    ///
    /// # Errors
    /// Where it says nothing, comes too late, or cannot be taken now; then nothing has changed.
    ///
    /// ```
    /// use lookback_core::{Engine, Limits, Message, Policy, Settings, Stage, policy::Summarize};
    ///
    /// let stages = vec![Stage::Summarize(Summarize::default())];
    /// let policy = Policy { limits: Limits::messages(2), stages, ..Policy::default() };
    /// let mut engine = Engine::new(Settings { policy, ..Settings::default() });
    /// for text in ["My name is Ada.", "And?", "What is it?"] {
    ///     engine.push(Message::user(text))?;
    /// }
    /// let wanted = engine.window().summary_request.unwrap();
    /// engine.accept_summary(&wanted.claim, "The user is called Ada.")?;
    /// let first = engine.view().messages().next().unwrap().message().text();
    /// assert_eq!(first, "[Summary of the conversation before this point]\nThe user is called Ada.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accept_summary(&mut self, claim: &SummaryClaim, text: &str) -> Result<Vec<Entry>, SummaryRejected> {
        let Some(summary) = self.policy.summary().cloned() else { return Err(SummaryRejected::Unasked) };
        let here = claim.covers.iter().all(|span| self.view.is_on_path(span));
        if self.view.summary().map(|(position, _)| position) != claim.replaces || !here {
            return Err(SummaryRejected::Superseded);
        }
        if self.is_bound() {
            return Err(SummaryRejected::Waits);
        }
        let candidates = Candidates::of(&self.view, self.sizing());
        let budget = summary.budget.min(self.room_for_summary(&candidates)?);
        let counter = &*self.settings.counter;
        let text = cut::head(text.trim(), budget, counter).trim_end();
        if text.is_empty() {
            return Err(SummaryRejected::Empty);
        }
        let message = in_words(self.settings.dialect, &summary, text).ok_or(SummaryRejected::Empty)?;
        let size = measure(&message, &[], counter);
        let (covers, replaces) = (claim.covers.clone(), claim.replaces);
        let stands_for = claim.total;
        let summary = Summary { message, text: text.to_owned(), size, covers, replaces, stands_for };
        let plan = candidates.summarize(&self.view, &claim.covers, claim.reason, size);
        let mut compaction = candidates.carry_out(&self.view, &plan);
        compaction.summary = Some(Arc::new(summary));
        let mut entries = Vec::new();
        self.record(Entry::Compaction(compaction), &mut entries);
        if self.needs_opening() {
            self.repair(&mut entries);
        }
        self.checkpoint_if_due(&mut entries);
        Ok(entries)
    }

    /// The most tokens that a summary may have, by the session's count, so that the window can still come down to its hard limit.
    fn room_for_summary(&self, candidates: &Candidates) -> Result<u64, SummaryRejected> {
        let hard = self.policy.hard.unwrap_or_default();
        let Some(limit) = hard.get(Measure::Tokens) else { return Ok(u64::MAX) };
        let pinned =
            candidates.pinned().into_iter().filter(|pinned| pinned.pin != Pin::Summary).map(|pinned| pinned.size);
        let pinned = pinned.sum::<Size>().tokens;
        let room = limit.saturating_sub(pinned).saturating_sub(AROUND);
        if room == 0 {
            return Err(SummaryRejected::NoRoom { pinned, limit });
        }
        // The limit is one of corrected tokens, and a text is cut by tokens that are not.
        let corrected = u128::from(self.calibration().apply(room)).max(1);
        Ok(u64::try_from(u128::from(room) * u128::from(room) / corrected).unwrap_or(u64::MAX))
    }

    /// The summary that a plan wants, where it wants one.
    pub(super) fn summary_request(
        &self,
        candidates: &Candidates,
        plan: &Plan,
        policy: &Policy,
    ) -> Option<SummaryRequest> {
        let budget = policy.summary()?.budget;
        let spans_of = candidates.spans(&self.view);
        let uncounted = |decision: &Decision| matches!(decision.reason, Reason::Stale | Reason::Spent);
        let gone = |(decision, _): &(&Decision, _)| decision.action.is_gone() && !uncounted(decision);
        let mut gone = plan.decisions.iter().zip(&spans_of).filter(gone).peekable();
        let reason = gone.peek()?.0.reason;
        let base = self.view.summary();
        let stood = base.map_or(Size::default(), |(_, base)| self.sizing().corrected(base.size));
        // At a hard limit what stands stays, but the new one is to replace it.
        let mut size = if plan.verdict == Verdict::Compact { stood } else { Size::default() };
        let mut covers = Vec::new();
        for (decision, spans) in gone {
            size += decision.before;
            covers.extend(spans.iter().cloned().flatten().filter(|at| base.is_none_or(|(base, _)| *at != base)));
        }
        let covers = spans(covers);
        let covered = |position: Position| covers.iter().any(|span| span.contains(&position));
        let items = self.view.messages().filter(|item| !item.is_own() && covered(item.position()));
        let (messages, positions) = items.map(|item| (item.message.clone(), item.position())).unzip();
        let previous = base.map(|(_, summary)| summary.text.clone());
        let stood_for = base.map_or(0, |(_, base)| base.stands_for);
        let total = size.tokens.saturating_sub(stood.tokens).saturating_add(stood_for);
        let claim = SummaryClaim { covers, replaces: base.map(|(position, _)| position), reason, size, total };
        let aim = budget.min(claim.worth());
        Some(SummaryRequest { claim, messages, positions, previous, budget, aim })
    }
}

/// The message that shows a summary.
fn in_words(dialect: Dialect, summary: &Summarize, text: &str) -> Option<Arc<Message>> {
    let text = summary.wording.replace("{summary}", text);
    let free = dialect.quirks().start == Start::Any;
    let message = match summary.role {
        Role::System if free => Message::system(text),
        Role::Assistant if free => Message::assistant(text),
        Role::System | Role::User | Role::Assistant => Message::user(text),
    };
    own(dialect, &message)
}

//! The running summary: requests one, and replaces the messages it covers with it.

use lookback_content::Redacted;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Engine;
use super::repair::own;
use crate::candidates::{Candidates, Kept, Sizing};
use crate::entry::{Entry, Position, RunningSummary, spans};
use crate::group::Pin;
use crate::plan::{Decision, Plan, Reason, Verdict};
use crate::policy::{Policy, Summarize};
use crate::view::Item;
use lookback_tokens::cut;
use lookback_tokens::measure;
use lookback_wire::Start;
use lookback_wire::message::Message;
use lookback_wire::size::{Measure, Size};
use lookback_wire::{dialect::Dialect, message::Role};

/// A request for a summary, with everything needed to make it.
#[derive(derive_more::Debug, Clone)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// The entries that the summary is to cover.
    pub claim: SummaryClaim,
    /// The messages to summarize, in full and in order.
    pub messages: Vec<Arc<Message>>,
    /// The position of each message in the log.
    pub positions: Vec<Position>,
    /// The text of the running summary that the new one continues.
    #[debug("{:?}", Redacted(previous))]
    pub previous: Option<String>,
    /// The most tokens that the summary may have. A longer one is cut.
    pub budget: u64,
    /// The number of tokens that the summary should have, to be shorter than the messages it replaces. This is a hint:
    /// any summary within the budget is accepted.
    pub target_tokens: u64,
}

/// The entries that a summary covers, as positions in the log. A claim is small, so it can be recorded while the
/// summary is being made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SummaryClaim {
    /// The entries that the summary replaces.
    pub covers: Vec<Range<Position>>,
    /// The position of the compaction with the running summary that the new one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Position>,
    /// Why these entries leave the window.
    pub(crate) reason: Reason,
    /// The size of the groups that leave the window, including the previous summary.
    pub size: Size,
    /// The tokens of everything that the summary replaces: the groups that leave now, and those that earlier summaries
    /// replaced.
    #[serde(default, rename = "total")]
    pub stands_for: u64,
}

impl SummaryClaim {
    /// Returns the most tokens at which a summary saves something. If a limit in tokens or bytes was exceeded, these
    /// are the tokens that leave the window. Otherwise they are the tokens of everything that the summary replaces,
    /// because a running summary may grow by more than the short message that is merged into it.
    fn worth(&self) -> u64 {
        let leaves = match self.reason {
            Reason::Exceeded { measure: Measure::Tokens | Measure::Bytes, .. } => self.size.tokens,
            _ => self.stands_for.max(self.size.tokens),
        };
        leaves.max(SMALL) - AROUND
    }
}

/// Why a summary was rejected. The window is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryRejected {
    /// The summary has no text.
    #[error("the summary is empty")]
    Empty,
    /// The pinned parts of the window leave no room for the summary under the hard limit.
    #[error(
        "the pinned parts have {pinned} tokens and leave no room for a summary under the hard limit of {limit}; \
         raise the hard limit"
    )]
    NoRoom {
        /// Tokens of the pinned parts.
        pinned: u64,
        /// The hard limit in tokens.
        limit: u64,
    },
    /// Another summary has been recorded in the meantime, or the session went back to a point before the covered
    /// entries, or their contents were erased.
    #[error("the summary came too late: there is a newer one, or the session no longer has the covered entries")]
    Superseded,
    /// Signed reasoning of an open tool loop forbids a change. The summary can be offered again when the loop has
    /// ended.
    #[error("the window may not change while a tool loop with signed reasoning is open; offer the summary again later")]
    Waits,
    /// The policy makes no summaries.
    #[error("the policy makes no summaries; add a `summarize` stage to `stages`")]
    Unasked,
}

/// The minimum number of tokens that is assumed for the messages that a summary replaces. They may be a word or two,
/// and then a summary cannot be shorter.
const SMALL: u64 = 64;
/// Tokens of the words around a summary, estimated generously.
const AROUND: u64 = 32;

impl Engine {
    /// Suspends the limits while a summary is being made. Until [`Engine::release_limits`], only the hard limit is
    /// checked.
    pub fn hold_limits(&mut self) {
        self.summary_pending = true;
    }

    /// Checks the limits again. Call this when no summary is being made anymore.
    pub fn release_limits(&mut self) {
        self.summary_pending = false;
    }

    /// Sets whether messages leave as soon as a limit is exceeded, without waiting for a summary. The outcome still
    /// asks for a summary of the messages that have left. Use this if another process claimed the summary and may have
    /// stopped.
    pub fn drop_at_limits(&mut self, drops: bool) {
        self.drops = drops;
    }

    /// Accepts a summary that was requested. It replaces the entries that it covers, and is cut to its budget.
    ///
    /// A summary within its budget is accepted even if it is larger than the messages it replaces, because a second
    /// attempt at the same request would do no better. If a hard limit in tokens leaves less room after the pinned
    /// parts, the summary is cut to that room.
    ///
    /// # Errors
    /// Returns an error if the summary is empty or too late, if the hard limit leaves no room for it, if the window may
    /// not change now, or if the policy makes no summaries. Nothing has changed then.
    ///
    /// ```
    /// use lookback_engine::{Engine, Settings, policy::{Limits, Policy, Stage, Summarize}};
    /// use lookback_wire::message::Message;
    ///
    /// let stages = vec![Stage::Summarize(Summarize::default())];
    /// let policy = Policy { limits: Limits::messages(2), stages, ..Policy::unlimited() };
    /// let mut engine = Engine::new(Settings::default().policy(policy));
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
        if self.view.summary_position() != claim.replaces || !here || self.may_be_erased(claim) {
            return Err(SummaryRejected::Superseded);
        }
        if self.is_bound() {
            return Err(SummaryRejected::Waits);
        }
        // The plan that asked for the summary counted people's words and the work in progress as a compaction shows them.
        let kept = Kept::choose(&self.view, self.sizing());
        let sizing = Sizing { kept: Some(&kept), ..self.sizing() };
        let candidates = Candidates::new(&self.view, sizing);
        let budget = summary.budget.min(self.room_for_summary(&candidates)?);
        let counter = &*self.settings.counter;
        let text = cut::head(text.trim(), budget, counter).trim_end();
        if text.is_empty() {
            return Err(SummaryRejected::Empty);
        }
        let message = in_words(self.settings.dialect, &summary, text).ok_or(SummaryRejected::Empty)?;
        let size = measure(&message, &[], counter);
        // A previous summary that was erased contributed nothing to this one.
        let previous = self.view.summary().filter(|previous| !previous.text.is_empty());
        let replaces = if previous.is_some() { claim.replaces } else { None };
        let covers = claim.covers.clone();
        let stands_for = claim.stands_for;
        let summary = RunningSummary { message, text: text.to_owned(), size, covers, replaces, stands_for };
        let plan = |candidates: &Candidates| Some(candidates.summarize(&self.view, &claim.covers, claim.reason, size));
        let (candidates, Some(plan)) = self.planned(sizing, plan) else { return Err(SummaryRejected::Empty) };
        let mut compaction = candidates.carry_out(&self.view, &plan);
        compaction.summary = Some(Arc::new(summary));
        self.add_index(&self.policy, &mut compaction);
        let mut entries = Vec::new();
        self.record(Entry::Compaction(compaction), &mut entries);
        if self.needs_opening() {
            self.repair(&mut entries);
        }
        self.checkpoint_if_due(&mut entries);
        Ok(entries)
    }

    /// Returns whether a claim covers entries whose contents may have been erased since it was made.
    fn may_be_erased(&self, claim: &SummaryClaim) -> bool {
        let before = self.view.erased_before();
        if claim.covers.iter().all(|span| span.start >= before) {
            return false;
        }
        let shown: HashSet<Position> = self.view.messages().map(Item::position).collect();
        let mut covered = claim.covers.iter().cloned().flatten();
        covered.any(|position| position < before && !shown.contains(&position))
    }

    /// Returns the most tokens that a summary may have, by the session's counter, so that the window can still meet its
    /// hard limit.
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
        // The limit is in corrected tokens, but a text is cut by uncorrected ones.
        let corrected = u128::from(self.calibration().apply(room)).max(1);
        Ok(u64::try_from(u128::from(room) * u128::from(room) / corrected).unwrap_or(u64::MAX))
    }

    /// Returns the summary that a plan asks for, if any.
    pub(super) fn summary_request(
        &self,
        candidates: &Candidates,
        plan: &Plan,
        policy: &Policy,
    ) -> Option<SummaryRequest> {
        let budget = policy.summary()?.budget;
        let spans_of = candidates.spans(&self.view);
        let uncounted =
            |decision: &Decision| matches!(decision.reason, Reason::Stale | Reason::Spent | Reason::Unlisted);
        let gone = |(decision, _): &(&Decision, _)| decision.action.is_gone() && !uncounted(decision);
        let mut gone = plan.decisions.iter().zip(&spans_of).filter(gone).peekable();
        let reason = gone.peek()?.0.reason;
        let (running, replaces) = (self.view.summary(), self.view.summary_position());
        let replaced = running.map_or(Size::default(), |running| self.sizing().corrected(running.size));
        // At a hard limit the previous summary stays for now, but the new one will replace it.
        let mut size = if plan.verdict == Verdict::Compact { replaced } else { Size::default() };
        let mut covers = Vec::new();
        for (decision, spans) in gone {
            size += decision.before;
            covers.extend(spans.iter().cloned().flatten().filter(|at| Some(*at) != replaces));
        }
        let covers = spans(covers);
        let covered = |position: Position| covers.iter().any(|span| span.contains(&position));
        let items = self.view.messages().filter(|item| !item.is_own() && covered(item.position()));
        let (messages, positions) = items.map(|item| (item.message.clone(), item.position())).unzip();
        // An erased summary has no text.
        let previous = running.map(|running| running.text.clone()).filter(|text| !text.is_empty());
        let earlier = running.map_or(0, |running| running.stands_for);
        let stands_for = size.tokens.saturating_sub(replaced.tokens).saturating_add(earlier);
        let claim = SummaryClaim { covers, replaces, reason, size, stands_for };
        let target_tokens = budget.min(claim.worth());
        Some(SummaryRequest { claim, messages, positions, previous, budget, target_tokens })
    }
}

/// Returns the message that shows a summary.
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

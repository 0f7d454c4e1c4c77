//! Messages that leave the window without a summary, because two summaries of them did not pass their check.

use lookback_engine::plan::Verdict;
use lookback_engine::policy::{Index, Policy, Stage};
use lookback_engine::transcript::Entry;
use lookback_engine::view::View;
use lookback_engine::{Engine, SummaryClaim, WindowOutcome};

use super::missed::is_gone;
use super::note::drop_refused;
use crate::{Error, Session};
use lookback_store::StoreError;

/// The result of letting messages leave.
pub(super) enum Dropped {
    /// They have left. These entries record it.
    Left(Vec<Entry>),
    /// They had already left, or no limit is exceeded anymore.
    Nothing,
    /// Signed reasoning of an open tool loop forbids a change now.
    Waits,
}

impl Session {
    /// Lets the messages of a refused summary leave the window without it. `end` is the end of the log of summaries,
    /// after the note of the refusal.
    pub(super) async fn drop_refused(&mut self, claim: &SummaryClaim, end: u64) -> Result<Dropped, Error> {
        let leave = |engine: &mut Engine| {
            let view = engine.view();
            let stands = view.summary_position() == claim.replaces
                && claim.covers.iter().all(|span| view.is_on_path(span))
                && !is_gone(claim, view);
            if !stands {
                return Ok(WindowOutcome::default());
            }
            let policy = without_summary(&engine.settings().policy, claim, view);
            Ok(engine.compact(&policy))
        };
        let written = self.commit(leave).await?;
        if written.outcome.plan.as_ref().is_some_and(|plan| plan.verdict == Verdict::Wait) {
            return Ok(Dropped::Waits);
        }
        self.report(&written);
        match drop_refused().append(&*self.store, &self.summaries.log, end).await {
            // Another session has recorded it.
            Err(StoreError::Conflict { .. }) => {}
            result => result?,
        }
        let entries = written.outcome.entries;
        Ok(if entries.is_empty() { Dropped::Nothing } else { Dropped::Left(entries) })
    }
}

/// Returns the policy by which the messages of a claim leave without a summary. It is the session's own, but drops
/// where that would summarize. So the previous summary stays, and an index lists the names in the dropped messages. The
/// messages after those of the claim stay for the next summary.
fn without_summary(policy: &Policy, claim: &SummaryClaim, view: &View) -> Policy {
    let mut policy = policy.clone();
    for stage in &mut policy.stages {
        if matches!(stage, Stage::Summarize(_)) {
            *stage = Stage::Drop;
        }
    }
    // The names in the dropped messages stay in the index.
    policy.index = policy.index.or(Some(Index::default()));
    let end = claim.covers.iter().map(|span| span.end).max().unwrap_or_default();
    let counts = |position| position >= end && Some(position) != view.summary_position();
    let later = view.messages().filter(|item| !item.is_note() && counts(item.position())).count() as u64;
    policy.keep.last = policy.keep.last.max(later);
    policy
}

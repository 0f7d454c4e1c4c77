//! Making a window smaller: by its policy, by another policy once, or because the provider refused it as too long.

use std::collections::{HashMap, HashSet};

use super::{Engine, HardLimitExceeded, WindowOutcome};
use crate::candidates::{Candidates, Kept, Sizing};
use crate::entry::{Entry, Repair};
use crate::group::{GroupKind, Pinned};
use crate::plan::{Demands, Plan, Reason, Verdict, excesses, is_bound, plan_for};
use crate::policy::{Keep, Limits, Mode, Policy, Stage};
use crate::totals::Totals;
use crate::view::{Item, View, ViewGroup};

/// How often a plan is made again because it removes lines that other messages refer to. After that, every message
/// shows its own lines.
const MOST_PLANS: usize = 8;

impl Engine {
    /// Checks the limits now, whatever the policy's pace, and compacts if one is exceeded. Call it at the end of a
    /// turn, when no user waits.
    ///
    /// It repairs nothing, and does nothing if the policy's mode is `on_read`.
    pub fn enforce_limits(&mut self) -> WindowOutcome {
        if self.waits() || self.policy.mode == Mode::OnRead {
            return WindowOutcome::default();
        }
        if let Some((policy, demands)) = self.due() {
            return self.reduce(&policy, demands);
        }
        let fits = self.policy.limits.fits(&self.totals()) && self.fits_hard(&self.totals());
        if fits { WindowOutcome::default() } else { self.reduce_by_policy() }
    }

    /// Makes the window smaller now, with this policy instead of the engine's, whatever its pace or mode.
    ///
    /// It repairs nothing: calls without results continue to wait for them.
    ///
    /// ```
    /// use lookback_engine::{Engine, Settings, policy::{Limits, Policy}};
    /// use lookback_wire::message::Message;
    ///
    /// let mut engine = Engine::new(Settings::default());
    /// for text in ["one", "two", "three"] {
    ///     engine.push(Message::user(text))?;
    /// }
    /// engine.compact(&Policy { limits: Limits::messages(1), ..Policy::unlimited() });
    /// assert_eq!(engine.view().messages().count(), 1);
    /// # Ok::<(), lookback_wire::dialect::ConversionError>(())
    /// ```
    pub fn compact(&mut self, policy: &Policy) -> WindowOutcome {
        let policy = Policy { mode: Mode::Recorded, ..self.settings.resolved(policy) };
        self.reduce(&policy, self.demands())
    }

    /// Makes the window smaller after the provider has refused it as too long, with the policy's stages for overflows,
    /// until it is within `limits`.
    ///
    /// If the verdict of the plan is not [`Verdict::Compact`], no group can be shortened or dropped anymore.
    pub fn overflow(&mut self, limits: Limits) -> WindowOutcome {
        let policy = Policy {
            limits,
            target: None,
            hard: Some(Limits::default()),
            stages: self.policy.overflow.clone(),
            mode: Mode::Recorded,
            ..self.policy.clone()
        };
        self.reduce(&policy, Demands { overflow: true, ..self.demands() })
    }

    /// Shortens the tool results of one round, and drops nothing. The round is the oldest that these stages make
    /// smaller, even if it is the open one.
    ///
    /// The outcome has no plan if there is no such round, or if signed reasoning of an open tool loop forbids a change.
    ///
    /// ```
    /// use lookback_engine::{Engine, Settings, policy::Stage};
    /// use lookback_wire::message::{Message, ToolCall};
    /// use lookback_tokens::cut::Truncation;
    ///
    /// let mut engine = Engine::new(Settings::default());
    /// engine.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")]))?;
    /// engine.push(Message::tool_result("c1", "long ".repeat(500)))?;
    /// let to = Truncation { head: 20, ..Truncation::default() };
    /// let stages = [Stage::TruncateResults { to, except_newest: 0 }];
    /// assert!(engine.shorten(&stages).plan.is_some());
    /// assert!(engine.shorten(&stages).plan.is_none());
    /// # Ok::<(), lookback_wire::dialect::ConversionError>(())
    /// ```
    pub fn shorten(&mut self, stages: &[Stage]) -> WindowOutcome {
        let mut outcome = WindowOutcome::default();
        if self.is_bound() {
            return outcome;
        }
        let policy = Policy { stages: stages.to_vec(), mode: Mode::Recorded, ..self.policy.clone() };
        let demands = Demands { overflow: true, ..self.demands() };
        let sizing = Sizing { policy: &policy, demands, ..self.sizing() };
        let (candidates, plan) = self.planned(sizing, |candidates| candidates.shorten(stages.len()));
        outcome.plan = plan;
        if let Some(plan) = &mut outcome.plan {
            let compaction = self.compaction(candidates, &policy, plan);
            self.record(Entry::Compaction(compaction), &mut outcome.entries);
            self.checkpoint_if_due(&mut outcome.entries);
        }
        outcome
    }

    /// Removes the notes that `leaves` selects from the window, whether or not the model has seen them. All other
    /// messages stay, and the notes stay in the log.
    ///
    /// If signed reasoning of an open tool loop forbids a change, the notes stay until the next compaction.
    ///
    /// ```
    /// use lookback_engine::transcript::Origin;
    /// use lookback_engine::{Engine, Settings};
    /// use lookback_wire::message::Message;
    ///
    /// let mut engine = Engine::new(Settings::default());
    /// engine.push(Message::user("Count to three."))?;
    /// engine.receive(Message::user("This is the last answer."), Origin::Lookback, None)?;
    /// engine.push(Message::assistant("One, two, three."))?;
    /// engine.dismiss(|note| note.message().text().contains("last answer"));
    /// assert_eq!(engine.view().messages().count(), 2);
    /// # Ok::<(), lookback_wire::dialect::ConversionError>(())
    /// ```
    pub fn dismiss(&mut self, leaves: impl Fn(&Item) -> bool) -> Vec<Entry> {
        let leaves = |item: &Item| item.is_note() && leaves(item);
        let spent = |group: &ViewGroup| group.kind == GroupKind::Note && group.items.iter().all(leaves);
        if !self.view.groups().iter().any(spent) {
            return Vec::new();
        }
        self.take_out(self.policy.keep, |candidates, view| {
            candidates.without(|index| view.groups().get(index).filter(|group| spent(group)).map(|_| Reason::Spent))
        })
    }

    /// Carries out a plan that removes whole groups. `keep` determines which candidates are pinned. Does nothing if
    /// signed reasoning of an open tool loop forbids a change.
    pub(super) fn take_out(&mut self, keep: Keep, plan: impl Fn(&Candidates, &View) -> Option<Plan>) -> Vec<Entry> {
        let mut entries = Vec::new();
        if self.is_bound() {
            return entries;
        }
        // Without stages nothing is shortened, so nothing has to be measured.
        let policy = Policy { keep, stages: Vec::new(), mode: Mode::Recorded, ..self.policy.clone() };
        let sizing = Sizing { policy: &policy, ..self.sizing() };
        let (candidates, plan) = self.planned(sizing, |candidates| plan(candidates, &self.view));
        if let Some(mut plan) = plan {
            self.carry_out(candidates, &policy, &mut plan, &mut entries);
        }
        entries
    }

    /// Returns the pinned parts of the window, with sizes.
    pub fn pinned(&self) -> Vec<Pinned> {
        Candidates::new(&self.view, self.sizing()).pinned()
    }

    pub(super) fn reduce_by_policy(&mut self) -> WindowOutcome {
        let policy = self.policy.clone();
        self.reduce(&policy, self.demands())
    }

    pub(super) fn reduce(&mut self, policy: &Policy, demands: Demands) -> WindowOutcome {
        let mut outcome = WindowOutcome::default();
        let (candidates, mut plan) = self.planned_by(policy, demands);
        match plan.verdict {
            Verdict::Keep | Verdict::Wait => {}
            Verdict::Refuse => {
                let pinned = candidates.pinned();
                let waits = is_bound(&candidates.groups, policy);
                outcome.exceeded = Some(HardLimitExceeded { excesses: plan.over.clone(), pinned, waits });
            }
            Verdict::Summarize => outcome.summary_request = self.summary_request(&candidates, &plan, policy),
            Verdict::Compact => {
                if demands.drops || !policy.hard.unwrap_or_default().fits(&plan.before) {
                    // There is no time to wait for a summary, but the dropped messages can still be summarized later.
                    outcome.summary_request = self.summary_request(&candidates, &plan, policy);
                }
                self.carry_out(candidates, policy, &mut plan, &mut outcome.entries);
                // The plan does not include the opening that the window may need afterwards.
                for entry in &outcome.entries {
                    if let Entry::Repair(Repair::Opening { size, .. }) = entry {
                        let size = self.sizing().corrected(*size);
                        let body = plan.after.body.saturating_add(size.tokens);
                        let opened = Totals { size: plan.after.size + size, body, ..plan.after };
                        plan.over = excesses(policy, &opened);
                    }
                }
            }
        }
        outcome.plan = Some(plan);
        outcome
    }

    /// Makes the plan of a policy.
    pub(super) fn planned_by(&self, policy: &Policy, demands: Demands) -> (Candidates, Plan) {
        let plan = |candidates: &Candidates| plan_for(&candidates.groups, policy, demands);
        let planned = |sizing| {
            let (candidates, planned) = self.planned(sizing, |candidates| Some(plan(candidates)));
            let plan = planned.unwrap_or_else(|| plan(&candidates));
            (candidates, plan)
        };
        let sizing = Sizing { policy, demands, ..self.sizing() };
        let keeps = policy.keep.people > 0 || policy.keep.work;
        if !keeps || demands.overflow || self.is_bound() {
            return planned(sizing);
        }
        let kept = Kept::choose(&self.view, sizing);
        let (candidates, made) = planned(Sizing { kept: Some(&kept), ..sizing });
        // A hard limit comes before them.
        if made.verdict == Verdict::Refuse { planned(sizing) } else { (candidates, made) }
    }

    /// Makes a plan. If it removes lines that kept messages refer to, those messages show the lines themselves, which
    /// can make them larger. If the window would then exceed a limit, the plan is made again.
    pub(super) fn planned(
        &self,
        sizing: Sizing<'_>,
        plan: impl Fn(&Candidates) -> Option<Plan>,
    ) -> (Candidates, Option<Plan>) {
        let (mut lost, mut anew) = (HashSet::new(), HashMap::new());
        let mut candidates = Candidates::new(&self.view, sizing);
        for _ in 0..MOST_PLANS {
            let plan = plan(&candidates);
            let measured = Sizing { anew: Some(&anew), ..sizing };
            let more = plan.as_ref().map_or_else(HashSet::new, |plan| candidates.lost(&self.view, plan, measured));
            if more.is_subset(&lost) {
                return (candidates, plan);
            }
            lost.extend(more);
            anew = self.reshown(Some(&lost));
            candidates = Candidates::new(&self.view, Sizing { anew: Some(&anew), ..sizing });
            let again = plan.and_then(|plan| candidates.carried_over(plan, sizing.policy));
            if again.is_some() {
                return (candidates, again);
            }
        }
        let anew = self.reshown(None);
        let candidates = Candidates::new(&self.view, Sizing { anew: Some(&anew), ..sizing });
        let plan = plan(&candidates);
        (candidates, plan)
    }

    pub(super) fn carry_out(
        &mut self,
        candidates: Candidates,
        policy: &Policy,
        plan: &mut Plan,
        entries: &mut Vec<Entry>,
    ) {
        let compaction = self.compaction(candidates, policy, plan);
        let began = !self.needs_opening();
        self.record(Entry::Compaction(compaction), entries);
        // If the compaction removed a group of stale reasoning or a note at the beginning, the request may need an
        // opening.
        if began && self.needs_opening() {
            self.repair(entries);
        }
        self.checkpoint_if_due(entries);
    }
}

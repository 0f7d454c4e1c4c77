//! The window of a model call, and previews of it that record nothing.

use std::borrow::Cow;

use super::{Engine, ExplainedGroup, Explanation, WindowOutcome};
use crate::entry::{Entry, Position};
use crate::policy::Mode;
use crate::view::{Item, View};

impl Engine {
    /// Prepares the window for a model call: repairs messages that cannot be sent, and compacts if a limit is exceeded.
    ///
    /// The window is then [`Engine::view`], or [`WindowOutcome::on_read`] if that is present. If no limit is exceeded,
    /// the cost does not depend on the length of the window, unless only the head makes the window larger than a limit
    /// on the body.
    pub fn window(&mut self) -> WindowOutcome {
        let outcome = match self.policy.mode {
            Mode::Recorded => self.repair_and_reduce(),
            Mode::OnRead if self.needs_nothing() => WindowOutcome::default(),
            Mode::OnRead => {
                let mut draft = self.clone();
                let mended = draft.repair_and_reduce();
                let on_read = (!mended.entries.is_empty()).then(|| Box::new(draft.view));
                WindowOutcome { entries: Vec::new(), summary_request: None, on_read, ..mended }
            }
        };
        self.reported_cold = false;
        outcome
    }

    fn repair_and_reduce(&mut self) -> WindowOutcome {
        let mut entries = Vec::new();
        self.repair(&mut entries);
        self.take_outdated(&mut entries);
        let reduced = self.reduce_if_due();
        let mut outcome = WindowOutcome { entries: [entries, reduced.entries].concat(), ..reduced };
        // Last, because a compaction may change the end of the request.
        if let Some(repair) = self.trim(&self.view) {
            self.record(Entry::Repair(repair), &mut outcome.entries);
        }
        outcome
    }

    /// Makes the window smaller if a limit is exceeded.
    fn reduce_if_due(&mut self) -> WindowOutcome {
        match self.due() {
            Some((policy, demands)) if !self.waits() => self.reduce(&policy, demands),
            _ => WindowOutcome::default(),
        }
    }

    /// Returns whether the window can be sent unchanged.
    fn needs_nothing(&self) -> bool {
        self.is_mended() && self.due().is_none()
    }

    /// Returns whether the provider would accept the view unchanged, limits aside.
    fn is_mended(&self) -> bool {
        let repaired = self.view.open_calls().is_empty() && !self.view.outdated() && !self.needs_opening();
        repaired && self.trim(&self.view).is_none()
    }

    /// Returns the window that could be sent now: the view, with repairs of everything that the provider would refuse.
    ///
    /// This records nothing, so a call without a result continues to wait for it. The limits are not checked.
    ///
    /// ```
    /// use lookback_engine::{Engine, Settings};
    /// use lookback_wire::message::{Message, ToolCall};
    ///
    /// let mut engine = Engine::new(Settings::default());
    /// engine.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")]))?;
    /// assert_eq!(engine.preview().messages().count(), 2);
    /// engine.push(Message::tool_result("c1", "the real result"))?;
    /// assert_eq!(engine.preview().messages().last().unwrap().message().tool_results().count(), 1);
    /// assert_eq!(engine.preview().messages().count(), 2);
    /// # Ok::<(), lookback_wire::dialect::ConversionError>(())
    /// ```
    pub fn preview(&self) -> Cow<'_, View> {
        if self.is_mended() {
            return Cow::Borrowed(&self.view);
        }
        let (mut draft, mut entries) = (self.clone(), Vec::new());
        draft.repair(&mut entries);
        draft.take_outdated(&mut entries);
        if let Some(repair) = draft.trim(&draft.view) {
            draft.record(Entry::Repair(repair), &mut entries);
        }
        Cow::Owned(draft.view)
    }

    /// Returns the window within the limits, to inspect a conversation in the middle of a turn.
    ///
    /// The tool calls of the newest message get no stand-ins, because their results are still to come. Everything else
    /// that the provider would refuse is repaired. This records nothing. If no call waits for a result, this is the
    /// window that a policy in the mode `on_read` gives.
    ///
    /// ```
    /// use lookback_engine::{Engine, Settings, policy::{Limits, Policy}};
    /// use lookback_wire::message::{Message, ToolCall};
    ///
    /// let policy = Policy { limits: Limits::messages(2), ..Policy::unlimited() };
    /// let mut engine = Engine::new(Settings::default().policy(policy));
    /// engine.push(Message::user("What is in notes.txt?"))?;
    /// engine.push(Message::assistant_with_calls("", [ToolCall::new("c1", "read", "{}")]))?;
    /// assert_eq!(engine.glance().messages().count(), 2);
    /// // Nobody will answer this call anymore, so it has a stand-in.
    /// engine.push(Message::user("Never mind."))?;
    /// let glance = engine.glance();
    /// assert_eq!(glance.messages().filter(|item| item.is_own()).count(), 1);
    /// # Ok::<(), lookback_wire::dialect::ConversionError>(())
    /// ```
    pub fn glance(&self) -> Cow<'_, View> {
        let newest = self.view.groups().last().and_then(|group| group.items.first()).map(Item::position);
        let is_over = |position: Position| Some(position) != newest;
        let mended = self.view.open_calls().iter().all(|call| !is_over(call.position))
            && !self.view.outdated()
            && !self.needs_opening()
            && self.trim(&self.view).is_none();
        if mended && self.due().is_none() {
            return Cow::Borrowed(&self.view);
        }
        let (mut draft, mut entries) = (self.clone(), Vec::new());
        draft.repair_where(is_over, &mut entries);
        draft.take_outdated(&mut entries);
        draft.reduce_if_due();
        if let Some(repair) = draft.trim(&draft.view) {
            draft.record(Entry::Repair(repair), &mut entries);
        }
        Cow::Owned(draft.view)
    }

    /// Returns the plan for the current window, whether or not a limit is exceeded, and the entries of each group.
    pub fn explain(&self) -> Explanation {
        let (policy, demands) = self.due().unwrap_or_else(|| (self.policy.clone(), self.demands()));
        let (candidates, plan) = self.planned_by(&policy, demands);
        let spans = candidates.spans(&self.view);
        let explained = |(decision, entries)| ExplainedGroup { decision, entries };
        Explanation {
            verdict: plan.verdict,
            groups: plan.decisions.into_iter().zip(spans).map(explained).collect(),
            before: plan.before,
            after: plan.after,
            over: plan.over,
            occasion: plan.occasion,
        }
    }
}

//! A session to be shown: its timeline, and what is shown beside it.

use lookback_content::text::number;
use lookback_replay::prices::Price;
use lookback_replay::timeline::Timeline;

use crate::known::KnownFact;
use crate::requests::Requests;

/// A session to be shown.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Story<'a> {
    /// The name of the session.
    pub(crate) name: &'a str,
    /// What each of its calls saw.
    pub(crate) timeline: &'a Timeline,
    /// The prices of its costs.
    pub(crate) price: &'a Price,
    /// The policy, if it is known.
    pub(crate) policy: Option<&'a str>,
    /// The same session under other policies.
    pub(crate) alternatives: Vec<Alternative<'a>>,
    /// The exact requests.
    pub(crate) requests: Option<&'a Requests>,
    /// The facts of the session.
    pub(crate) facts: Vec<KnownFact>,
    /// A policy that somebody tries out, if the page is served.
    pub(crate) trial: Option<Trial>,
    /// Where the contents of messages are.
    pub(crate) parts: Parts,
    /// Whether the page has links to what may be [changed](crate::Change).
    pub(crate) may_edit: bool,
    /// The call that is shown first. Without one, it is the newest.
    pub(crate) call: Option<u64>,
}

/// A policy that somebody tries out.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// The policy, as it was given.
    pub text: String,
    /// The policy as TOML, to be copied.
    pub toml: Option<String>,
    /// What is wrong with it.
    pub fault: Option<String>,
}

/// Where a page has the contents of messages from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Parts {
    /// They are in it.
    #[default]
    Packed,
    /// They are in it if they are few. Otherwise, a server gives those of a message when it is opened, at
    /// `part?name=NAME&edition=EDITION&row=ROW`, and those of all without a row. It gives requests at
    /// `request?name=NAME&call=CALL`. At `live?name=NAME`, it tells the edition of the log whenever it changes.
    Served {
        /// The edition of the log that the page was made from.
        edition: String,
    },
}

/// The same session under another policy.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Alternative<'a> {
    /// The policy, as it was given.
    pub policy: &'a str,
    /// What each of its calls would have seen.
    pub timeline: &'a Timeline,
}

/// Whether a page has the contents of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// They are in it.
    Shown,
    /// They are left out, with names of tools, identifiers and requests. Sizes, roles, decisions and reasons stay.
    Masked,
}

impl<'a> Story<'a> {
    /// Creates the story of a session.
    pub fn new(name: &'a str, timeline: &'a Timeline, price: &'a Price) -> Story<'a> {
        Story {
            name,
            timeline,
            price,
            policy: None,
            alternatives: Vec::new(),
            requests: None,
            facts: Vec::new(),
            trial: None,
            parts: Parts::Packed,
            may_edit: false,
            call: None,
        }
    }

    /// Sets the policy under which the session was made.
    #[must_use]
    pub fn with_policy(self, policy: &'a str) -> Story<'a> {
        Story { policy: Some(policy), ..self }
    }

    /// Shows the same session under another policy beside it.
    #[must_use]
    pub fn with_alternative(mut self, policy: &'a str, timeline: &'a Timeline) -> Story<'a> {
        self.alternatives.push(Alternative { policy, timeline });
        self
    }

    /// Adds the exact requests, to be copied.
    #[must_use]
    pub fn with_requests(self, requests: &'a Requests) -> Story<'a> {
        Story { requests: Some(requests), ..self }
    }

    /// Adds the facts of the session.
    #[must_use]
    pub fn with_facts(self, facts: Vec<KnownFact>) -> Story<'a> {
        Story { facts, ..self }
    }

    /// Lets policies be tried out, and shows the one that is.
    #[must_use]
    pub fn with_trial(self, trial: Trial) -> Story<'a> {
        Story { trial: Some(trial), ..self }
    }

    /// Sets where the contents of messages are.
    #[must_use]
    pub fn with_parts(self, parts: Parts) -> Story<'a> {
        Story { parts, ..self }
    }

    /// Adds links to the pages that ask whether something is to be [changed](crate::Change).
    #[must_use]
    pub fn with_edits(self) -> Story<'a> {
        Story { may_edit: true, ..self }
    }

    /// Shows this call first.
    #[must_use]
    pub fn at(self, call: u64) -> Story<'a> {
        Story { call: Some(call), ..self }
    }

    /// The number of the newest call, or 1.
    pub(crate) fn newest_call(&self) -> u64 {
        (self.timeline.calls.len() as u64).max(1)
    }

    /// The number of the call that is shown first.
    pub(crate) fn first_call(&self) -> u64 {
        self.call.unwrap_or(u64::MAX).clamp(1, self.newest_call())
    }

    /// Says in a sentence what the session did.
    pub(crate) fn sentence(&self) -> String {
        let total = &self.timeline.total;
        let messages = self.timeline.rows.iter().filter(|row| row.kind.name().is_none()).count();
        let counted =
            |count: u64, one: &str, more: &str| format!("{} {}", number(count), if count == 1 { one } else { more });
        format!(
            "{}, {}, {}",
            counted(messages as u64, "message", "messages"),
            counted(total.calls, "model call", "model calls"),
            counted(total.compactions, "compaction", "compactions"),
        )
    }
}

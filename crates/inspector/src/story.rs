//! A session to be shown: its timeline and everything else on its page.

use lookback_content::text::number;
use lookback_replay::lost::ClientCompaction;
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
    /// The timeline: what each call saw.
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
    /// The client's own compactions.
    pub(crate) by_client: Vec<ClientCompaction>,
    /// Other sessions that may be the same conversation, each with the number of messages that both begin with. Only for
    /// served pages.
    pub(crate) related: Vec<(String, u64)>,
    /// A policy to try out. Only for served pages.
    pub(crate) trial: Option<Trial>,
    /// Where the page gets the contents of messages.
    pub(crate) parts: Parts,
    /// Whether the page has links to [changes](crate::Change).
    pub(crate) may_edit: bool,
    /// The call that is shown first. `None` for the newest.
    pub(crate) call: Option<u64>,
}

/// A policy that a user tries out.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// The policy as it was entered.
    pub text: String,
    /// The policy as TOML, for copying.
    pub toml: Option<String>,
    /// The error of the policy, if it has one.
    pub fault: Option<String>,
}

/// Where a page gets the contents of messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Parts {
    /// The page contains them.
    #[default]
    Packed,
    /// The page contains small contents. Otherwise, a server provides those of a message when it is opened, at
    /// `part?name=NAME&edition=EDITION&row=ROW`, and all contents without a row. It provides requests at
    /// `request?name=NAME&call=CALL`. At `live?name=NAME`, it sends the edition of the log whenever it changes.
    Served {
        /// The edition of the log from which the page was made.
        edition: String,
    },
}

/// The same session under another policy.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Alternative<'a> {
    /// The policy as it was given.
    pub policy: &'a str,
    /// The timeline: what each call would have seen.
    pub timeline: &'a Timeline,
}

/// Whether a page shows the contents of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// The page shows them.
    Shown,
    /// The page omits them, including tool names, identifiers and requests. It keeps sizes, roles, decisions and
    /// reasons.
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
            by_client: Vec::new(),
            related: Vec::new(),
            trial: None,
            parts: Parts::Packed,
            may_edit: false,
            call: None,
        }
    }

    /// Sets the policy of the session.
    #[must_use]
    pub fn with_policy(self, policy: &'a str) -> Story<'a> {
        Story { policy: Some(policy), ..self }
    }

    /// Adds the same session under another policy, for comparison.
    #[must_use]
    pub fn with_alternative(mut self, policy: &'a str, timeline: &'a Timeline) -> Story<'a> {
        self.alternatives.push(Alternative { policy, timeline });
        self
    }

    /// Adds the exact requests, for copying.
    #[must_use]
    pub fn with_requests(self, requests: &'a Requests) -> Story<'a> {
        Story { requests: Some(requests), ..self }
    }

    /// Adds the facts of the session.
    #[must_use]
    pub fn with_facts(self, facts: Vec<KnownFact>) -> Story<'a> {
        Story { facts, ..self }
    }

    /// Adds the client's own compactions.
    #[doc(hidden)]
    #[must_use]
    pub fn with_client_compactions(self, by_client: Vec<ClientCompaction>) -> Story<'a> {
        Story { by_client, ..self }
    }

    /// Adds links to other sessions that may be the same conversation, each with the number of messages that both begin with.
    #[doc(hidden)]
    #[must_use]
    pub fn with_related(self, sessions: Vec<(String, u64)>) -> Story<'a> {
        Story { related: sessions, ..self }
    }

    /// Adds a form for trying out policies, with the last one tried.
    #[must_use]
    pub fn with_trial(self, trial: Trial) -> Story<'a> {
        Story { trial: Some(trial), ..self }
    }

    /// Sets where the page gets the contents of messages.
    #[must_use]
    pub fn with_parts(self, parts: Parts) -> Story<'a> {
        Story { parts, ..self }
    }

    /// Adds links to the pages that ask for confirmation of [changes](crate::Change).
    #[must_use]
    pub fn with_edits(self) -> Story<'a> {
        Story { may_edit: true, ..self }
    }

    /// Shows this call first.
    #[must_use]
    pub fn at(self, call: u64) -> Story<'a> {
        Story { call: Some(call), ..self }
    }

    /// Returns the number of the newest call, or 1 if there is none.
    pub(crate) fn newest_call(&self) -> u64 {
        (self.timeline.calls.len() as u64).max(1)
    }

    /// Returns the number of the call that is shown first.
    pub(crate) fn first_call(&self) -> u64 {
        self.call.unwrap_or(u64::MAX).clamp(1, self.newest_call())
    }

    /// Returns the numbers of messages, calls and compactions as a text.
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

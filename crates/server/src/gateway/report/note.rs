//! What the gateway did with a request, for the headers of its answer and for the log.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use lookback_conversation::Relation;
use lookback_engine::plan::Reason;
use lookback_engine::totals::Excess;
use lookback_engine::transcript::Entry;
use lookback_engine::view::{Item, View};
use lookback_wire::edit::{Change, Edit};
use lookback_wire::message::Role;
use serde::Serialize;

use crate::gateway::http::headers;

/// What a gateway did with a request.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Note {
    /// The session that the request belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How the request relates to the session: `new`, `continued`, `edited` or `rewritten`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<Relation>,
    /// The tokens of the window, by Lookback's count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// What was left out or shortened, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// The compaction, if this request caused one. Later requests are cut in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Compacted>,
    /// What would have been sent, if the gateway only watches.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Box<Shadowed>>,
    /// Whether the session is held out: it is sent unchanged, for comparison.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held_out: bool,
    /// The reason that the request passed unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<Passed>,
    /// How often the window was made smaller because the upstream refused it as too long.
    pub overflows: u32,
    /// The number of the model's answers that the gateway kept and answered itself, because they called its tools.
    #[serde(skip_serializing_if = "is_zero")]
    pub asides: u32,
    /// Whether a history that the upstream refused was sent repaired.
    pub repaired: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The reason that a request passes unchanged, and belongs to no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Passed(&'static str);

impl Passed {
    pub(crate) const ENCODED: Self = Passed("the body is compressed in an unknown way");
    /// The body is not a request of the dialect.
    pub(crate) const NOT_UNDERSTOOD: Self = Passed("not understood");
    /// A side call, for a title, a route, a fact or the like.
    pub(crate) const SIDE: Self = Passed("a call beside the conversation");
    /// The client compacts its history with this request.
    pub(crate) const COMPACTION: Self = Passed("a compaction by the client");
    pub(crate) const NO_USER: Self = Passed("no message of a user");
    /// No window would be accepted.
    pub(crate) const TOO_LONG: Self = Passed("what cannot leave the window exceeds the model's limit");
    /// The store failed, or did not answer in time.
    pub(crate) const STORE_FAILED: Self = Passed("the store failed");

    /// Creates the reason of a request that refers to something that the provider has stored, with this member.
    pub(crate) fn stored(member: &'static str) -> Self {
        Passed(member)
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// What a window leaves out, in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cut {
    /// The number of messages that were sent.
    pub sent: u64,
    /// The number of messages of the conversation.
    pub of: u64,
    /// The number of sent messages that were shortened.
    pub shortened: u64,
}

impl Cut {
    /// Returns what a view leaves out of its history, if anything.
    pub(crate) fn from_view(view: &View) -> Option<Cut> {
        let kept = || view.messages().filter(|item| !item.is_own() && !item.is_beside());
        (view.is_cut() || is_shortened(view)).then(|| Cut {
            sent: kept().count() as u64,
            of: view.history_len(),
            shortened: kept().filter(|item| !item.edits().is_empty()).count() as u64,
        })
    }
}

/// Returns whether a message is shown shortened, so that the request has to be written anew each time. A repair keeps
/// nothing of a text that it replaces.
pub(crate) fn is_shortened(view: &View) -> bool {
    let shortens = |edit: &Edit| matches!(&edit.change, Change::Cut { cut, .. } if cut.head > 0 || cut.tail > 0);
    let is_models = |item: &&Item| item.message().role() == Role::Assistant;
    view.messages().filter(|item| !is_models(item)).any(|item| item.edits().iter().any(shortens))
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} messages sent", self.sent, self.of)?;
        match self.shortened {
            0 => Ok(()),
            shortened => write!(f, ", {shortened} of them shortened"),
        }
    }
}

/// A compaction: its sizes and its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Compacted {
    /// The tokens of the window before the compaction, by Lookback's count.
    pub before: u64,
    /// The tokens of the window after the compaction.
    pub after: u64,
    /// The limit that was exceeded. `None` if the upstream refused the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<Excess>,
}

impl Compacted {
    /// Returns the sizes and the cause of a compaction. `None` for other entries.
    pub(crate) fn from_entry(entry: &Entry) -> Option<Compacted> {
        let Entry::Compaction(compaction) = entry else { return None };
        let reasons = || compaction.groups.iter().map(|group| group.decision.reason);
        // Some groups leave for a target alone, in a measure whose limit is not exceeded.
        let limit = reasons().find(|reason| matches!(reason, Reason::Exceeded { limit, target, .. } if limit > target));
        let exceeded = limit.into_iter().chain(reasons()).find_map(|reason| match reason {
            Reason::Exceeded { measure, actual, limit, .. } => Some(Excess::new(measure, actual, limit)),
            _ => None,
        });
        Some(Compacted { before: compaction.before.size.tokens, after: compaction.after.size.tokens, exceeded })
    }
}

impl fmt::Display for Compacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {} tokens", self.before, self.after)?;
        match self.exceeded {
            Some(Excess { measure, actual, limit, .. }) => write!(f, ", because {actual} {measure} exceed {limit}"),
            None => Ok(()),
        }
    }
}

/// The window of a request that was sent as it came.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Shadowed {
    /// Its tokens, by Lookback's count.
    pub window: u64,
    /// What it leaves out or shortens, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// The compaction, if this request would have caused one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Compacted>,
}

impl fmt::Display for Shadowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.window)?;
        self.cut.map_or(Ok(()), |cut| write!(f, ", {cut}"))?;
        self.compacted.map_or(Ok(()), |compacted| write!(f, " (would compact {compacted})"))
    }
}

impl Note {
    /// Creates the note of a request that passed unchanged.
    pub(crate) fn passed(why: Passed) -> Note {
        Note { passed: Some(why), ..Note::default() }
    }

    /// Returns the set fields as names and values.
    fn fields(&self) -> impl Iterator<Item = (&'static str, String)> {
        let fields = [
            // A name may contain characters that headers do not allow.
            ("session", self.session.as_ref().map(|name| name.escape_default().to_string())),
            ("line", self.line.map(|how| how.to_string())),
            ("window", self.window.map(|tokens| format!("{tokens} tokens"))),
            ("cut", self.cut.map(|cut| cut.to_string())),
            ("compacted", self.compacted.map(|compacted| compacted.to_string())),
            ("shadow", self.shadow.as_ref().map(|shadow| shadow.to_string())),
            ("held-out", self.held_out.then(|| "yes".to_owned())),
            ("passed", self.passed.map(|why| why.to_string())),
            ("overflows", (self.overflows > 0).then(|| self.overflows.to_string())),
            ("asides", (self.asides > 0).then(|| self.asides.to_string())),
            ("repaired", self.repaired.then(|| "yes".to_owned())),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// Adds the note to the headers of an answer.
    pub(crate) fn write(&self, answer: &mut HeaderMap) {
        for (name, value) in self.fields() {
            let name = HeaderName::try_from(format!("{}{name}", headers::OWN));
            if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
                answer.insert(name, value);
            }
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields().try_for_each(|(name, value)| write!(f, "; {name}: {value}"))
    }
}

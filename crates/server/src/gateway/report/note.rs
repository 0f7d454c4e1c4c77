//! What the gateway did with a request, told in headers of its answer and in the log.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use lookback_conversation::Relation;
use lookback_engine::totals::Excess;
use serde::{Serialize, Serializer};

use crate::gateway::http::headers;

/// What a gateway did with a request.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Note {
    /// The session that the request belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How it relates to the session: `new`, `continued`, `edited` or `rewritten`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<Relation>,
    /// The tokens of the window, by Lookback's count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// What was left out or shortened, if anything was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// The compaction, if this request made one. Those that follow are cut in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Compacted>,
    /// Whether the session is held out: it is sent as it comes, for comparison.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held_out: bool,
    /// Why the request passed as it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<Passed>,
    /// How often the window was made smaller because the upstream refused it as too long.
    pub overflows: u32,
    /// How many answers of the model the gateway kept, because they called tools of its own, and asked on.
    #[serde(skip_serializing_if = "is_zero")]
    pub asides: u32,
    /// Whether a history that the upstream refused was sent repaired.
    pub repaired: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Why a request passes as it came, and belongs to no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Passed {
    /// Its body is compressed in a way that cannot be read.
    Encoded,
    /// Its body is not a request of the dialect.
    NotUnderstood,
    /// It asks for a title, a route, a fact or the like.
    Side,
    /// The client compacts its history with it.
    Compaction,
    /// It names something that the provider has stored, with this member.
    Stored(&'static str),
    /// No message of it is from a user.
    NoUser,
    /// What cannot leave its window exceeds what the model takes, so no window would be accepted.
    TooLong,
    /// The store failed, or did not answer in time.
    StoreFailed,
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Passed::Encoded => "the body is compressed in an unknown way",
            Passed::NotUnderstood => "not understood",
            Passed::Side => "a call beside the conversation",
            Passed::Compaction => "a compaction by the client",
            Passed::Stored(member) => member,
            Passed::NoUser => "no message of a user",
            Passed::TooLong => "what cannot leave the window exceeds the model's limit",
            Passed::StoreFailed => "the store failed",
        })
    }
}

impl Serialize for Passed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a window leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cut {
    /// The messages that were sent.
    pub sent: u64,
    /// The messages of the conversation.
    pub of: u64,
    /// Those of the messages sent that were shortened.
    pub shortened: u64,
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

/// A compaction: how much it removed, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Compacted {
    /// The tokens of the window before, by Lookback's count.
    pub before: u64,
    /// The tokens of the window after.
    pub after: u64,
    /// The limit that was exceeded. `None` if the upstream refused the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<Excess>,
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

impl Note {
    /// Returns a note that a request passed as it came.
    pub(crate) fn passed(why: Passed) -> Note {
        Note { passed: Some(why), ..Note::default() }
    }

    /// Returns what there is to tell, as names and values.
    fn fields(&self) -> impl Iterator<Item = (&'static str, String)> {
        let fields = [
            // A name may have characters that no header has.
            ("session", self.session.as_ref().map(|name| name.escape_default().to_string())),
            ("line", self.line.map(|how| how.to_string())),
            ("window", self.window.map(|tokens| format!("{tokens} tokens"))),
            ("cut", self.cut.map(|cut| cut.to_string())),
            ("compacted", self.compacted.map(|compacted| compacted.to_string())),
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

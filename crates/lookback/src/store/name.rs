//! The names of logs: those that users give, and those of logs that are derived from a session.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A log's name: 1 to 200 characters, none of them a control character, and no part between `/`s that is empty, `.` or `..`.
///
/// So no name can leave the folder of a store that keeps files, whichever store it is used with.
///
/// ```
/// use lookback::LogName;
///
/// assert!("team/agent-7".parse::<LogName>().is_ok());
/// assert!("../secrets".parse::<LogName>().is_err());
/// assert!("a\0b".parse::<LogName>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LogName(String);

impl LogName {
    /// The most characters that a name may have. That of a derived log may have 16 more.
    pub const LONGEST: usize = 200;

    /// How a session's name ends that has the form of a summary's, as the sessions of `compat::crux` have it.
    const MESSAGES: &str = ":messages";

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The log in which the running summary of this session is kept.
    ///
    /// ```
    /// use lookback::LogName;
    ///
    /// let name: LogName = "chat-1".parse()?;
    /// assert_eq!(name.summary_of().as_str(), "compact:chat-1:summary");
    /// // Only so can it be had: nobody can give a session that name.
    /// assert!("compact:chat-1:summary".parse::<LogName>().is_err());
    /// # Ok::<(), lookback::store::BadName>(())
    /// ```
    #[must_use]
    pub fn summary_of(&self) -> LogName {
        Derived::Summary.name(&self.0)
    }

    /// Where version 0.1.0 kept the summary of a session that is named `compact:NAME:messages`: in the log of the session NAME.
    pub(crate) fn old_summary_of(&self) -> Option<LogName> {
        let (before, _) = Derived::Summary.around();
        let inner = self.0.strip_prefix(before)?.strip_suffix(LogName::MESSAGES)?;
        Some(Derived::Summary.name(inner))
    }

    /// The log in which the facts of this session are kept.
    ///
    /// ```
    /// use lookback::LogName;
    ///
    /// let name: LogName = "chat-1".parse()?;
    /// assert_eq!(name.facts_of().as_str(), "memory:chat-1:facts");
    /// assert!("memory:chat-1:facts".parse::<LogName>().is_err());
    /// # Ok::<(), lookback::store::BadName>(())
    /// ```
    #[must_use]
    pub fn facts_of(&self) -> LogName {
        Derived::Facts.name(&self.0)
    }

    /// The log in which the facts are kept that all sessions of the workspace of this name share.
    ///
    /// ```
    /// use lookback::LogName;
    ///
    /// let name: LogName = "shared".parse()?;
    /// assert_eq!(name.shared_of().as_str(), "memory:shared:shared");
    /// # Ok::<(), lookback::store::BadName>(())
    /// ```
    #[must_use]
    pub fn shared_of(&self) -> LogName {
        Derived::Shared.name(&self.0)
    }

    /// Whether it names a log that is derived from another. Such logs are no sessions, and no search finds what is in them.
    pub fn is_derived(&self) -> bool {
        self.derived().is_some()
    }

    /// What is kept in a derived log, and the name that it belongs to; `None` for a session's own.
    pub fn derived(&self) -> Option<(Derived, &str)> {
        derived(&self.0)
    }

    /// A name that stands in a file, which anyone may have written; `None` where no log has it.
    pub(super) fn found(name: &str) -> Option<LogName> {
        let mut session = name;
        while let Some((_, of)) = derived(session) {
            session = of;
        }
        // (`compact::messages` is a session's name, and its summary was once kept under that of no session.)
        let of_none = session.is_empty() && !name.is_empty();
        (of_none || session.parse::<LogName>().is_ok()).then(|| LogName(name.to_owned()))
    }

    /// A name that was checked when its log was written.
    #[cfg(feature = "sqlite")]
    pub(super) fn kept(name: String) -> LogName {
        LogName(name)
    }
}

/// What is kept in a derived log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Derived {
    /// The running summary of a session.
    Summary,
    /// The facts of a session.
    Facts,
    /// The facts that all sessions of a workspace share.
    Shared,
}

impl Derived {
    const ALL: [Derived; 3] = [Derived::Summary, Derived::Facts, Derived::Shared];

    /// What stands before and behind the name that such a log belongs to.
    fn around(self) -> (&'static str, &'static str) {
        match self {
            Derived::Summary => ("compact:", ":summary"),
            Derived::Facts => ("memory:", ":facts"),
            Derived::Shared => ("memory:", ":shared"),
        }
    }

    fn name(self, of: &str) -> LogName {
        let (before, after) = self.around();
        LogName(format!("{before}{of}{after}"))
    }
}

fn derived(name: &str) -> Option<(Derived, &str)> {
    let of = |derived: Derived| {
        let (before, after) = derived.around();
        Some((derived, name.strip_prefix(before)?.strip_suffix(after)?))
    };
    Derived::ALL.into_iter().find_map(of)
}

impl FromStr for LogName {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let length = name.chars().count();
        if length == 0 || length > LogName::LONGEST {
            return Err(BadName::Length { length });
        }
        if let Some(at) = name.chars().position(|c| c.is_control() || c == '\\') {
            return Err(BadName::Character { at });
        }
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(BadName::Path);
        }
        if let Some((derived, _)) = derived(name) {
            let (before, after) = derived.around();
            return Err(BadName::Reserved { before, after });
        }
        Ok(LogName(name.to_owned()))
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that no log may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// Too short or too long.
    #[error("a session's name has 1 to {} characters, not {length}", LogName::LONGEST)]
    Length {
        /// Its characters.
        length: usize,
    },
    /// A control character or a backslash.
    #[error("a session's name has no control characters and no backslash, but character {at} is one", at = .at + 1)]
    Character {
        /// Its index among the characters.
        at: usize,
    },
    /// A part that leaves the place it is in.
    #[error("no part of a session's name between slashes may be empty, `.` or `..`")]
    Path,
    /// The name of a derived log.
    #[error(
        "a session's name may not begin with `{before}` and end with `{after}`: so the logs are named that are kept beside one"
    )]
    Reserved {
        /// How it begins.
        before: &'static str,
        /// How it ends.
        after: &'static str,
    },
}

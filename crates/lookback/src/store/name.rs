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

    const BEFORE: &str = "compact:";
    const AFTER: &str = ":summary";
    /// How the log of messages of a session ends that is named as its summary is.
    const MESSAGES: &str = ":messages";

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The log in which the running summary of this one is kept: that of `compact:NAME:messages` has the name of that of `NAME`, and what
    /// is in it says whose it is.
    ///
    /// ```
    /// use lookback::LogName;
    ///
    /// let name: LogName = "chat-1".parse()?;
    /// assert_eq!(name.summary_of().as_str(), "compact:chat-1:summary");
    /// let name: LogName = "compact:chat-1:messages".parse()?;
    /// assert_eq!(name.summary_of().as_str(), "compact:chat-1:summary");
    /// // Only so can it be had: nobody can give a session that name.
    /// assert!("compact:chat-1:summary".parse::<LogName>().is_err());
    /// # Ok::<(), lookback::store::BadName>(())
    /// ```
    #[must_use]
    pub fn summary_of(&self) -> LogName {
        let inner = self.0.strip_prefix(LogName::BEFORE).and_then(|rest| rest.strip_suffix(LogName::MESSAGES));
        LogName(format!("{}{}{}", LogName::BEFORE, inner.unwrap_or(&self.0), LogName::AFTER))
    }

    /// Whether it names a log that is derived from another. Such logs are no sessions, and no search finds what is in them.
    pub fn is_derived(&self) -> bool {
        is_derived(&self.0)
    }

    /// A name that was checked when its log was written.
    #[cfg(feature = "sqlite")]
    pub(super) fn kept(name: String) -> LogName {
        LogName(name)
    }
}

fn is_derived(name: &str) -> bool {
    name.strip_prefix(LogName::BEFORE).is_some_and(|rest| rest.ends_with(LogName::AFTER))
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
        if is_derived(name) {
            return Err(BadName::Reserved);
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
        "a session's name may not begin with `{}` and end with `{}`: so the logs of summaries are named",
        LogName::BEFORE,
        LogName::AFTER
    )]
    Reserved,
}

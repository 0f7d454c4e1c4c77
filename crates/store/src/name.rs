//! The names of logs: those that users choose, and those that are derived from a session or a workspace.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A log's name: 1 to 200 characters without control characters and backslashes. No part between slashes may be empty,
/// `.` or `..`.
///
/// Therefore no name can lead out of the folder of a file store, and a name is valid for every kind of store.
///
/// ```
/// use lookback_store::LogName;
///
/// assert!("team/agent-7".parse::<LogName>().is_ok());
/// assert!("../secrets".parse::<LogName>().is_err());
/// assert!("a\0b".parse::<LogName>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LogName(String);

impl LogName {
    /// The most characters of a name. The name of a derived log may have 16 more.
    pub const LONGEST: usize = 200;

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the log with the running summary of this session.
    ///
    /// ```
    /// use lookback_store::LogName;
    ///
    /// let name: LogName = "chat-1".parse()?;
    /// assert_eq!(name.summary_of().as_str(), "compact:chat-1:summary");
    /// // The name is reserved: no session can have it.
    /// assert!("compact:chat-1:summary".parse::<LogName>().is_err());
    /// # Ok::<(), lookback_store::BadName>(())
    /// ```
    #[must_use]
    pub fn summary_of(&self) -> LogName {
        self.derive(Derived::Summary)
    }

    /// Returns the name of the log of this kind that belongs to this session, or to the workspace of this name.
    ///
    /// ```
    /// use lookback_store::LogName;
    /// use lookback_store::Derived;
    ///
    /// let name: LogName = "chat-1".parse()?;
    /// for derived in Derived::ALL {
    ///     assert_eq!(name.derive(derived).derived(), Some((derived, "chat-1")));
    /// }
    /// # Ok::<(), lookback_store::BadName>(())
    /// ```
    #[must_use]
    pub fn derive(&self, derived: Derived) -> LogName {
        derived.name(&self.0)
    }

    /// Returns the name of the log with the facts of this session.
    ///
    /// ```
    /// use lookback_store::LogName;
    ///
    /// let name: LogName = "chat-1".parse()?;
    /// assert_eq!(name.facts_of().as_str(), "memory:chat-1:facts");
    /// assert!("memory:chat-1:facts".parse::<LogName>().is_err());
    /// # Ok::<(), lookback_store::BadName>(())
    /// ```
    #[must_use]
    pub fn facts_of(&self) -> LogName {
        self.derive(Derived::Facts)
    }

    /// Returns the name of the log with the facts that all sessions of the workspace of this name share.
    ///
    /// ```
    /// use lookback_store::LogName;
    ///
    /// let name: LogName = "shared".parse()?;
    /// assert_eq!(name.shared_of().as_str(), "memory:shared:shared");
    /// # Ok::<(), lookback_store::BadName>(())
    /// ```
    #[must_use]
    pub fn shared_of(&self) -> LogName {
        self.derive(Derived::Shared)
    }

    /// Returns whether this is the name of a derived log. A derived log is not a session, and searches do not look into
    /// it.
    pub fn is_derived(&self) -> bool {
        self.derived().is_some()
    }

    /// Returns the kind of a derived log, and the name to which it belongs; `None` for a session's own log.
    pub fn derived(&self) -> Option<(Derived, &str)> {
        derived(&self.0)
    }

    /// Parses a stored name, of a session's own log or of a derived one; `None` if no log can have this name.
    ///
    /// It is for implementations of [`Store`](super::Store). For a name that a user has chosen, use `parse`, which
    /// refuses the names of derived logs.
    ///
    /// ```
    /// use lookback_store::LogName;
    ///
    /// let name: LogName = "chat-1".parse()?;
    /// assert_eq!(LogName::from_stored("memory:chat-1:facts"), Some(name.facts_of()));
    /// assert_eq!(LogName::from_stored("../secrets"), None);
    /// # Ok::<(), lookback_store::BadName>(())
    /// ```
    pub fn from_stored(name: &str) -> Option<LogName> {
        let session = session(name);
        // `compact::messages` is a valid session name. Its summary was once kept in a log whose name belongs to no
        // session.
        let of_none = session.is_empty() && !name.is_empty();
        (of_none || session.parse::<LogName>().is_ok()).then(|| LogName(name.to_owned()))
    }

    /// Returns the name of the session or workspace to which this log belongs.
    pub fn session(&self) -> LogName {
        LogName(session(&self.0).to_owned())
    }

    /// Wraps a stored name without a check. It was checked when its log was written.
    pub fn unchecked(name: String) -> LogName {
        LogName(name)
    }
}

/// The content of a derived log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Derived {
    /// The running summary of a session.
    Summary,
    /// The facts of a session.
    Facts,
    /// The facts that all sessions of a workspace share.
    Shared,
}

impl Derived {
    /// Every kind of derived log. A store contains only these and sessions' own logs, so code that lists, checks,
    /// copies or erases everything of a name iterates over them.
    pub const ALL: [Derived; 3] = [Derived::Summary, Derived::Facts, Derived::Shared];

    /// Returns whether such a log belongs to a session, and is erased with it. Shared facts outlive the sessions of
    /// their workspace.
    pub fn is_of_session(self) -> bool {
        match self {
            Derived::Summary | Derived::Facts => true,
            Derived::Shared => false,
        }
    }

    /// Returns the text before and after the name to which such a log belongs.
    fn around(self) -> (&'static str, &'static str) {
        match self {
            Derived::Summary => ("compact:", ":summary"),
            Derived::Facts => ("memory:", ":facts"),
            Derived::Shared => ("memory:", ":shared"),
        }
    }

    /// Returns the beginning of the names of such logs. Other names may begin with it, too.
    pub fn prefix(self) -> &'static str {
        self.around().0
    }

    fn name(self, of: &str) -> LogName {
        let (before, after) = self.around();
        LogName(format!("{before}{of}{after}"))
    }
}

/// Returns the session to which a log belongs. (A name in an old store may be derived from a derived name.)
fn session(name: &str) -> &str {
    derived(name).map_or(name, |(_, of)| session(of))
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
            return Err(NameFault::Length { length }.into());
        }
        if let Some(at) = name.chars().position(|c| c.is_control() || c == '\\') {
            return Err(NameFault::Character { at }.into());
        }
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(NameFault::Path.into());
        }
        if let Some((derived, _)) = derived(name) {
            let (before, after) = derived.around();
            return Err(NameFault::Reserved { before, after }.into());
        }
        Ok(LogName(name.to_owned()))
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An invalid name for a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct BadName(#[from] NameFault);

/// The reason of a [`BadName`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum NameFault {
    /// The name is too short or too long.
    #[error("a session's name has 1 to {} characters, not {length}", LogName::LONGEST)]
    Length { length: usize },
    /// The name contains a control character or a backslash.
    #[error("a session's name may not have control characters or backslashes, but character {at} is one", at = .at + 1)]
    Character { at: usize },
    /// A part of the name is empty, `.` or `..`.
    #[error("no part of a session's name between slashes may be empty, `.` or `..`")]
    Path,
    /// The name is reserved for a derived log.
    #[error("a session's name may not begin with `{before}` and end with `{after}`: Lookback reserves such names")]
    Reserved { before: &'static str, after: &'static str },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_derived_logs_has_all_of_them() {
        // A new kind does not compile until it has a place here, and then the list must have it, too.
        let place = |derived| match derived {
            Derived::Summary => 0,
            Derived::Facts => 1,
            Derived::Shared => 2,
        };
        let places: Vec<usize> = Derived::ALL.into_iter().map(place).collect();
        assert_eq!(places, [0, 1, 2]);
    }
}

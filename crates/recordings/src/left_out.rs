//! The lines of a log that are in no recording, and why.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// Why a line of an agent's log is not in a recording, or is not where the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The line is not JSON: it was cut, overwritten, or written into another one.
    Damaged,
    /// The line is a copy of another one.
    Copy,
    /// The message was edited, undone or tried again, so the model did not see it later.
    OtherBranch,
    /// The line is no message: settings, progress, or something that only the person saw.
    NoMessage,
    /// The line is of a kind that this version does not know.
    Unknown,
    /// The line follows one that is not in the file. It is read, as if it followed the line before it.
    #[doc(hidden)]
    NoParent,
    /// The file ends with an older branch. The newest one is read.
    #[doc(hidden)]
    OldEnd,
}

impl Reason {
    /// Returns whether the reason is worth a warning: something is wrong with the file, or with this version.
    #[doc(hidden)]
    pub fn is_fault(self) -> bool {
        matches!(self, Reason::Damaged | Reason::Unknown | Reason::NoParent | Reason::OldEnd)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Damaged => "damaged",
            Reason::Copy => "copies of others",
            Reason::OtherBranch => "edited or undone",
            Reason::NoMessage => "no messages",
            Reason::Unknown => "of an unknown kind",
            Reason::NoParent => "behind a line that is not in the file",
            Reason::OldEnd => "on an older branch at the end",
        })
    }
}

/// How many lines have a reason, and the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
#[non_exhaustive]
pub struct Lines {
    /// The number of lines.
    pub count: usize,
    /// The number of the first line, from 1. In a database, that of a row.
    pub first: usize,
}

/// The lines of a file that are in no recording, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<Reason, Lines>);

impl LeftOut {
    pub(crate) fn add(&mut self, reason: Reason, line: usize) {
        self.0.entry(reason).and_modify(|lines| lines.count += 1).or_insert(Lines { count: 1, first: line });
    }

    /// Iterates over the reasons, each with its lines.
    #[doc(hidden)]
    pub fn iter(&self) -> impl Iterator<Item = (Reason, Lines)> {
        self.0.iter().map(|(reason, lines)| (*reason, *lines))
    }

    /// Returns how many lines have this reason.
    pub fn of(&self, reason: Reason) -> usize {
        self.0.get(&reason).map_or(0, |lines| lines.count)
    }
}

impl fmt::Display for LeftOut {
    /// Writes the faults, such as `2 lines are damaged (the first is line 17)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.iter().filter(|(reason, _)| reason.is_fault());
        for (index, (reason, Lines { count, first })) in faults.enumerate() {
            let comma = if index > 0 { "; " } else { "" };
            match count {
                1 => write!(f, "{comma}line {first} is {reason}")?,
                _ => write!(f, "{comma}{count} lines are {reason} (the first is line {first})")?,
            }
        }
        Ok(())
    }
}

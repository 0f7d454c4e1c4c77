//! Recalled messages in the form that a model reads: as data, in which no line can pretend to be another message.

use std::fmt;
use std::ops::Range;

use lookback_engine::transcript::Position;

use super::{Recall, Recalled, RecalledPassage};
use lookback_content::text::is_unseen;

/// Escapes the invisible characters of a line, and those that would end the line.
pub(super) fn plain(line: &str) -> String {
    // Joiners and variation selectors are part of how some scripts and emoji are written.
    let stays = |c: char| !is_unseen(c) || matches!(c, '\t' | '\u{200c}' | '\u{200d}' | '\u{fe0f}');
    line.chars().map(|c| if stays(c) { c.to_string() } else { format!("\\u{{{:x}}}", u32::from(c)) }).collect()
}

impl fmt::Display for RecalledPassage {
    /// Writes a line with the number and the speaker, then each line of the text after `| `, so that none can pretend
    /// to be another message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = if self.left { ", on an abandoned branch" } else { "" };
        writeln!(f, "#{} {}{left}:", self.position, plain(&self.who))?;
        for line in self.text.lines() {
            writeln!(f, "| {}", plain(line))?;
        }
        let shown = self.text.chars().count() as u64;
        match &self.rest {
            Some(rest) => writeln!(f, "[{shown} of {} characters; the rest: recall {}]", self.length, arguments(rest)),
            None if shown == 0 => writeln!(f, "[no more text; it has {} characters]", self.length),
            None => Ok(()),
        }
    }
}

impl Recalled {
    /// Returns the text for the model about erased messages: a line for each span.
    pub fn erased_as_text(&self) -> String {
        let line = |span: &Range<Position>| match span.end.saturating_sub(1) {
            last if last == span.start => format!("[#{last} was erased, and cannot be recalled]\n"),
            last => format!("[#{} to #{last} were erased, and cannot be recalled]\n", span.start),
        };
        self.erased.iter().map(line).collect()
    }
}

impl fmt::Display for Recalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.erased_as_text())?;
        self.passages.iter().try_for_each(|passage| passage.fmt(f))?;
        match (&self.more, &self.asked) {
            (None, _) if !self.erased.is_empty() => Ok(()),
            (Some(more), _) => writeln!(f, "[more messages: recall {}]", arguments(more)),
            (None, _) if !self.passages.is_empty() => Ok(()),
            (None, _) if self.end == 0 => {
                writeln!(f, "[this session has no messages: nothing was said, or it was erased]")
            }
            (None, Recall::Query { .. }) => writeln!(f, "[no message has any of these words; use others]"),
            (None, Recall::Range { .. }) => {
                writeln!(
                    f,
                    "[there are no messages in this range; the numbers go from 0 to {}]",
                    self.end.saturating_sub(1)
                )
            }
            (None, Recall::Entry { entry, .. }) => writeln!(
                f,
                "[#{entry} is not a message; the numbers go from 0 to {}, and not all are messages; recall {}]",
                self.end.saturating_sub(1),
                arguments(&Recall::range(entry.saturating_sub(5), entry.saturating_add(5)))
            ),
        }
    }
}

/// Writes a request as the arguments of the tool.
fn arguments(recall: &Recall) -> String {
    plain(&serde_json::to_string(recall).unwrap_or_default())
}

//! The JSON values of a text, each with the number of its first line.

use lookback_content::json;
use serde_json::value::RawValue;

use crate::error::{RecordingError, RecordingFault};
use crate::left_out::{LeftOut, Reason};

/// Reads the elements of a list, one value per line, or pretty-printed values one after the other.
pub(crate) fn read(text: &str) -> Result<Vec<(usize, &RawValue)>, RecordingError> {
    if let Some(values) = whole(text) {
        return Ok(values);
    }
    if is_pretty(text) {
        let mut lines = Lines { text, at: 0, line: 1 };
        let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        return values
            .map(|value| match value {
                Ok(value) => Ok((lines.line_number(value), value)),
                Err(error) => Err(syntax(error.line(), error)),
            })
            .collect();
    }
    (1..)
        .zip(text.lines())
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(line, text)| match serde_json::from_str(text) {
            Ok(value) => Ok((line, value)),
            Err(error) => Err(syntax(line, error)),
        })
        .collect()
}

/// Reads the values of a log, and whatever is whole in its damaged lines. A process may have been killed in the middle
/// of a line, or two may have written at once.
pub(crate) fn salvage<'a>(text: &'a str, left_out: &mut LeftOut) -> Vec<(usize, &'a RawValue)> {
    if let Some(values) = whole(text) {
        return values;
    }
    if is_pretty(text)
        && let Ok(values) = read(text)
    {
        return values;
    }
    let mut values = Vec::new();
    let mut lines = (1_usize..).zip(text.split('\n')).peekable();
    while let Some((number, line)) = lines.next() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Ok(value) = serde_json::from_str(line) {
            values.push((number, value));
            continue;
        }
        // The last line of a log that is being written may be incomplete. It is not damaged.
        let is_growing = lines.peek().is_none() && is_torn(line);
        let found = values.len();
        let is_whole = pieces(line, |value| values.push((number, value)));
        // A line of NULs is one that a crash has emptied.
        let is_empty = is_whole && values.len() == found;
        if is_empty || !(is_whole || is_growing && values.len() == found) {
            left_out.add(Reason::Damaged, number);
        }
    }
    values
}

/// Returns the first values of a text, also of one that is damaged.
pub(crate) fn first(text: &str, count: usize) -> Vec<(usize, &RawValue)> {
    if let Some(values) = whole(text) {
        return values;
    }
    if is_pretty(text) {
        let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        let values: Vec<_> = values.map_while(Result::ok).take(count).map(|value| (0, value)).collect();
        if !values.is_empty() {
            return values;
        }
    }
    let mut values = Vec::new();
    for line in text.split('\n').take(count) {
        pieces(line.trim(), |value| values.push((0, value)));
    }
    values
}

/// Reads a text that is one value: the elements of a list, or any other value itself.
fn whole(text: &str) -> Option<Vec<(usize, &RawValue)>> {
    let whole: &RawValue = serde_json::from_str(text).ok()?;
    let values = json::array(whole).unwrap_or_else(|| vec![whole]);
    let mut lines = Lines { text, at: 0, line: 1 };
    Some(values.into_iter().map(|value| (lines.line_number(value), value)).collect())
}

/// Finds the whole objects in a line. Returns whether there is nothing else in it.
///
/// Behind a record that was cut, another one may begin without a line break, as in `{"a":"x{"b":1}`. A place is the
/// beginning of a record if an object begins there behind which the line ends, NULs follow, or another object.
fn pieces<'a>(line: &'a str, mut found: impl FnMut(&'a RawValue)) -> bool {
    // An object that never ends is read to the end of the line, so the work is bounded.
    let mut budget = line.len().saturating_mul(16).saturating_add(1 << 16);
    let (mut rest, mut is_whole) = (line, true);
    loop {
        rest = rest.trim_start_matches(|c: char| c == '\0' || c.is_whitespace());
        if rest.is_empty() {
            return is_whole;
        }
        if let Some((value, behind)) = object(rest) {
            found(value);
            rest = behind;
            continue;
        }
        is_whole = false;
        let mut next = None;
        for (at, _) in rest.match_indices("{\"").skip_while(|(at, _)| *at == 0) {
            let Some(behind) = rest.get(at..) else { break };
            let read = object(behind);
            budget = budget.saturating_sub(read.map_or(behind.len(), |(value, _)| value.get().len()));
            if read.is_some() || budget == 0 {
                next = read.map(|_| behind);
                break;
            }
        }
        let Some(behind) = next else { return false };
        rest = behind;
    }
}

/// Reads an object at the beginning of a text, if a record may end behind it. Returns what is behind it, too.
fn object(text: &str) -> Option<(&RawValue, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let value = values.next()?.ok().filter(|value| value.get().starts_with('{'))?;
    let behind = text.get(values.byte_offset()..)?;
    let is_end = behind.trim_start().is_empty() || behind.trim_start().starts_with(['\0', '{']);
    is_end.then_some((value, behind))
}

fn is_torn(line: &str) -> bool {
    serde_json::from_str::<&RawValue>(line).is_err_and(|error| error.is_eof())
}

/// Returns whether the first value continues on the next line.
fn is_pretty(text: &str) -> bool {
    let is_open = |line: &str| line.trim_end().ends_with(['{', '[', ',']) && parse_line(line).is_none();
    text.trim_start().lines().next().is_some_and(is_open)
}

fn parse_line(line: &str) -> Option<&RawValue> {
    serde_json::from_str(line).ok()
}

fn syntax(line: usize, error: serde_json::Error) -> RecordingError {
    RecordingFault::Syntax { line, fault: error.into() }.into()
}

/// Counts the lines before values. The values must be passed in order.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    /// Returns the line on which a value begins. Raw values are slices of the text, so the address gives the position.
    fn line_number(&mut self, value: &RawValue) -> usize {
        let at = (value.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let between = self.text.get(self.at..at).unwrap_or_default();
        self.line += between.bytes().filter(|byte| *byte == b'\n').count();
        self.at = self.at.max(at);
        self.line
    }
}

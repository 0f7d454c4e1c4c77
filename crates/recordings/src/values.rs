//! The JSON values of a text, each with the number of its first line.

use serde_json::value::RawValue;

use super::error::RecordingFault;
use super::{RecordingError, parse};

/// Reads the elements of a list, one value per line, or pretty-printed values one after the other.
pub(super) fn read(text: &str) -> Result<Vec<(usize, &RawValue)>, RecordingError> {
    let mut lines = Lines { text, at: 0, line: 1 };
    if let Ok(whole) = serde_json::from_str::<&RawValue>(text) {
        let values: Vec<&RawValue> =
            if whole.get().starts_with('[') { parse(whole).unwrap_or_default() } else { vec![whole] };
        return Ok(values.into_iter().map(|value| (lines.line_number(value), value)).collect());
    }
    if text.trim_start().lines().next().is_some_and(is_open) {
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

/// Reads a file that may still be growing. It ignores an incomplete last line.
pub(super) fn read_growing(text: &str) -> Result<Vec<(usize, &RawValue)>, RecordingError> {
    let torn = |line: &str| serde_json::from_str::<&RawValue>(line).is_err_and(|error| error.is_eof());
    match text.rsplit_once('\n') {
        Some((whole, last)) if !last.trim().is_empty() && torn(last) => read(whole),
        _ => read(text),
    }
}

/// Returns whether a line begins a value that continues on the next line.
fn is_open(line: &str) -> bool {
    line.trim_end().ends_with(['{', '[', ',']) && serde_json::from_str::<&RawValue>(line).is_err()
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

//! Which tool call belongs to which result.

use std::collections::HashMap;

use lookback_replay::timeline::Row;

/// The pairs of tool calls and tool results.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    /// The tool name and row of each call, by call identifier.
    calls: HashMap<String, (String, usize)>,
    /// The row of each result, by call identifier.
    results: HashMap<String, usize>,
}

impl Pairs {
    /// Finds the calls and results in rows.
    pub fn from_rows(rows: &[Row]) -> Pairs {
        let mut pairs = Pairs::default();
        for (index, row) in rows.iter().enumerate() {
            for (_, call) in row.message.tool_calls() {
                pairs.calls.entry(call.id.clone()).or_insert_with(|| (call.name.clone(), index));
            }
            for (_, result) in row.message.tool_results() {
                pairs.results.entry(result.call_id.clone()).or_insert(index);
            }
        }
        pairs
    }

    /// Returns the tool name and row of a call.
    pub(crate) fn call(&self, id: &str) -> Option<(&str, usize)> {
        self.calls.get(id).map(|(name, row)| (name.as_str(), *row))
    }

    /// Returns the row of the result of a call.
    pub(crate) fn result(&self, id: &str) -> Option<usize> {
        self.results.get(id).copied()
    }
}

//! Which tool call belongs to which result.

use std::collections::HashMap;

use lookback_replay::timeline::Row;

/// Which tool call belongs to which result.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    /// The tool and the row of each call.
    calls: HashMap<String, (String, usize)>,
    /// The row of each result.
    results: HashMap<String, usize>,
}

impl Pairs {
    /// Finds the calls and the results in rows.
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

    /// Returns the tool and the row of a call.
    pub(crate) fn call(&self, id: &str) -> Option<(&str, usize)> {
        self.calls.get(id).map(|(name, row)| (name.as_str(), *row))
    }

    /// Returns the row of the result of a call.
    pub(crate) fn result(&self, id: &str) -> Option<usize> {
        self.results.get(id).copied()
    }
}

//! Habits of a client that cost money. Each is reported once for a conversation.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use lookback_wire::dialect::Preamble;
use serde_json::Value;

/// The beginning of the block in which Claude Code names its version and a number that may differ for each request.
const BILLING: &str = "x-anthropic-billing-header:";
/// How many requests in a row show a habit.
const ROW: u32 = 3;
/// The input, in tokens, from which a provider could have cached something.
const CACHED_FROM: u64 = 4096;

/// A habit that costs money, and its cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// The system prompt or the tools change with each request.
    ChangingPreamble,
    /// The provider caches nothing, because the requests ask for no caching.
    NoMarkers,
}

impl Habit {
    /// Describes the habit and its cure.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Habit::ChangingPreamble => {
                "the system prompt or the tools changed with each of the last 3 requests, so the provider cannot cache \
                 them: put what changes, such as the time, into the newest message"
            }
            Habit::NoMarkers => {
                "the provider cached nothing of the last 3 requests, because they have no cache markers: set \
                 `cache_control`, or add `cache-markers`"
            }
        }
    }
}

/// The habits that a conversation has shown so far.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    preambles: Row,
    unmarked: Row,
    /// The preambles of the last two requests, by their digests. A client may change between two modes.
    known: [u64; 2],
}

/// How often something happened in a row, until it is reported.
#[derive(Debug, Default)]
struct Row {
    count: u32,
    is_told: bool,
}

impl Row {
    /// Counts a request. Returns whether this is to be reported now.
    fn count(&mut self, happened: bool) -> bool {
        self.count = if happened { self.count + 1 } else { 0 };
        let is_due = self.count >= ROW && !self.is_told;
        self.is_told |= is_due;
        is_due
    }
}

impl Habits {
    /// Counts a request of a conversation.
    pub(crate) fn asked(&mut self, preamble: &Preamble) -> Option<Habit> {
        let digest = digest(preamble);
        let changes = self.known.iter().all(|known| *known != 0) && !self.known.contains(&digest);
        self.known = [self.known[1], digest];
        self.preambles.count(changes).then_some(Habit::ChangingPreamble)
    }

    /// Counts an answer with its usage report. `lacks_markers` says whether the request could have had cache markers.
    pub(crate) fn answered(&mut self, lacks_markers: bool, input: Option<u64>, cached: Option<u64>) -> Option<Habit> {
        let is_long = input.is_some_and(|input| input >= CACHED_FROM);
        // Servers that cache by themselves may report nothing about it.
        self.unmarked.count(lacks_markers && is_long && cached == Some(0)).then_some(Habit::NoMarkers)
    }
}

/// Returns a digest of a preamble, without what clients change although it is cached, or cannot help.
fn digest(preamble: &Preamble) -> u64 {
    let mut hasher = DefaultHasher::new();
    for raw in [&preamble.system, &preamble.tools].into_iter().flatten() {
        let mut value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        for block in value.as_array_mut().into_iter().flatten() {
            if block["text"].as_str().is_some_and(|text| text.starts_with(BILLING)) {
                *block = Value::Null;
            } else if let Some(members) = block.as_object_mut() {
                members.remove("cache_control");
            }
        }
        value.to_string().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_habit_is_reported_once_after_three_requests_in_a_row() {
        let mut habits = Habits::default();
        let preamble = |text: &str| {
            let billing = format!("{BILLING} cch={text};");
            let system = json!([{"type": "text", "text": billing}, {"type": "text", "text": text.to_uppercase()}]);
            Preamble::default().with_system(serde_json::value::to_raw_value(&system).unwrap())
        };
        // Two modes, and what only Claude Code's first block changes, are no habit.
        for text in ["plan", "act", "plan", "Act", "PLAN"] {
            assert_eq!(habits.asked(&preamble(text)), None);
        }
        let told = ["one", "two", "three", "four", "five"].map(|text| habits.asked(&preamble(text)).is_some());
        assert_eq!(told, [false, false, true, false, false]);
        assert_eq!(habits.answered(true, Some(100), Some(0)), None);
        let told = [(); 4].map(|()| habits.answered(true, Some(9000), Some(0)));
        assert_eq!(told, [None, None, Some(Habit::NoMarkers), None]);
        assert_eq!(Habits::default().answered(true, Some(9000), Some(8000)), None);
    }
}

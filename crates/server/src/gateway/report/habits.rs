//! Habits of a client that cost money. Each is reported once for a conversation.

use serde::Serialize;

/// How many requests in a row show a habit.
const ROW: u32 = 3;
/// The input, in tokens, from which a provider could have cached something.
const CACHED_FROM: u64 = 4096;

/// A habit that costs money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Habit {
    /// The system prompt or the tools changed with each of the last 3 requests.
    ChangingPreamble,
    /// The provider cached nothing of the last 3 requests, because they have no cache markers.
    NoCacheMarkers,
}

/// The habits that a conversation has shown so far.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    preambles: Row,
    unmarked: Row,
    /// The digests of the preambles of the last two requests. A client may change between two modes.
    known: [Option<u128>; 2],
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
    /// Counts a request of a conversation, whose preamble has this [digest](lookback_wire::dialect::Preamble::cached_digest).
    pub(crate) fn asked(&mut self, preamble: u128) -> Option<Habit> {
        let changes = self.known.iter().all(|known| known.is_some_and(|known| known != preamble));
        self.known = [self.known[1], Some(preamble)];
        self.preambles.count(changes).then_some(Habit::ChangingPreamble)
    }

    /// Counts an answer with its usage report. `lacks_markers` says whether the request could have had cache markers.
    pub(crate) fn answered(&mut self, lacks_markers: bool, input: Option<u64>, cached: Option<u64>) -> Option<Habit> {
        let is_long = input.is_some_and(|input| input >= CACHED_FROM);
        // Servers that cache by themselves may report nothing about it.
        self.unmarked.count(lacks_markers && is_long && cached == Some(0)).then_some(Habit::NoCacheMarkers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_habit_is_reported_once_after_three_requests_in_a_row() {
        let mut habits = Habits::default();
        // Two modes are no habit.
        for preamble in [1, 2, 1, 2, 1] {
            assert_eq!(habits.asked(preamble), None);
        }
        let told = [3, 4, 5, 6, 7].map(|preamble| habits.asked(preamble).is_some());
        assert_eq!(told, [false, false, true, false, false]);
        assert_eq!(habits.answered(true, Some(100), Some(0)), None);
        let told = [(); 4].map(|()| habits.answered(true, Some(9000), Some(0)));
        assert_eq!(told, [None, None, Some(Habit::NoCacheMarkers), None]);
        assert_eq!(Habits::default().answered(true, Some(9000), Some(8000)), None);
    }
}

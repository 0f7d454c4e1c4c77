//! Habits of a client that cost money. Each is reported once for a conversation.

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
    /// Counts a later request of a conversation, whose preamble did or did not change.
    pub(crate) fn asked(&mut self, preamble_changed: bool) -> Option<Habit> {
        self.preambles.count(preamble_changed).then_some(Habit::ChangingPreamble)
    }

    /// Counts an answer with its usage report. `lacks_markers` says whether the request could have had cache markers.
    pub(crate) fn answered(&mut self, lacks_markers: bool, input: Option<u64>, cached: Option<u64>) -> Option<Habit> {
        let is_long = input.is_some_and(|input| input >= CACHED_FROM);
        let is_cached = cached.is_some_and(|cached| cached > 0);
        self.unmarked.count(lacks_markers && is_long && !is_cached).then_some(Habit::NoMarkers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_habit_is_reported_once_after_three_requests_in_a_row() {
        let mut habits = Habits::default();
        let told: Vec<bool> = [true, true, false, true, true, true, true, true, true]
            .map(|changed| habits.asked(changed).is_some())
            .to_vec();
        assert_eq!(told, [false, false, false, false, false, true, false, false, false]);
        assert_eq!(habits.answered(true, Some(100), Some(0)), None);
        let told = [(); 4].map(|()| habits.answered(true, Some(9000), Some(0)));
        assert_eq!(told, [None, None, Some(Habit::NoMarkers), None]);
        assert_eq!(Habits::default().answered(true, Some(9000), Some(8000)), None);
    }
}

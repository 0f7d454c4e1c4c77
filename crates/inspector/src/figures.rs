//! The figures of a session: what it sent, cost and missed. They are one line of the overview.

use std::collections::BTreeMap;

use lookback_engine::transcript::Millis;
use lookback_replay::receipt::PaidTotal;
use lookback_replay::timeline::{Fate, RowKind, Timeline};

/// The figures of a session.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// The number of model calls.
    pub calls: u64,
    /// The number of messages of the conversation.
    pub messages: u64,
    /// Input tokens, including system prompts and tools.
    pub sent_tokens: u64,
    /// Input tokens that were read from the cache.
    pub cache_read_tokens: u64,
    /// The cost of the input, in US dollars.
    pub cost: f64,
    /// The cost of the input without a window, in US dollars.
    pub cost_without_window: f64,
    /// The calls whose cost the provider reported.
    #[doc(hidden)]
    pub paid: PaidTotal,
    /// The number of compactions.
    pub compactions: u64,
    /// The number of calls that do not extend the previous call.
    pub prefix_breaks: u64,
    /// The number of messages that were repaired, or that repair others.
    pub repairs: u64,
    /// How often the model used names that had left the window.
    pub missed: u64,
    /// The calls, tokens and cost of each day, by the number of days since 1970-01-01 (UTC).
    pub days: BTreeMap<i64, Day>,
}

/// The figures of a day's calls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Day {
    /// The number of model calls.
    pub calls: u64,
    /// Input tokens.
    pub sent_tokens: u64,
    /// The cost of the input, in US dollars.
    pub cost: f64,
    /// The cost of the input without a window, in US dollars.
    pub cost_without_window: f64,
}

const DAY: Millis = 24 * 60 * 60 * 1_000;

impl Figures {
    /// Computes the figures of a session.
    pub fn from_timeline(timeline: &Timeline) -> Figures {
        let total = &timeline.total;
        let mut figures = Figures {
            calls: total.calls,
            sent_tokens: total.sent_tokens,
            cache_read_tokens: total.cache_read_tokens,
            cost: total.cost,
            cost_without_window: total.cost_without_window,
            paid: total.paid.into(),
            compactions: total.compactions,
            prefix_breaks: total.prefix_breaks,
            ..Figures::default()
        };
        for row in &timeline.rows {
            figures.messages += u64::from(row.kind == RowKind::Message);
            let repairs = row.kind == RowKind::Mend || row.states.iter().any(|state| state.fate == Fate::Repaired);
            figures.repairs += u64::from(repairs);
        }
        for call in &timeline.calls {
            figures.missed += call.missed.len() as u64;
            if let Some(time) = call.time {
                let day = figures.days.entry(time.div_euclid(DAY)).or_default();
                day.calls += 1;
                day.sent_tokens += call.receipt.sent_tokens;
                day.cost += call.receipt.cost;
                day.cost_without_window += call.receipt.cost_without_window;
            }
        }
        figures
    }

    /// Adds the figures of another session.
    pub fn add(&mut self, other: &Figures) {
        self.calls += other.calls;
        self.messages += other.messages;
        self.sent_tokens += other.sent_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cost += other.cost;
        self.cost_without_window += other.cost_without_window;
        self.paid = self.paid + other.paid;
        self.compactions += other.compactions;
        self.prefix_breaks += other.prefix_breaks;
        self.repairs += other.repairs;
        self.missed += other.missed;
        for (day, of) in &other.days {
            let sum = self.days.entry(*day).or_default();
            sum.calls += of.calls;
            sum.sent_tokens += of.sent_tokens;
            sum.cost += of.cost;
            sum.cost_without_window += of.cost_without_window;
        }
    }
}

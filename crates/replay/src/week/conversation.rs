//! What one conversation used, call by call.

use lookback_engine::transcript::Millis;
use lookback_recordings::{RecordedUsage, Recording};
use lookback_tokens::TokenCounter;
use lookback_wire::message::{Message, PartRef, Role};
use serde::Serialize;

use super::call::{Call, Kind};
use super::limits::savings;
use super::results::{LargeResult, Repeat, results};
use super::{Used, misses};
use crate::lost::Lost;
use crate::prices::Price;

/// Bytes of text for a token, where a log has no usage. English and code have about four.
const BYTES: u64 = 4;
/// The tokens of a picture or a file, about, where a log has no usage.
const PICTURE: u64 = 1_500;

/// Where a conversation is from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Place {
    /// Its name.
    pub id: String,
    /// The agent that had it, if the file is its log.
    pub agent: Option<&'static str>,
    /// The folder in which the agent worked, if known.
    pub project: Option<String>,
    /// The file.
    pub file: String,
    /// The first words of the person.
    pub first_words: String,
    /// The time of its newest message, if known.
    pub newest: Option<Millis>,
}

/// What a conversation used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conversation {
    /// Where it is from.
    #[serde(flatten)]
    pub place: Place,
    /// The sum of its calls.
    pub used: Used,
    /// Its calls, in order.
    pub calls: Vec<Call>,
    /// The largest results, as far as they are large.
    pub results: Vec<LargeResult>,
    /// The calls of tools that were repeated.
    pub repeats: Vec<Repeat>,
    /// The agent's own compactions.
    pub compactions: Vec<Compaction>,
}

/// A compaction by the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compaction {
    /// The index of the message with the summary.
    pub message: usize,
    /// The number of messages that the model no longer saw.
    pub dropped: usize,
    /// The rules of the person that it no longer saw.
    pub rules: Vec<String>,
    /// The number of rules before it.
    pub all_rules: usize,
    /// The names that it no longer saw and used again later, the most mentioned first.
    pub names: Vec<String>,
}

impl Conversation {
    /// Removes what is at or before the last message that is a copy.
    pub(super) fn remove_copied(&mut self, copied: Option<usize>) {
        self.results.retain(|result| is_behind(result.message, copied));
        self.repeats.retain(|repeat| is_behind(repeat.message, copied));
        self.compactions.retain(|compaction| is_behind(compaction.message, copied));
    }

    /// Reads what a recording used since a time. `price` returns the price of a model.
    pub fn new<'p>(
        recording: &Recording,
        place: Place,
        since: Option<Millis>,
        counter: &dyn TokenCounter,
        price: impl Fn(Option<&str>) -> Option<&'p Price>,
    ) -> Conversation {
        let price_of = |model: &Option<String>| price(model.as_deref().or(recording.model.as_deref()));
        let mut calls = calls(recording, &price_of);
        // Misses and savings depend on the calls before, which may be older.
        misses::find(&mut calls, recording, &price_of);
        savings(&mut calls, &price_of);
        let is_new = |time: Option<Millis>| since.is_none_or(|since| time.is_none_or(|time| time >= since));
        let (results, repeats) = results(recording, &calls, counter, is_new);
        let time = |message: usize| recording.messages.get(message).and_then(|recorded| recorded.time);
        calls.retain(|call| is_new(call.time));
        let lost = Lost::all(recording).into_iter().filter(|lost| is_new(time(lost.summary)));
        let compactions = lost.map(compaction).collect();
        Conversation { place, used: Used::default(), calls, results, repeats, compactions }
    }
}

fn is_behind(message: usize, copied: Option<usize>) -> bool {
    copied.is_none_or(|copied| message > copied)
}

fn compaction(lost: Lost) -> Compaction {
    Compaction {
        message: lost.summary,
        dropped: lost.messages,
        rules: lost.rules.into_iter().map(|rule| rule.text).collect(),
        all_rules: lost.all_rules,
        names: lost.names.into_iter().filter(|name| name.is_needed).map(|name| name.name).collect(),
    }
}

/// Returns the calls in order: those that the provider reported, or else one before each answer.
fn calls<'p>(recording: &Recording, price: &impl Fn(&Option<String>) -> Option<&'p Price>) -> Vec<Call> {
    let time = |message: usize| recording.messages.get(message).and_then(|recorded| recorded.time);
    if recording.usage.is_empty() && recording.aside.is_empty() {
        // Nobody has continued a copy of another conversation yet.
        return if recording.is_handed_over() { Vec::new() } else { estimated(recording, price) };
    }
    let reported = recording.usage.iter().map(|used| (Kind::Reported, time(used.message), used));
    let before = |message: usize| (0..message).rev().find_map(time);
    let aside = recording.aside.iter().map(|used| (Kind::Aside, used.time.or_else(|| before(used.message)), used));
    let mut calls: Vec<Call> = reported
        .chain(aside)
        .map(|(kind, time, used)| Call::new(used.message, kind, time, used, price(&used.model)))
        .collect();
    // Answers that were handed over cost nothing here.
    calls.retain(|call| call.sent() + call.output > 0);
    calls.sort_by_key(|call| call.message);
    calls
}

/// Returns a call before each answer, with the tokens of the texts since the last compaction.
fn estimated<'p>(recording: &Recording, price: &impl Fn(&Option<String>) -> Option<&'p Price>) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let tokens = |message: &Message| {
        let media = message.parts().filter(|part| matches!(part, PartRef::Image(_) | PartRef::Document(_))).count();
        message.text().len() as u64 / BYTES + media as u64 * PICTURE
    };
    let (mut sent, mut cached) = (0, 0);
    for (index, recorded) in recording.messages.iter().enumerate() {
        if recording.compactions.contains(&index) {
            (sent, cached) = (0, 0);
        }
        let own = tokens(&recorded.message);
        if recorded.message.role() == Role::Assistant && sent > 0 {
            let mut used = RecordedUsage::new(index);
            (used.cache_read, used.input, used.output) = (cached, sent - cached, own);
            used.model.clone_from(&recording.model);
            calls.push(Call::new(index, Kind::Estimated, recorded.time, &used, price(&used.model)));
            cached = sent;
        }
        sent += own;
    }
    calls
}

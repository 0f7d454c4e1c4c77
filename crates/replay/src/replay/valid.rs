//! Checks that the provider would accept each request of a replay, without reading all of its messages again each time.

use std::borrow::Cow;
use std::ops::Range;

use lookback_engine::view::{Item, View};
use lookback_session::Window;
use lookback_wire::dialect::{ConversionError, Dialect, Request, Severity, Shown};
use lookback_wire::message::Role;
use serde_json::value::RawValue;

/// The requests of a replay so far.
///
/// As long as requests extend each other, each is the beginning of the newest one. A fault in a beginning is a fault of
/// everything that extends it, unless it is at the end of the beginning, such as a call without a result. So the ends
/// are checked at once, and the newest request is checked as a whole when the next one does not extend it. If it has a
/// fault, all of them are suspects, and are checked one by one at the end of the replay.
pub(super) struct Requests {
    dialect: Dialect,
    /// The messages of the newest request.
    newest: Vec<Box<RawValue>>,
    /// The number of requests.
    count: usize,
    /// The numbers of the requests since the last one that was checked as a whole.
    unchecked: Range<usize>,
    /// The newest request that was checked as a whole.
    previous: Option<Request>,
    suspects: Vec<usize>,
    refused: u64,
}

impl Requests {
    pub(super) fn new(dialect: Dialect) -> Requests {
        let (newest, suspects) = (Vec::new(), Vec::new());
        Requests { dialect, newest, count: 0, unchecked: 0..0, previous: None, suspects, refused: 0 }
    }

    /// Adds the request of a window. `new` is the number of messages at its end that are new since the previous window,
    /// if the rest is as before.
    pub(super) fn push(&mut self, window: &Window<'_>, new: Option<usize>) -> Result<(), ConversionError> {
        let head = asked(window.view());
        match new.filter(|_| !self.newest.is_empty()) {
            Some(new) => {
                let mut tail: Vec<&Item> = window.view().messages().rev().take(new).collect();
                tail.reverse();
                let known = encode(window, &head)?.len();
                let short = encode(window, &[&*head, &*tail].concat())?;
                self.extend(&short, known);
            }
            None => self.begin(&window.messages()?),
        }
        Ok(())
    }

    /// Adds a request that extends nothing.
    fn begin(&mut self, messages: &[Cow<'_, RawValue>]) {
        self.check();
        self.newest.clear();
        self.extend(messages, 0);
    }

    /// Adds a request with new messages at its end: `short`, without the first `known`, which the newest request has, too.
    fn extend(&mut self, short: &[Cow<'_, RawValue>], known: usize) {
        let new = short.get(known..).unwrap_or_default();
        self.newest.extend(new.iter().map(|message| message.clone().into_owned()));
        self.count += 1;
        self.unchecked.end = self.count;
        // If new messages refer to some between, such as results whose calls are there, they are not accepted.
        if !is_accepted(Request::from_raw(self.dialect, short).ok().as_ref()) {
            self.check();
        }
    }

    /// Checks the newest request as a whole.
    fn check(&mut self) {
        if self.unchecked.is_empty() {
            return;
        }
        let newest = after(Request::from_raw(self.dialect, &self.newest).ok(), self.previous.take());
        if !is_accepted(newest.as_ref()) {
            self.suspects.extend(self.unchecked.clone());
        }
        self.previous = newest;
        self.unchecked = self.count..self.count;
    }

    /// Returns the numbers of the requests to [check again](Self::check_again): suspects, and those before them.
    pub(super) fn suspects(&mut self) -> Vec<usize> {
        self.check();
        let with_previous = self.suspects.iter().flat_map(|number| [number.checked_sub(1), Some(*number)]);
        let mut numbers: Vec<usize> = with_previous.flatten().collect();
        numbers.dedup();
        self.previous = None;
        numbers
    }

    /// Checks a request as a whole. They must come in order.
    pub(super) fn check_again(&mut self, number: usize, messages: &[Cow<'_, RawValue>]) {
        let request = after(Request::from_raw(self.dialect, messages).ok(), self.previous.take());
        let is_suspect = self.suspects.binary_search(&number).is_ok();
        self.refused += u64::from(is_suspect && !is_accepted(request.as_ref()));
        self.previous = request;
    }

    /// Checks a request that is in no log.
    pub(super) fn push_unlogged(&mut self, messages: &[Cow<'_, RawValue>]) {
        let request = after(Request::from_raw(self.dialect, messages).ok(), self.previous.take());
        self.refused += u64::from(!is_accepted(request.as_ref()));
        self.previous = request;
    }

    /// Returns the number of requests that the provider would refuse.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

/// The number of messages among which the first question is looked for.
const HEAD: usize = 8;

/// Returns the messages up to the first question.
fn asked(view: &View) -> Vec<&Item> {
    let first: Vec<&Item> = view.messages().take(HEAD).collect();
    let asked = first.iter().position(|item| item.message().role() == Role::User).map_or(0, |at| at + 1);
    first.into_iter().take(asked).collect()
}

/// Encodes messages of a window.
fn encode<'a>(window: &Window<'_>, items: &[&'a Item]) -> Result<Vec<Cow<'a, RawValue>>, ConversionError> {
    let shown = items.iter().map(|item| Shown { message: item.message(), edits: item.edits() });
    window.target().encode_after(window.view().preamble(), shown)
}

/// Returns a request as one that comes after another.
fn after(request: Option<Request>, previous: Option<Request>) -> Option<Request> {
    Some(match previous {
        Some(previous) => request?.after(&previous),
        None => request?,
    })
}

/// Returns whether the provider would accept a request.
fn is_accepted(request: Option<&Request>) -> bool {
    let is_refused = |request: &Request| {
        request.dialect().check(request).iter().any(|finding| finding.severity == Severity::Refused)
    };
    request.is_some_and(|request| !is_refused(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS: &str = r#"{"role":"user","content":"Read it."}"#;
    const CALLS: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{}"}}]}"#;
    const RESULT: &str = r#"{"role":"tool","tool_call_id":"c1","content":"It is empty."}"#;
    const SAYS: &str = r#"{"role":"assistant","content":"It is empty."}"#;

    fn raw<'a>(messages: &[&str]) -> Vec<Cow<'a, RawValue>> {
        messages.iter().map(|text| Cow::Owned(RawValue::from_string((*text).to_owned()).unwrap())).collect()
    }

    /// Counts the refused requests. Each has the messages of the one before it, and whether it extends that.
    fn refused(requests: &[(&[&str], bool)]) -> u64 {
        let mut all = Requests::new(Dialect::OpenAiChat);
        let mut known = 0;
        for (messages, extends) in requests {
            match extends {
                true => {
                    let short = [&messages[..1], &messages[known..]].concat();
                    all.extend(&raw(&short), 1);
                }
                false => all.begin(&raw(messages)),
            }
            known = messages.len();
        }
        for number in all.suspects() {
            all.check_again(number, &raw(requests[number].0));
        }
        all.refused()
    }

    #[test]
    fn a_fault_counts_once_for_each_request_that_has_it() {
        let all = [ASKS, CALLS, RESULT, SAYS, ASKS];
        let whole = [(&all[..1], false), (&all[..3], true), (&all[..], true)];
        assert_eq!(refused(&whole), 0);
        // A call without a result is a fault of this request alone.
        assert_eq!(refused(&[(&all[..1], false), (&all[..2], true), (&all[..3], true), (&all[..], true)]), 1);
        // A result without a call is one of all that follow.
        let orphan = [ASKS, RESULT, SAYS, ASKS];
        assert_eq!(refused(&[(&orphan[..1], false), (&orphan[..2], true), (&orphan[..], true)]), 2);
        // An identifier that is used again is a fault only of the requests that have both.
        let again = [ASKS, CALLS, RESULT, SAYS, ASKS, CALLS, RESULT];
        let count = refused(&[(&again[..3], false), (&again[..5], true), (&again[..], true)]);
        let alone = refused(&[(&again[..], false)]);
        assert_eq!(count, alone);
        // A request that extends nothing is checked anew.
        assert_eq!(refused(&[(&orphan[..], false), (&all[..], false)]), 1);
    }
}

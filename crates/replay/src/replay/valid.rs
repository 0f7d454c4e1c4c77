//! Checks that the provider would accept each request of a replay, without reading all of its messages again each time.

use std::borrow::Cow;

use lookback_wire::dialect::{Dialect, Request, Severity};
use lookback_wire::message::Role;
use serde_json::value::RawValue;

/// The requests of a replay so far.
///
/// As long as requests extend each other, each is the beginning of the newest one. A fault in a beginning is a fault of
/// everything that extends it, unless it is at the end of the beginning, such as a call without a result. So the ends
/// are checked at once, and the newest request is checked as a whole when it is known. If it has a fault, all of them
/// are checked as a whole.
pub(super) struct Requests {
    dialect: Dialect,
    /// The messages of the newest request.
    newest: Vec<Box<RawValue>>,
    /// The number of messages of each request that was not checked as a whole.
    unchecked: Vec<usize>,
    /// The newest request that was checked as a whole.
    previous: Option<Request>,
    refused: u64,
}

impl Requests {
    pub(super) fn new(dialect: Dialect) -> Requests {
        Requests { dialect, newest: Vec::new(), unchecked: Vec::new(), previous: None, refused: 0 }
    }

    /// Adds a request. `extends` is false if its window was compacted or repaired.
    pub(super) fn push(&mut self, messages: &[Cow<'_, RawValue>], extends: bool) {
        let same = self.newest.iter().zip(messages).take_while(|(old, new)| old.get() == new.get());
        if !(extends && same.count() == self.newest.len()) {
            self.check();
            self.newest.clear();
        }
        let known = self.newest.len();
        let new = messages.get(known..).unwrap_or_default();
        self.newest.extend(new.iter().map(|message| message.clone().into_owned()));
        self.unchecked.push(self.newest.len());
        if !self.ends_well(known) {
            self.check();
        }
    }

    /// Returns the number of requests that the provider would refuse.
    pub(super) fn refused(&mut self) -> u64 {
        self.check();
        self.refused
    }

    /// Returns whether the messages after the first `known` are accepted directly after the first question. If they refer
    /// to messages between, such as results whose calls are there, they are not.
    fn ends_well(&self, known: usize) -> bool {
        let decode = |raw: &RawValue| Request::from_raw(self.dialect, &[Cow::Borrowed(raw)]).ok();
        let asks =
            |raw: &RawValue| decode(raw).is_some_and(|one| one.messages().iter().any(|it| it.role() == Role::User));
        let first = self.newest.iter().take(HEAD).position(|raw| asks(raw)).map_or(0, |at| at + 1).min(known);
        let (head, tail) = (self.newest.get(..first), self.newest.get(known..));
        let short: Vec<Cow<'_, RawValue>> =
            head.into_iter().chain(tail).flatten().map(|raw| Cow::Borrowed(&**raw)).collect();
        is_accepted(&Request::from_raw(self.dialect, &short).ok())
    }

    /// Checks everything that was not checked as a whole.
    fn check(&mut self) {
        let Some(last) = self.unchecked.last() else { return };
        let newest = self.request(self.newest.get(..*last).unwrap_or_default());
        if is_accepted(&newest) {
            self.previous = newest;
            self.unchecked.clear();
            return;
        }
        for length in std::mem::take(&mut self.unchecked) {
            let request = self.request(self.newest.get(..length).unwrap_or_default());
            self.refused += u64::from(!is_accepted(&request));
            self.previous = request;
        }
    }

    /// Returns a request with these messages, after the previous one.
    fn request(&self, messages: &[impl AsRef<RawValue>]) -> Option<Request> {
        let request = Request::from_raw(self.dialect, messages).ok()?;
        Some(match &self.previous {
            Some(previous) => request.after(previous),
            None => request,
        })
    }
}

/// The number of messages among which the first question is looked for.
const HEAD: usize = 8;

/// Returns whether the provider would accept a request.
fn is_accepted(request: &Option<Request>) -> bool {
    let is_refused = |request: &Request| {
        request.dialect().check(request).iter().any(|finding| finding.severity == Severity::Refused)
    };
    request.as_ref().is_some_and(|request| !is_refused(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS: &str = r#"{"role":"user","content":"Read it."}"#;
    const CALLS: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{}"}}]}"#;
    const RESULT: &str = r#"{"role":"tool","tool_call_id":"c1","content":"It is empty."}"#;
    const SAYS: &str = r#"{"role":"assistant","content":"It is empty."}"#;

    fn refused(requests: &[(&[&str], bool)]) -> u64 {
        let mut all = Requests::new(Dialect::OpenAiChat);
        for (messages, extends) in requests {
            let raw = |text: &&str| Cow::Owned(RawValue::from_string((*text).to_owned()).unwrap());
            all.push(&messages.iter().map(raw).collect::<Vec<_>>(), *extends);
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
        // A request that changes an earlier message extends nothing, such as one without old cache markers.
        let marked = ASKS.replace('}', r#","cache_control":{"type":"ephemeral"}}"#);
        assert_eq!(refused(&[(&[&marked], true), (&all[..], true)]), 0);
        // A request that extends nothing is checked anew.
        assert_eq!(refused(&[(&orphan[..], false), (&all[..], false)]), 1);
    }
}

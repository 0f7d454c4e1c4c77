//! Choosing the line that a request goes on with, by what was said.

use std::fmt;

use lookback::{Message, Role};
use serde::Serialize;

/// The most characters of a message that are remembered, to recognize it after something was appended to it.
const MOST: usize = 4096;

/// A request, as far as it matters for the choice.
#[derive(Debug, Clone, Default)]
pub(in crate::gateway) struct Ask {
    /// The digests of its messages, without the system messages at its beginning, which clients change.
    path: Vec<u128>,
    /// Where the messages after the last of the model begin.
    base: usize,
    /// The text of the last message.
    last: String,
    /// The names of its tools.
    tools: Vec<String>,
    /// The client says that it asks again.
    retry: bool,
    /// The scope is one conversation of the client, and not all conversations that begin alike.
    named: bool,
}

impl Ask {
    pub(in crate::gateway) fn new(messages: &[Message], tools: Vec<String>, named: bool) -> Ask {
        let said: Vec<&Message> = said(messages).collect();
        let base = said.iter().rposition(|message| message.role() == Role::Assistant).map_or(0, |last| last + 1);
        let last = said.last().map(|message| beginning(&message.text())).unwrap_or_default();
        Ask { path: said.iter().map(|message| message.digest()).collect(), base, last, tools, retry: false, named }
    }

    /// Sets whether the client says that it asks again.
    pub(in crate::gateway) fn again(self, retry: bool) -> Ask {
        Ask { retry, ..self }
    }
}

/// Returns the messages without the system messages at the beginning.
pub(super) fn said(messages: &[Message]) -> impl Iterator<Item = &Message> {
    messages.iter().skip_while(|message| message.role() == Role::System)
}

fn beginning(text: &str) -> String {
    text.chars().take(MOST).collect()
}

/// How a request relates to its line of conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum How {
    /// It begins the line.
    New,
    /// It goes on where the line ended.
    Continued,
    /// It repeats or changes the end of the line.
    Edited,
    /// It has another history, in the same conversation of the client, which has compacted it.
    Rewritten,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            How::New => "new",
            How::Continued => "continued",
            How::Edited => "edited",
            How::Rewritten => "rewritten",
        })
    }
}

/// What is known of a line.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// The digests of what was said: the last request, and the answer to it.
    pub(super) path: Vec<u128>,
    /// The length of the last request.
    pub(super) asked: usize,
    pub(super) base: usize,
    pub(super) last: String,
    /// The names of the tools; `None` if they are not known, because the line was read from the store.
    pub(super) tools: Option<Vec<String>>,
    /// The number of requests that are not answered yet.
    pub(super) in_flight: usize,
    /// Whether the last answer came whole.
    pub(super) settled: bool,
    /// When it was used last, in requests.
    pub(super) used: u64,
}

impl Known {
    /// Takes over a request that was found to belong to it.
    pub(super) fn begin(&mut self, ask: Ask, now: u64) {
        let Ask { path, base, last, tools, .. } = ask;
        (self.asked, self.base, self.last, self.tools) = (path.len(), base, last, Some(tools));
        self.path = path;
        self.in_flight += 1;
        self.settled = false;
        self.used = now;
    }

    /// Takes over the answer of a request, if it came whole.
    pub(super) fn finish(&mut self, answer: Option<u128>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        // If another request came meanwhile, it is not its answer.
        if let Some(digest) = answer.filter(|_| self.path.len() == self.asked && self.in_flight == 0) {
            self.path.push(digest);
            self.settled = true;
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Returns whether a request has the tools of the line, or some more. With fewer tools, or others, it is a line of
    /// its own: for example, one that extracts memories from the conversation.
    fn has_tools_of(&self, ask: &Ask) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().all(|tool| ask.tools.binary_search(tool).is_ok()))
    }

    /// Returns how many messages a request has in common with the line.
    fn common(&self, ask: &Ask) -> usize {
        self.path.iter().zip(&ask.path).take_while(|(ours, theirs)| ours == theirs).count()
    }

    /// Returns how a request could relate to this line, and how well that fits: the greatest wins.
    fn fit(&self, ask: &Ask) -> Option<(Fit, How)> {
        let common = self.common(ask);
        if !self.has_tools_of(ask) {
            return None;
        }
        let again = ask.retry || ask.named || !self.settled;
        // It extends all that was said.
        if common == self.path.len() && common > 0 {
            let is_same = ask.path.len() == common;
            // Two equal requests at once are two lines, unless the client asks again.
            let is_free = !(is_same && self.is_busy()) || ask.retry;
            let how = if is_same { How::Edited } else { How::Continued };
            return is_free.then_some((Fit::Extends(common), how));
        }
        if self.is_busy() && !ask.retry {
            return None;
        }
        // It has the last request, and another answer to it: the client's own copy, or none.
        if common == self.asked && common > 0 && self.path.len() > self.asked {
            let goes_on = ask.path.len() > self.asked;
            return (goes_on || again).then_some((Fit::Answer(common), How::Edited));
        }
        // It differs in what was said last.
        let is_grown = ask.base == self.base && !self.last.is_empty() && ask.last.starts_with(&self.last);
        if common >= self.base && common > 0 && common < self.asked && (again || is_grown)
            || common == 0 && self.base == 0 && ask.base == 0 && is_grown
        {
            return Some((Fit::Edit(common), How::Edited));
        }
        ask.named.then_some((Fit::Named(common), How::Rewritten))
    }
}

/// How well a request fits a line. Later variants are better, and longer beginnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Named(usize),
    Edit(usize),
    Answer(usize),
    Extends(usize),
}

/// Returns the line that a request goes on with, by its index, and how. `None` if it begins a line.
pub(super) fn choose(lines: &[Known], ask: &Ask) -> Option<(usize, How)> {
    let equal = |known: &Known| known.tools.as_ref().is_some_and(|tools| *tools == ask.tools);
    let fits = lines.iter().enumerate().filter_map(|(index, known)| {
        let (fit, how) = known.fit(ask)?;
        Some((fit, equal(known), known.used, index, how))
    });
    let mut fits: Vec<_> = fits.collect();
    fits.sort_by_key(|(fit, equal, used, ..)| (*fit, *equal, *used));
    let (fit, equal, _, index, how) = fits.pop()?;
    // Of two lines that ended alike, nobody knows which one was answered in other words.
    let is_unclear = |other: &(Fit, bool, u64, usize, How)| other.0 == fit && other.1 == equal;
    let guesses = matches!(fit, Fit::Answer(_) | Fit::Edit(_)) && !ask.named;
    if guesses && fits.last().is_some_and(is_unclear) {
        return None;
    }
    Some((index, how))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conversation: user and assistant in turn.
    fn messages(texts: &[&str]) -> Vec<Message> {
        let said = |(index, text): (usize, &&str)| {
            if index % 2 == 0 { Message::user(*text) } else { Message::assistant(*text) }
        };
        texts.iter().enumerate().map(said).collect()
    }

    fn ask(texts: &[&str]) -> Ask {
        Ask::new(&messages(texts), vec!["read".to_owned()], false)
    }

    fn line(asked: &[&str], answer: Option<&str>) -> Known {
        let mut known = Known::default();
        known.begin(ask(asked), 1);
        known.finish(answer.map(|answer| Message::assistant(answer).digest()));
        known
    }

    #[test]
    fn a_request_goes_on_with_what_was_said() {
        let lines = [line(&["Hi"], Some("Hello.")), line(&["Hi", "Hello.", "Go on"], Some("Well."))];
        assert_eq!(choose(&lines, &ask(&["Hi", "Hello.", "And?"])), Some((0, How::Continued)));
        assert_eq!(choose(&lines, &ask(&["Hi", "Hello.", "Go on", "Well.", "More"])), Some((1, How::Continued)));
    }

    #[test]
    fn the_same_beginning_again_is_another_conversation() {
        let lines = [line(&["Hi"], Some("Hello."))];
        assert_eq!(choose(&lines, &ask(&["Hi"])), None);
        assert_eq!(choose(&lines, &ask(&["Hi"]).again(true)), Some((0, How::Edited)));
        // Its answer never came whole.
        assert_eq!(choose(&[line(&["Hi"], None)], &ask(&["Hi"])), Some((0, How::Edited)));
    }

    #[test]
    fn two_equal_requests_at_once_are_two_lines() {
        let mut busy = Known::default();
        busy.begin(ask(&["Hi"]), 1);
        assert_eq!(choose(&[busy.clone()], &ask(&["Hi"])), None);
        assert_eq!(choose(&[busy], &ask(&["Hi"]).again(true)), Some((0, How::Edited)));
    }

    #[test]
    fn an_answer_in_the_clients_own_words_goes_on_with_the_line_unless_two_could_be_meant() {
        let one = line(&["Hi"], Some("Hello. "));
        assert_eq!(choose(std::slice::from_ref(&one), &ask(&["Hi", "Hello", "Go on"])), Some((0, How::Edited)));
        let other = line(&["Hi"], Some("Good day."));
        assert_eq!(choose(&[one, other], &ask(&["Hi", "Hello", "Go on"])), None);
    }

    #[test]
    fn a_message_that_grew_is_the_same_message() {
        let settled = [line(&["Hi"], Some("Hello."))];
        assert_eq!(choose(&settled, &ask(&["Hi there"])), Some((0, How::Edited)));
        assert_eq!(choose(&settled, &ask(&["Good day"])), None);
        let later = [line(&["Hi", "Hello.", "Go on"], Some("Well."))];
        assert_eq!(choose(&later, &ask(&["Hi", "Hello.", "Go on [interrupted]"])), Some((0, How::Edited)));
        assert_eq!(choose(&later, &ask(&["Hi", "Hello.", "Stop"])), None, "another conversation from there");
        assert_eq!(
            choose(&[line(&["Hi", "Hello.", "Go on"], None)], &ask(&["Hi", "Hello.", "Stop"])),
            Some((0, How::Edited))
        );
    }

    #[test]
    fn with_other_tools_it_is_another_line() {
        let with = |texts: &[&str], tools: &[&str]| {
            Ask::new(&messages(texts), tools.iter().map(|tool| (*tool).to_owned()).collect(), false)
        };
        let lines = [line(&["Hi"], Some("Hello."))];
        assert_eq!(choose(&lines, &with(&["Hi", "Hello.", "Go on"], &["extract"])), None);
        assert_eq!(choose(&lines, &with(&["Hi", "Hello.", "Go on"], &[])), None);
        let more = with(&["Hi", "Hello.", "Go on"], &["read", "write"]);
        assert_eq!(choose(&lines, &more), Some((0, How::Continued)));
    }

    #[test]
    fn a_conversation_that_the_client_names_goes_on_whatever_it_made_of_its_history() {
        let named = |texts: &[&str]| Ask { named: true, ..ask(texts) };
        let lines = [line(&["Hi", "Hello.", "Go on"], Some("Well."))];
        assert_eq!(
            choose(&lines, &named(&["What did we do so far?", "A summary.", "Continue"])),
            Some((0, How::Rewritten))
        );
        assert_eq!(choose(&lines, &ask(&["What did we do so far?", "A summary.", "Continue"])), None);
    }
}

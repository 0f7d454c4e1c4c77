//! Choosing the line that a request goes on with, by what was said.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use lookback_facts::tools::Tool;
use lookback_session::adapter::Resent;
use lookback_wire::{dialect::Preamble, message::Role};
use serde::Serialize;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::super::kind;
use super::path::{Path, Said};

/// The names of a request's tools, and the hash of all that it says of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tools {
    pub(super) hash: u64,
    pub(super) names: Arc<[String]>,
}

impl Tools {
    pub(super) fn of(preamble: &Preamble) -> Tools {
        Tools { hash: Tools::hash_of(preamble), names: kind::tool_names(preamble).into() }
    }

    pub(super) fn hash_of(preamble: &Preamble) -> u64 {
        xxh3_64(preamble.tools.as_deref().map_or("", RawValue::get).as_bytes())
    }

    /// Leaves some of them out.
    pub(super) fn without(self, some: &[Tool]) -> Tools {
        let stays = |name: &&String| some.iter().all(|tool| tool.name != **name);
        Tools { names: self.names.iter().filter(stays).cloned().collect(), ..self }
    }
}

/// A request, as far as it matters for the choice.
#[derive(Debug, Clone, Default)]
pub(super) struct Ask {
    pub(super) path: Path,
    /// The text of the last message.
    pub(super) last: String,
    pub(super) tools: Tools,
    /// The client says that it asks again.
    pub(super) retry: bool,
    /// The scope is one conversation of the client, and not all conversations that begin alike.
    pub(super) named: bool,
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
    /// What was said: the last request, and the answer to it.
    pub(super) path: Path,
    /// What was said before its client compacted it. Another client may have a copy of that.
    before: Path,
    /// The length of the last request.
    asked: usize,
    base: usize,
    last: String,
    pub(super) tools: Tools,
    /// The number of requests that are not answered yet.
    in_flight: usize,
    /// Whether the last answer came whole.
    settled: bool,
    /// When it was used last, in requests.
    pub(super) used: u64,
}

impl Known {
    /// Reads what is known from a line's messages. What the model said last is the answer to the last request.
    pub(super) fn of(path: Path, tools: Tools) -> Known {
        let said = path.said();
        let is_models = |at: usize| said.get(at).is_some_and(|said| said.resent.role == Role::Assistant);
        let asked = (0..said.len()).rfind(|at| !is_models(*at)).map_or(0, |last| last + 1);
        let base = (0..asked).rfind(|at| is_models(*at)).map_or(0, |last| last + 1);
        Known { asked, base, settled: said.len() > asked, path, tools, ..Known::default() }
    }

    /// Takes over a request that was found to belong to it.
    pub(super) fn begin(&mut self, ask: Ask, how: How, now: u64) {
        let Ask { path, last, tools, .. } = ask;
        (self.asked, self.base, self.last, self.tools) = (path.len(), path.base(), last, tools);
        let before = mem::replace(&mut self.path, path);
        if how == How::Rewritten {
            self.before = before;
        }
        self.in_flight += 1;
        self.settled = false;
        self.used = now;
    }

    /// Takes over the answer of a request, if it came whole.
    pub(super) fn finish(&mut self, answer: Option<Resent>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        // If another request came meanwhile, it is not its answer.
        if let Some(resent) = answer.filter(|_| self.path.len() == self.asked && self.in_flight == 0) {
            self.path.push(Said { resent, bytes: None });
            self.settled = true;
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Returns how many messages a request has in common with all that is known of this line.
    fn knows(&self, ask: &Ask) -> usize {
        self.path.common(&ask.path).max(self.before.common(&ask.path))
    }

    /// Returns whether a request has the newest messages of this line behind a summary.
    pub(super) fn is_kept_in(&self, ask: &Ask) -> bool {
        let is_kept = |end: usize| self.path.is_kept_in(&ask.path, end);
        self.has_same_tools(ask) && (is_kept(self.path.len()) || is_kept(self.asked))
    }

    /// Returns whether a request has the history of this line before it asks for a summary. Its client may leave out the last
    /// answer, and append the instruction to the message before.
    fn is_summarized(&self, ask: &Ask, common: usize) -> bool {
        common > 0 && (common >= self.asked || common + 1 == self.asked && self.has_grown(ask))
    }

    /// Returns whether a request has the tools of the line, or some more. With fewer tools, or others, it is a line of
    /// its own: for example, one that extracts memories from the conversation.
    pub(super) fn has_tools_of(&self, ask: &Ask) -> bool {
        let has = |tool: &String| ask.tools.names.binary_search(tool).is_ok();
        self.tools.hash == ask.tools.hash || self.tools.names.iter().all(has)
    }

    /// Returns whether a request has the tools of the line, and no others.
    pub(super) fn has_same_tools(&self, ask: &Ask) -> bool {
        self.tools.names == ask.tools.names
    }

    /// Returns whether the last message of a request is that of the last one, and more.
    fn has_grown(&self, ask: &Ask) -> bool {
        !self.last.is_empty() && ask.last.starts_with(&self.last)
    }

    /// Returns how a request could relate to this line, and how well that fits: the greatest wins.
    fn fit(&self, ask: &Ask) -> Option<(Fit, How)> {
        let common = self.path.common(&ask.path);
        if !self.has_tools_of(ask) {
            return None;
        }
        let again = ask.retry || ask.named || !self.settled;
        // It extends all that was said.
        if common == self.path.len() && common > 0 {
            let is_same = ask.path.len() == common;
            // Two equal requests at once are two lines, unless the client asks again.
            let is_free = !(is_same && self.is_busy()) || ask.retry;
            let how = if is_same || !self.path.begins_like(&ask.path) { How::Edited } else { How::Continued };
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
        let is_grown = ask.path.base() == self.base && self.has_grown(ask);
        if common >= self.base && common > 0 && common < self.asked && (again || is_grown)
            || common == 0 && self.base == 0 && ask.path.base() == 0 && is_grown
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

impl Fit {
    /// Returns how many messages a guess is made from: something other was said at the end.
    fn guesses_at(self) -> Option<usize> {
        match self {
            Fit::Answer(common) | Fit::Edit(common) => Some(common),
            Fit::Extends(_) | Fit::Named(_) => None,
        }
    }
}

/// Returns the line that a request goes on with, by its index, and how. `None` if it begins a line.
pub(super) fn choose<K: Deref<Target = Known>>(lines: impl IntoIterator<Item = K>, ask: &Ask) -> Option<(usize, How)> {
    let mut longest = 0;
    let fits = lines.into_iter().enumerate().filter_map(|(index, known)| {
        if known.has_tools_of(ask) {
            longest = longest.max(known.knows(ask));
        }
        let (fit, how) = known.fit(ask)?;
        Some((fit, known.has_same_tools(ask), known.used, index, how))
    });
    let mut fits: Vec<_> = fits.collect();
    if !ask.named {
        // What another line knows more of has branched off from that one.
        fits.retain(|(fit, ..)| fit.guesses_at().is_none_or(|common| common == longest));
    }
    fits.sort_by_key(|(fit, equal, used, ..)| (*fit, *equal, *used));
    let (fit, equal, _, index, how) = fits.pop()?;
    // Of two lines that ended alike, nobody knows which one was answered in other words.
    let is_unclear = |other: &(Fit, bool, u64, usize, How)| other.0 == fit && other.1 == equal;
    if fit.guesses_at().is_some() && !ask.named && fits.last().is_some_and(is_unclear) {
        return None;
    }
    Some((index, how))
}

/// Returns the line of whose history a request asks for a summary, by its index. `None` if it could be several, or if the
/// request has a part of the history only.
pub(super) fn summarized<K: Deref<Target = Known>>(lines: impl IntoIterator<Item = K>, ask: &Ask) -> Option<usize> {
    let mut longest = 0;
    let fits = lines.into_iter().enumerate().filter_map(|(index, known)| {
        let common = known.path.common(&ask.path);
        longest = longest.max(known.knows(ask));
        let fit = (common == known.path.len(), known.has_same_tools(ask));
        known.is_summarized(ask, common).then_some((common, fit, index))
    });
    let mut fits: Vec<_> = fits.collect();
    // What another line knows more of is of that one.
    fits.retain(|(common, ..)| *common == longest);
    fits.sort();
    let (_, best, index) = fits.pop()?;
    fits.last().is_none_or(|(_, next, _)| *next < best).then_some(index)
}

#[cfg(test)]
mod tests {
    use lookback_wire::message::Message;

    use super::super::path::beginning;
    use super::*;

    /// A conversation: user and assistant in turn.
    fn messages(texts: &[&str]) -> Vec<Message> {
        let said = |(index, text): (usize, &&str)| {
            if index % 2 == 0 { Message::user(*text) } else { Message::assistant(*text) }
        };
        texts.iter().enumerate().map(said).collect()
    }

    fn asked(texts: &[&str], tools: &[&str]) -> Ask {
        let messages = messages(texts);
        let path = Path::new(messages.iter().map(|message| Said::of(message, None)).collect());
        let names: Arc<[String]> = tools.iter().map(|tool| (*tool).to_owned()).collect();
        let hash = names.iter().map(|name| name.len() as u64).sum();
        let last = messages.last().map(|last| beginning(&last.text())).unwrap_or_default();
        Ask { path, last, tools: Tools { hash, names }, ..Ask::default() }
    }

    fn again(texts: &[&str]) -> Ask {
        Ask { retry: true, ..ask(texts) }
    }

    fn ask(texts: &[&str]) -> Ask {
        asked(texts, &["read"])
    }

    fn line(asked: &[&str], answer: Option<&str>) -> Known {
        let mut known = Known::default();
        known.begin(ask(asked), How::New, 1);
        known.finish(answer.map(|answer| Resent::from_message(&Message::assistant(answer))));
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
        assert_eq!(choose(&lines, &again(&["Hi"])), Some((0, How::Edited)));
        // Its answer never came whole.
        assert_eq!(choose(&[line(&["Hi"], None)], &ask(&["Hi"])), Some((0, How::Edited)));
    }

    #[test]
    fn two_equal_requests_at_once_are_two_lines() {
        let mut busy = Known::default();
        busy.begin(ask(&["Hi"]), How::New, 1);
        assert_eq!(choose(&[busy.clone()], &ask(&["Hi"])), None);
        assert_eq!(choose(&[busy], &again(&["Hi"])), Some((0, How::Edited)));
    }

    #[test]
    fn an_answer_in_the_clients_own_words_goes_on_with_the_line_unless_two_could_be_meant() {
        let one = line(&["Hi"], Some("Hello. "));
        assert_eq!(choose(std::slice::from_ref(&one), &ask(&["Hi", "Hello", "Go on"])), Some((0, How::Edited)));
        let other = line(&["Hi"], Some("Good day."));
        assert_eq!(choose(&[one, other], &ask(&["Hi", "Hello", "Go on"])), None);
    }

    #[test]
    fn a_branch_of_one_line_does_not_go_on_with_another_that_begins_alike() {
        let gone_on = line(&["Hi", "Hello.", "Go on"], Some("Well."));
        let alike = line(&["Hi"], Some("Good day."));
        assert_eq!(choose(&[gone_on, alike], &ask(&["Hi", "Hello.", "Stop"])), None);
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
        let lines = [line(&["Hi"], Some("Hello."))];
        assert_eq!(choose(&lines, &asked(&["Hi", "Hello.", "Go on"], &["extract"])), None);
        assert_eq!(choose(&lines, &asked(&["Hi", "Hello.", "Go on"], &[])), None);
        let more = asked(&["Hi", "Hello.", "Go on"], &["read", "write"]);
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

//! Choosing the line that a request goes on with, by what was said.

use std::fmt;
use std::sync::Arc;

use lookback::memory::tools::Tool;
use lookback::session::Resent;
use lookback::{Message, Preamble, Role};
use serde::Serialize;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::super::kind;
use super::dates::without_dates;

/// The most characters of a message that are remembered, to recognize it after something was appended to it.
const MOST: usize = 4096;

/// The most messages that a client puts before those that it keeps, when it has compacted its history.
const MOST_BEFORE_KEPT: usize = 4;

/// A message, as far as a line remembers it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) resent: Resent,
    /// The hash of its bytes in the last request, if it came in one.
    pub(super) bytes: Option<u64>,
}

impl Said {
    pub(super) fn of(message: &Message, bytes: Option<u64>) -> Said {
        Said { resent: Resent::of(message), bytes }
    }
}

/// The messages of a conversation. Those of the system at its beginning are not part of what was said, because clients
/// change them.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    all: Vec<Said>,
    /// The number of system messages at the beginning.
    lead: usize,
    /// The hash of what the first other message says, but for its dates.
    opening: Option<u64>,
}

impl Path {
    pub(super) fn new(all: Vec<Said>) -> Path {
        let lead = all.iter().take_while(|said| said.resent.role == Role::System).count();
        Path { all, lead, opening: None }
    }

    /// Returns the index of the first message that is not the system's.
    pub(super) fn first(&self) -> usize {
        self.lead
    }

    /// Sets the [`opening`].
    pub(super) fn with_opening(self, opening: Option<u64>) -> Path {
        Path { opening, ..self }
    }

    /// Returns the [`opening`] if the message at its index has these bytes.
    pub(super) fn opening_at(&self, index: usize, bytes: u64) -> Option<u64> {
        self.opening.filter(|_| index == self.lead && self.at(index, bytes).is_some())
    }

    fn push(&mut self, said: Said) {
        self.all.push(said);
    }

    /// Returns the message at an index if it has these bytes.
    pub(super) fn at(&self, index: usize, bytes: u64) -> Option<Said> {
        self.all.get(index).copied().filter(|said| said.bytes == Some(bytes))
    }

    /// Returns all messages.
    pub(super) fn resent(&self) -> Vec<Resent> {
        self.all.iter().map(|said| said.resent).collect()
    }

    fn said(&self) -> &[Said] {
        self.all.get(self.lead..).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.said().len()
    }

    /// Returns whether the model has said something in it.
    pub(super) fn has_answers(&self) -> bool {
        self.base() > 0
    }

    /// Returns where the messages after the last of the model begin.
    fn base(&self) -> usize {
        self.said().iter().rposition(|said| said.resent.role == Role::Assistant).map_or(0, |last| last + 1)
    }

    /// Returns how many messages two paths have in common, from the first. A first message with another date is the same if
    /// what follows is.
    fn common(&self, other: &Path) -> usize {
        let same = |(ours, theirs): &(&Said, &Said)| ours.resent.digest == theirs.resent.digest;
        let common = self.said().iter().zip(other.said()).take_while(same).count();
        if common > 0 || self.opening.is_none() || self.opening != other.opening {
            return common;
        }
        match self.said().iter().zip(other.said()).skip(1).take_while(same).count() {
            0 => 0,
            rest => rest + 1,
        }
    }

    /// Returns how many of another path's messages end this one, behind one that this one does not have: a summary. `None`
    /// if this path does not end so, or if the model said none of them.
    fn kept_in(&self, other: &Path, end: usize) -> Option<usize> {
        let (said, other) = (self.said().get(..end)?, other.said());
        let is_same = |ours: &Said, theirs: &Said| ours.resent.digest == theirs.resent.digest;
        let kept = |from: usize, to: usize| {
            let (ours, theirs) = (said.get(from..)?, other.get(to..)?.get(..end - from)?);
            let said_so = ours.iter().any(|said| said.resent.role == Role::Assistant);
            (said_so && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))).then_some(end - from)
        };
        let starts = (1..other.len().min(MOST_BEFORE_KEPT + 1)).flat_map(|to| (1..end).map(move |from| (from, to)));
        starts.filter_map(|(from, to)| kept(from, to)).max()
    }

    /// Returns whether two paths begin with the same message, word by word.
    fn begins_like(&self, other: &Path) -> bool {
        self.said().first().map(|said| said.resent.digest) == other.said().first().map(|said| said.resent.digest)
    }
}

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

/// Returns the hash of what a message says, but for its dates: some clients change the date in the first one.
pub(super) fn opening(message: &Message) -> u64 {
    xxh3_64(without_dates(&beginning(&message.text())).as_bytes())
}

pub(super) fn beginning(text: &str) -> String {
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
    /// What was said: the last request, and the answer to it.
    pub(super) path: Path,
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
    pub(super) fn begin(&mut self, ask: Ask, now: u64) {
        let Ask { path, last, tools, .. } = ask;
        (self.asked, self.base, self.last, self.tools) = (path.len(), path.base(), last, tools);
        self.path = path;
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

    /// Returns how well a request has all of this line's history, if it does: its client may leave out the last answer, and
    /// append something to what it was the answer to.
    pub(super) fn is_in(&self, ask: &Ask) -> Option<(usize, bool, bool)> {
        let common = self.path.common(&ask.path);
        let is_in = common > 0 && (common >= self.asked || common + 1 == self.asked && self.has_grown(ask));
        is_in.then_some((common, common == self.path.len(), self.tools.names == ask.tools.names))
    }

    /// Returns how many of its newest messages a request has behind a summary.
    pub(super) fn kept_in(&self, ask: &Ask) -> Option<usize> {
        let kept = |end: usize| self.path.kept_in(&ask.path, end).filter(|_| self.has_tools_of(ask));
        kept(self.path.len()).or_else(|| kept(self.asked))
    }

    /// Returns whether a request has the tools of the line, or some more. With fewer tools, or others, it is a line of
    /// its own: for example, one that extracts memories from the conversation.
    pub(super) fn has_tools_of(&self, ask: &Ask) -> bool {
        let has = |tool: &String| ask.tools.names.binary_search(tool).is_ok();
        self.tools.hash == ask.tools.hash || self.tools.names.iter().all(has)
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
pub(super) fn choose<'a>(lines: impl IntoIterator<Item = &'a Known>, ask: &Ask) -> Option<(usize, How)> {
    let equal = |known: &Known| known.tools.names == ask.tools.names;
    let mut longest = 0;
    let fits = lines.into_iter().enumerate().filter_map(|(index, known)| {
        if known.has_tools_of(ask) {
            longest = longest.max(known.path.common(&ask.path));
        }
        let (fit, how) = known.fit(ask)?;
        Some((fit, equal(known), known.used, index, how))
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
        known.begin(ask(asked), 1);
        known.finish(answer.map(|answer| Resent::of(&Message::assistant(answer))));
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
        busy.begin(ask(&["Hi"]), 1);
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

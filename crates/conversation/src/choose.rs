//! Choosing the line that a request continues, by the messages.

use std::ops::Deref;

use super::clues::Clues;
use super::outline::Outline;
use super::relation::Relation;

/// How well a request fits a line, with the number of common messages. Later variants are better, and so are larger
/// numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// Only the client's identifier connects the request to the line.
    Named(usize),
    /// The request differs from the last request in the messages that were new there.
    Edit(usize),
    /// The request has the messages of the last request, but another answer to it.
    Answer(usize),
    /// The request has all messages of the line.
    Extends(usize),
}

impl Fit {
    fn common(self) -> usize {
        match self {
            Fit::Named(common) | Fit::Edit(common) | Fit::Answer(common) | Fit::Extends(common) => common,
        }
    }

    /// Returns the number of common messages if the fit is only a guess, because the end differs.
    fn guesses_at(self) -> Option<usize> {
        match self {
            Fit::Answer(common) | Fit::Edit(common) => Some(common),
            Fit::Extends(_) | Fit::Named(_) => None,
        }
    }
}

/// Returns how well a request fits a line, and its relation to the line. The greatest fit wins.
fn fit(line: &Outline, clues: &Clues) -> Option<(Fit, Relation)> {
    let common = line.path.common(&clues.path);
    if !line.has_tools_of(clues) {
        return None;
    }
    let may_differ = clues.is_retry || clues.is_named || !line.is_settled;
    // The request extends the whole line.
    if common == line.path.len() && common > 0 {
        let is_same = clues.path.len() == common;
        // Two equal requests at the same time are two lines, unless one is a retry.
        let is_free = !(is_same && line.is_busy()) || clues.is_retry;
        let relation =
            if is_same || !line.path.begins_like(&clues.path) { Relation::Edited } else { Relation::Continued };
        return is_free.then_some((Fit::Extends(common), relation));
    }
    if line.is_busy() && !clues.is_retry || !line.has_all_tools(clues) {
        return None;
    }
    // The request has the last request, but not its answer: it has the client's version of it, or none.
    if common == line.asked && common > 0 && line.path.len() > line.asked {
        let goes_on = clues.path.base() == line.asked + 1 && line.has_answer_of(clues);
        // With an answer of this line before it, the same question again is a retry, and not another conversation.
        return (goes_on || line.asked_again(clues) || may_differ).then_some((Fit::Answer(common), Relation::Edited));
    }
    // The request differs in the newest messages.
    let is_grown = clues.path.base() == line.base && line.has_grown(clues);
    if common >= line.base && common > 0 && common < line.asked && (may_differ || is_grown)
        || common == 0 && line.base == 0 && clues.path.base() == 0 && is_grown
    {
        return Some((Fit::Edit(common), Relation::Edited));
    }
    clues.is_named.then_some((Fit::Named(common), Relation::Rewritten))
}

/// A line that a request continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) index: usize,
    pub(super) relation: Relation,
    /// The number of common messages.
    pub(super) common: usize,
}

/// Chooses the line that a request continues. `None` if the request begins a line.
pub(super) fn choose<L: Deref<Target = Outline>>(lines: impl IntoIterator<Item = L>, clues: &Clues) -> Option<Choice> {
    let mut longest = 0;
    let fits = lines.into_iter().enumerate().filter_map(|(index, outline)| {
        if outline.has_tools_of(clues) {
            longest = longest.max(outline.knows(clues));
        }
        let (fit, relation) = fit(&outline, clues)?;
        Some((fit, outline.has_same_tools(clues), outline.used, index, relation))
    });
    let mut fits: Vec<_> = fits.collect();
    if !clues.is_named {
        // If another line has more messages in common, this line is a branch of it.
        fits.retain(|(fit, ..)| fit.guesses_at().is_none_or(|common| common == longest));
    }
    fits.sort_by_key(|(fit, equal, used, ..)| (*fit, *equal, *used));
    let (fit, equal, _, index, relation) = fits.pop()?;
    // If two lines fit equally well, a guess between them is not possible.
    let is_unclear = |other: &(Fit, bool, u64, usize, Relation)| other.0 == fit && other.1 == equal;
    if fit.guesses_at().is_some() && !clues.is_named && fits.last().is_some_and(is_unclear) {
        return None;
    }
    Some(Choice { index, relation, common: fit.common() })
}

/// Returns the index of the line whose history a request asks to summarize. `None` if several lines fit, or if the
/// request has only a part of the history.
pub(super) fn summarized<L: Deref<Target = Outline>>(
    lines: impl IntoIterator<Item = L>,
    clues: &Clues,
) -> Option<usize> {
    let mut longest = 0;
    let fits = lines.into_iter().enumerate().filter_map(|(index, outline)| {
        let common = outline.path.common(&clues.path);
        longest = longest.max(outline.knows(clues));
        let fit = (common == outline.path.len(), outline.has_same_tools(clues));
        outline.is_summarized(clues, common).then_some((common, fit, index))
    });
    let mut fits: Vec<_> = fits.collect();
    // The conversation belongs to the line with the most messages in common.
    fits.retain(|(common, ..)| *common == longest);
    fits.sort();
    let (_, best, index) = fits.pop()?;
    fits.last().is_none_or(|(_, next, _)| *next < best).then_some(index)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lookback_wire::message::Message;

    use super::super::outline::Answer;
    use super::super::path::{Fingerprint, Path, beginning, words};
    use super::super::tools::Tools;
    use super::*;

    /// A conversation of alternating user and assistant messages.
    fn messages(texts: &[&str]) -> Vec<Message> {
        let said = |(index, text): (usize, &&str)| {
            if index % 2 == 0 { Message::user(*text) } else { Message::assistant(*text) }
        };
        texts.iter().enumerate().map(said).collect()
    }

    fn clues_with(texts: &[&str], tools: &[&str]) -> Clues {
        let messages = messages(texts);
        let path = Path::new(messages.iter().map(|message| Fingerprint::new(message, None)).collect());
        let names: Arc<[String]> = tools.iter().map(|tool| (*tool).to_owned()).collect();
        let hash = names.iter().map(|name| name.len() as u64).sum();
        let last = messages.last().map(|last| beginning(&last.text())).unwrap_or_default();
        let answer = path.base().checked_sub(1).and_then(|at| messages.get(at)).map(words).unwrap_or_default();
        Clues { path, last, answer, tools: Tools { hash, names }, ..Clues::default() }
    }

    /// Returns the index of the line that a request continues, and the relation.
    fn choose<L: Deref<Target = Outline>>(
        lines: impl IntoIterator<Item = L>,
        clues: &Clues,
    ) -> Option<(usize, Relation)> {
        super::choose(lines, clues).map(|Choice { index, relation, .. }| (index, relation))
    }

    fn retried(texts: &[&str]) -> Clues {
        Clues { is_retry: true, ..clues(texts) }
    }

    fn clues(texts: &[&str]) -> Clues {
        clues_with(texts, &["read"])
    }

    fn line(asked: &[&str], answer: Option<&str>) -> Outline {
        let mut outline = Outline::default();
        outline.begin(clues(asked), Relation::New, 1);
        outline.finish(answer.map(|answer| Answer::from_message(&Message::assistant(answer))));
        outline
    }

    #[test]
    fn a_request_goes_on_with_what_was_said() {
        let lines = [line(&["Hi"], Some("Hello.")), line(&["Hi", "Hello.", "Go on"], Some("Well."))];
        assert_eq!(choose(&lines, &clues(&["Hi", "Hello.", "And?"])), Some((0, Relation::Continued)));
        assert_eq!(choose(&lines, &clues(&["Hi", "Hello.", "Go on", "Well.", "More"])), Some((1, Relation::Continued)));
    }

    #[test]
    fn the_same_beginning_again_is_another_conversation() {
        let lines = [line(&["Hi"], Some("Hello."))];
        assert_eq!(choose(&lines, &clues(&["Hi"])), None);
        assert_eq!(choose(&lines, &retried(&["Hi"])), Some((0, Relation::Edited)));
        // The line's answer was never complete.
        assert_eq!(choose(&[line(&["Hi"], None)], &clues(&["Hi"])), Some((0, Relation::Edited)));
    }

    #[test]
    fn two_equal_requests_at_once_are_two_lines() {
        let mut busy = Outline::default();
        busy.begin(clues(&["Hi"]), Relation::New, 1);
        assert_eq!(choose(&[busy.clone()], &clues(&["Hi"])), None);
        assert_eq!(choose(&[busy], &retried(&["Hi"])), Some((0, Relation::Edited)));
    }

    #[test]
    fn an_answer_in_the_clients_own_words_goes_on_with_the_line_unless_two_could_be_meant() {
        let one = line(&["Hi"], Some("Hello. "));
        assert_eq!(choose(std::slice::from_ref(&one), &clues(&["Hi", "Hello", "Go on"])), Some((0, Relation::Edited)));
        assert_eq!(choose(std::slice::from_ref(&one), &clues(&["Hi", "Good day.", "Go on"])), None);
        let other = line(&["Hi"], Some("Good day."));
        assert_eq!(choose(&[one.clone(), other], &clues(&["Hi", "Hello", "Go on"])), Some((0, Relation::Edited)));
        let other = line(&["Hi"], Some("Hello, you."));
        assert_eq!(choose(&[one, other], &clues(&["Hi", "Hello", "Go on"])), None);
    }

    #[test]
    fn a_branch_of_one_line_does_not_go_on_with_another_that_begins_alike() {
        let gone_on = line(&["Hi", "Hello.", "Go on"], Some("Well."));
        let alike = line(&["Hi"], Some("Good day."));
        assert_eq!(choose(&[gone_on, alike], &clues(&["Hi", "Hello.", "Stop"])), None);
    }

    #[test]
    fn a_message_that_grew_is_the_same_message() {
        let settled = [line(&["Hi"], Some("Hello."))];
        assert_eq!(choose(&settled, &clues(&["Hi there"])), Some((0, Relation::Edited)));
        assert_eq!(choose(&settled, &clues(&["Good day"])), None);
        let later = [line(&["Hi", "Hello.", "Go on"], Some("Well."))];
        assert_eq!(choose(&later, &clues(&["Hi", "Hello.", "Go on [interrupted]"])), Some((0, Relation::Edited)));
        assert_eq!(choose(&later, &clues(&["Hi", "Hello.", "Stop"])), None, "another conversation from there");
        assert_eq!(
            choose(&[line(&["Hi", "Hello.", "Go on"], None)], &clues(&["Hi", "Hello.", "Stop"])),
            Some((0, Relation::Edited))
        );
    }

    #[test]
    fn with_other_tools_it_is_another_line() {
        let lines = [line(&["Hi"], Some("Hello."))];
        assert_eq!(choose(&lines, &clues_with(&["Hi", "Hello.", "Go on"], &["extract"])), None);
        assert_eq!(choose(&lines, &clues_with(&["Hi", "Hello.", "Go on"], &[])), None);
        let more = clues_with(&["Hi", "Hello.", "Go on"], &["read", "write"]);
        assert_eq!(choose(&lines, &more), Some((0, Relation::Continued)));
    }

    #[test]
    fn a_conversation_that_the_client_names_goes_on_whatever_it_made_of_its_history() {
        let named = |texts: &[&str]| Clues { is_named: true, ..clues(texts) };
        let lines = [line(&["Hi", "Hello.", "Go on"], Some("Well."))];
        assert_eq!(
            choose(&lines, &named(&["What did we do so far?", "A summary.", "Continue"])),
            Some((0, Relation::Rewritten))
        );
        assert_eq!(choose(&lines, &clues(&["What did we do so far?", "A summary.", "Continue"])), None);
    }
}

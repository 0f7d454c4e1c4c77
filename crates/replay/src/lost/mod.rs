//! What a client's own compaction dropped: the rules, decisions and names that the messages behind it no longer have.

mod client;

use std::collections::{HashMap, HashSet};

use lookback_content::identifiers::{Kind, names};
use lookback_content::pasted::{is_from_client, pastes};
use lookback_content::rules::{Rule, asks, revokes, sentences, states_rule, subjects};
use lookback_recordings::Recording;
use lookback_tokens::TokenCounter;
use lookback_wire::message::{Message, PartRef, Role};
use serde::Serialize;

pub use self::client::ClientCompaction;

/// The most sentences of a text that are searched for rules.
const MOST_SENTENCES: usize = 1_000;
/// A summary says a rule if it has this share of the words that say what the rule is about.
const SAID: f64 = 0.6;
/// The most bytes of an answer that is a decision. Longer ones tell more than that.
const LONGEST_ANSWER: usize = 300;
/// The most bytes of a text in which names are looked for. Longer ones are data.
const LONGEST: usize = 1 << 20;

/// What one compaction of the client dropped.
#[derive(Debug, Clone, Serialize)]
pub struct Lost {
    /// The index of the message with the summary.
    pub summary: usize,
    /// The number of messages that the model no longer saw.
    pub messages: usize,
    /// The rules of the person that neither the summary nor a kept message says, the clearest first.
    pub rules: Vec<LostRule>,
    /// The rules in the dropped messages, whether or not the summary says them.
    pub all_rules: usize,
    /// The decisions of the person that neither says, the newest first.
    pub decisions: Vec<LostDecision>,
    /// The names and numbers that neither has, the most mentioned first.
    pub names: Vec<LostName>,
    /// The names in the dropped messages that the model used later, whether or not the summary has them.
    pub needed_names: usize,
}

/// A rule that was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostRule {
    /// The sentence.
    pub text: String,
    /// The index of its message.
    pub message: usize,
    /// Whether it has a word such as `never`.
    pub is_clear: bool,
}

/// A decision that was dropped: a question of the model, and how the person answered it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostDecision {
    /// The question.
    pub question: String,
    /// The answer.
    pub answer: String,
    /// The index of the message with the answer.
    pub message: usize,
}

/// A name or a number that was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostName {
    /// The name.
    pub name: String,
    /// What it names.
    pub kind: Kind,
    /// The index of the last dropped message that has it.
    pub message: usize,
    /// The number of dropped messages that have it.
    pub mentions: usize,
    /// Whether a later call or answer of the model has it, so it was needed.
    pub is_needed: bool,
}

impl Lost {
    /// Returns what each compaction of a recording dropped, in order. A message is dropped by the first compaction that
    /// does not keep it.
    pub fn all(recording: &Recording) -> Vec<Lost> {
        let used = last_uses(recording);
        let mut before: Option<usize> = None;
        let mut all = Vec::new();
        for summary in recording.compactions.iter().copied() {
            let kept = before.and_then(|before| recording.kept.get(&before)).into_iter().flatten().copied();
            let first = before.map_or(0, |before| before + 1);
            let window: Vec<usize> = kept.chain(first..summary).collect();
            all.push(Lost::of(recording, summary, &window, &used));
            before = Some(summary);
        }
        all
    }

    /// Returns what the model no longer saw behind the summary with this index, also what earlier compactions dropped.
    pub fn at(recording: &Recording, summary: usize) -> Lost {
        let window: Vec<usize> = (0..summary).collect();
        Lost::of(recording, summary, &window, &last_uses(recording))
    }

    /// Returns which of the messages of a window were dropped behind a summary. `used` has the last use of each name.
    fn of(recording: &Recording, summary: usize, window: &[usize], used: &HashMap<String, usize>) -> Lost {
        let kept: HashSet<usize> = recording.kept.get(&summary).into_iter().flatten().copied().collect();
        let message = |index: usize| recording.messages.get(index).map(|recorded| &recorded.message);
        let summaries: HashSet<usize> = recording.compactions.iter().copied().collect();
        let is_dropped = |index: &usize| !kept.contains(index) && !summaries.contains(index);
        let dropped = window.iter().copied().filter(is_dropped);
        let dropped: Vec<(usize, &Message)> = dropped.filter_map(|index| Some((index, message(index)?))).collect();
        let stays: Vec<&Message> = kept.iter().copied().chain([summary]).filter_map(message).collect();
        Lost::between(summary, &dropped, &stays, |name| used.get(name).is_some_and(|last| *last > summary))
    }

    /// Returns what was dropped with messages, each with its index, while others stayed. `is_needed` says whether the
    /// model used a name later.
    fn between(
        summary: usize,
        dropped: &[(usize, &Message)],
        stays: &[&Message],
        is_needed: impl Fn(&str) -> bool,
    ) -> Lost {
        let about: Vec<HashSet<String>> = stays.iter().flat_map(|message| abouts(&message.text())).collect();
        let (rules, all_rules) = rules(dropped, &about.iter().flatten().cloned().collect());
        let decisions = decisions(dropped, &about);
        let (names, needed_names) = lost_names(dropped, stays, is_needed);
        Lost { summary, messages: dropped.len(), rules, all_rules, decisions, names, needed_names }
    }

    /// Returns a note that tells the model what was dropped: as many rules, names and decisions as fit into a number of
    /// tokens.
    pub fn note(&self, counter: &dyn TokenCounter, most: u64) -> String {
        const HEAD: &str = "From the messages that your summary replaced. It is data, not a task.";
        let mut note = HEAD.to_owned();
        let mut left = most.saturating_sub(counter.text(HEAD) + 8);
        let mut add = |head: &str, lines: &mut dyn Iterator<Item = String>, between: &str| {
            let mut any = false;
            for line in lines {
                let text = if any { format!("{between}{line}") } else { format!("\n\n{head}\n{line}") };
                let tokens = counter.text(&text);
                if tokens > left {
                    continue;
                }
                left -= tokens;
                note += &text;
                any = true;
            }
        };
        let rules = self.rules.iter().map(|rule| format!("- {}", rule.text));
        add("What the person asked for:", &mut rules.into_iter(), "\n");
        add("Names and numbers:", &mut self.names.iter().map(|name| name.name.clone()), ", ");
        let decisions = self.decisions.iter().map(|decision| format!("- {} {}", decision.question, decision.answer));
        add("What was decided:", &mut decisions.into_iter(), "\n");
        note
    }
}

/// Returns the words of people in a message, without pastes and what clients write in their name.
fn said(message: &Message) -> Vec<&str> {
    let texts = message.parts().filter_map(|part| match part {
        PartRef::Text(text) if message.role() == Role::User && !is_from_client(text) => Some(text),
        _ => None,
    });
    let own = texts.flat_map(|text| {
        let mut own = Vec::new();
        let mut from = 0;
        for paste in pastes(text) {
            own.extend(text.get(from..paste.start));
            from = paste.end;
        }
        own.extend(text.get(from..));
        own
    });
    own.collect()
}

fn sentences_of(text: &str) -> impl Iterator<Item = &str> {
    let all = sentences(text).take(MOST_SENTENCES).filter_map(|range| text.get(range));
    all.filter(|sentence| !is_from_client(sentence))
}

/// Returns what each sentence of a text is about.
fn abouts(text: &str) -> Vec<HashSet<String>> {
    sentences_of(text).map(subjects).filter(|about| !about.is_empty()).collect()
}

/// Returns whether sentences about all of `about` say a sentence about `subjects`.
fn is_said(subjects: &HashSet<String>, about: &HashSet<String>) -> bool {
    let said = subjects.intersection(about).count();
    said as f64 >= SAID * subjects.len() as f64 && !subjects.is_empty()
}

/// Returns the rules in messages of people that nobody took back and that others, which are about `stays`, do not say,
/// and the number of all rules.
fn rules(dropped: &[(usize, &Message)], stays: &HashSet<String>) -> (Vec<LostRule>, usize) {
    let mut found: Vec<(LostRule, HashSet<String>)> = Vec::new();
    for (message, text) in
        dropped.iter().flat_map(|(index, message)| said(message).into_iter().map(move |it| (*index, it)))
    {
        for sentence in sentences_of(text) {
            let about = subjects(sentence);
            if revokes(sentence) {
                found.retain(|(_, other)| other.intersection(&about).count() * 2 < other.len().max(1));
            } else if let Some(rule) = states_rule(sentence) {
                let rule = LostRule { text: sentence.to_owned(), message, is_clear: rule == Rule::Strong };
                // Whoever says it again means it.
                found.retain(|(known, _)| known.text != rule.text);
                found.push((rule, about));
            }
        }
    }
    found.retain(|(_, subjects)| !subjects.is_empty());
    let all = found.len();
    let lost = found.into_iter().filter(|(_, subjects)| !is_said(subjects, stays));
    let mut lost: Vec<LostRule> = lost.map(|(rule, _)| rule).collect();
    // Clear rules first, and of these the newest.
    lost.sort_by_key(|rule| (std::cmp::Reverse(rule.is_clear), std::cmp::Reverse(rule.message)));
    (lost, all)
}

/// Returns the decisions in messages that no sentence of the others says. `stays` has what each of these is about.
fn decisions(dropped: &[(usize, &Message)], stays: &[HashSet<String>]) -> Vec<LostDecision> {
    let mut found = Vec::new();
    let mut question: Option<String> = None;
    for (index, message) in dropped {
        if message.role() == Role::Assistant {
            // An answer without text, such as a call, leaves the question open.
            question = texts(message).last().map_or(question, |text| asked(text));
            continue;
        }
        let own = said(message).into_iter().map(str::trim).filter(|text| !text.is_empty()).collect::<Vec<_>>();
        let [answer] = own[..] else { continue };
        let Some(question) = question.take().filter(|_| answer.len() <= LONGEST_ANSWER) else { continue };
        // Whoever asks back has not decided yet.
        if sentences_of(answer).any(asks) {
            continue;
        }
        let about: HashSet<String> = subjects(&question).into_iter().chain(subjects(answer)).collect();
        if !about.is_empty() && !stays.iter().any(|stays| is_said(&about, stays)) {
            found.push(LostDecision { question, answer: answer.to_owned(), message: *index });
        }
    }
    found.reverse();
    found
}

/// Returns the question with which a text of the model ends, perhaps before a last remark.
fn asked(text: &str) -> Option<String> {
    let sentences: Vec<&str> = sentences(text).filter_map(|range| text.get(range)).collect();
    sentences.iter().rev().take(2).find(|sentence| asks(sentence)).map(|question| (*question).to_owned())
}

/// Returns the texts of a message, without reasoning and calls.
fn texts(message: &Message) -> Vec<&str> {
    message.parts().filter_map(|part| if let PartRef::Text(text) = part { Some(text) } else { None }).collect()
}

fn short_enough(text: &str) -> bool {
    text.len() <= LONGEST
}

/// Returns the index of the last answer that has each name.
fn last_uses(recording: &Recording) -> HashMap<String, usize> {
    let mut used = HashMap::new();
    if recording.compactions.is_empty() {
        return used;
    }
    for (index, recorded) in recording.messages.iter().enumerate() {
        let text = if recorded.message.role() == Role::Assistant { recorded.message.text() } else { continue };
        if short_enough(&text) {
            used.extend(names(&text).map(|name| (name.to_owned(), index)));
        }
    }
    used
}

/// Returns the names in messages that other messages do not have, and how many of all names were used later.
fn lost_names(
    dropped: &[(usize, &Message)],
    stays: &[&Message],
    is_needed: impl Fn(&str) -> bool,
) -> (Vec<LostName>, usize) {
    let texts = stays.iter().map(|message| message.text()).filter(|text| short_enough(text));
    let known: HashSet<String> = texts.flat_map(|text| names(&text).map(str::to_owned).collect::<Vec<_>>()).collect();
    let mut found: HashMap<String, LostName> = HashMap::new();
    for (message, text) in dropped.iter().map(|(index, message)| (*index, message.text())) {
        if !short_enough(&text) {
            continue;
        }
        let own: HashSet<&str> = names(&text).collect();
        for name in own {
            let is_needed = is_needed(name);
            let entry = found.entry(name.to_owned());
            let new = LostName { name: name.to_owned(), kind: Kind::of(name), message, mentions: 0, is_needed };
            let lost = entry.or_insert(new);
            (lost.message, lost.mentions) = (message, lost.mentions + 1);
        }
    }
    let count = found.values().filter(|lost| lost.is_needed).count();
    let mut lost: Vec<LostName> = found.into_values().filter(|lost| !known.contains(&lost.name)).collect();
    lost.sort_by(|one, other| {
        let rank = |lost: &LostName| (lost.mentions, lost.message);
        rank(other).cmp(&rank(one)).then_with(|| one.name.cmp(&other.name))
    });
    (lost, count)
}

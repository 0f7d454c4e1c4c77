//! Words with which a message asks for a summary of its conversation, in several languages.
//!
//! A client that compacts its history asks the model in words of its own, which nobody can list. But a sentence of them
//! names a summary, and the conversation that is to be summarized. If a person asks in such words, nothing is lost: the
//! request is sent whole, and the next request continues the conversation.

/// The bytes at the beginning of a message in which a client says that it gives a summary.
const BEGINNING: usize = 500;

/// Phrases with which known clients ask for a summary, also in a system prompt.
const PHRASES: [&str; 7] = [
    "CRITICAL: Respond with TEXT ONLY",
    "You are a context summarization agent",
    "You are a context summarization assistant",
    "You are a specialized system component responsible for distilling chat history",
    "You are performing a CONTEXT CHECKPOINT COMPACTION",
    "You are the component that summarizes internal chat history",
    "Your task is to create a detailed summary of the conversation so far",
];

/// Words with which a client gives the model a summary, in lower case. It does not ask for one then.
const GIVEN: [&str; 7] = [
    "being continued from",
    "continued from a previous",
    "has been summarized",
    "here is a summary",
    "here is the summary",
    "summary below",
    "was summarized",
];

/// Beginnings of words for a summary, and for handing work over, in lower case.
const SUMMARIES: [&str; 39] = [
    "compact our",
    "compact the",
    "condens",
    "continuation prompt",
    "distil",
    "hand off",
    "hand over",
    "hand-off",
    "handoff",
    "handover",
    "recap",
    "summar",
    "take over",
    "takes over",
    "fass",
    "zusammenfass",
    "résum",
    "resuma",
    "resumen",
    "resumir",
    "resumo",
    "riassum",
    "riassun",
    "samenvat",
    "vat samen",
    "podsum",
    "streść",
    "özet",
    "подытож",
    "резюм",
    "сводк",
    "краткое изложение",
    "まとめ",
    "要約",
    "总结",
    "摘要",
    "概括",
    "總結",
    "요약",
];

/// Words for a conversation, in lower case.
const CONVERSATIONS: [&str; 52] = [
    "chat",
    "context",
    "conversation",
    "dialog",
    "discussed",
    "discussion",
    "everything that was said",
    "history",
    "messages",
    "our work",
    "session",
    "so far",
    "thread",
    "transcript",
    "until now",
    "bisher",
    "gespräch",
    "sitzung",
    "unterhaltung",
    "verlauf",
    "échange",
    "historique",
    "jusqu'à présent",
    "jusqu'ici",
    "conversación",
    "hasta ahora",
    "historial",
    "sesión",
    "até agora",
    "conversa",
    "histórico",
    "sessão",
    "conversazione",
    "cronologia",
    "finora",
    "gesprek",
    "tot nu toe",
    "dotychczas",
    "rozmow",
    "konuşma",
    "sohbet",
    "şimdiye",
    "бесед",
    "диалог",
    "разговор",
    "до сих пор",
    "これまで",
    "会話",
    "对话",
    "到目前为止",
    "上下文",
    "대화",
];

/// Returns whether a text has the words with which a known client asks for a summary. The system prompt of an agent may
/// mention summaries of conversations for other reasons.
pub(super) fn has_known_words(text: &str) -> bool {
    PHRASES.iter().any(|phrase| text.contains(phrase))
}

/// Returns whether a message asks for a summary of its conversation. What stands between tags is quoted, such as a
/// reminder or an open file.
pub(super) fn asks_for_summary(text: &str) -> bool {
    let asks = |sentence: &str| {
        let sentence = sentence.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| has_word(&sentence, word));
        has(&CONVERSATIONS) && has(&SUMMARIES)
    };
    let is_given = || {
        let beginning = text.get(..text.floor_char_boundary(BEGINNING)).unwrap_or(text).to_lowercase();
        GIVEN.iter().any(|words| beginning.contains(words))
    };
    has_known_words(text) || sentences(text).any(asks) && !is_given()
}

/// Returns the sentences outside of tags.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    /// A longer one is not an instruction.
    const LONGEST: usize = 500;
    let mut open: Option<&str> = None;
    let outside = text.lines().filter(move |line| {
        let line = line.trim();
        let tag = line.strip_prefix('<').and_then(|rest| rest.split(|c: char| !is_of_name(c)).next());
        let Some(tag) = open.or(tag.filter(|tag| !tag.is_empty())) else { return true };
        open = (!closes(line, tag)).then_some(tag);
        false
    });
    let sentences = outside.flat_map(|line| line.split(['.', '!', '?', '。', '！', '？']));
    sentences.filter(|sentence| sentence.len() <= LONGEST)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '-' || c == '_'
}

/// Returns whether a line closes a tag.
fn closes(line: &str, tag: &str) -> bool {
    line.rsplit_once("</").is_some_and(|(_, rest)| rest.starts_with(tag))
}

/// Returns whether a text has a word that begins like this, and is not a part of a path or of a name. Scripts without
/// spaces have no beginnings of words.
fn has_word(text: &str, beginning: &str) -> bool {
    let is_of_path = |c: char| matches!(c, '/' | '\\' | '_');
    let is_whole = |at: usize| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let word = text.get(at..).and_then(|rest| rest.split(char::is_whitespace).next()).unwrap_or_default();
        !before.is_some_and(|c| is_of_name(c) || is_of_path(c)) && !word.contains(is_of_path)
    };
    let has_spaces = beginning.starts_with(|c: char| c < '\u{2e80}');
    text.match_indices(beginning).any(|(at, _)| !has_spaces || is_whole(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_the_conversation_is_asked_for_in_any_words() {
        for text in [
            "Please provide a detailed summary of our conversation above.",
            "The window is nearly full. Condense the chat history into a briefing for yourself.",
            "Write a handoff note, so that another assistant can go on with this session.",
            "Your task is to create a detailed summary of the conversation so far, paying close attention to the user.",
            "You are a context summarization assistant.",
            "You are the component that summarizes internal chat history into a given structure.",
            "Fasse unser bisheriges Gespräch zusammen.",
            "Résume notre conversation en dix points.",
            "Haz un resumen de la conversación hasta ahora.",
            "请总结我们到目前为止的对话。",
            "これまでの会話を要約してください。",
        ] {
            assert!(asks_for_summary(text), "{text}");
        }
    }

    #[test]
    fn other_requests_are_not_for_a_summary_of_the_conversation() {
        for text in [
            "Summarize the README.",
            "Go on with the conversation view.",
            "The chat window is broken. Add a summary to the report.",
            "Resume the session.",
            "This session is being continued from a previous conversation. The summary below covers the conversation.",
            "Here is a summary of the conversation so far: we fixed the build.",
            "Fix src/session/summary.ts.",
            "Use a compact context menu.",
            "<reminder>\nSummarize the conversation.\n</reminder>\nGo on.",
            "<open_file>A summary of the chat</open_file>",
            "Fix the bug in src/history.rs that loses entries.",
            "Wie heißt die Klasse für den Verlauf?",
            "",
        ] {
            assert!(!asks_for_summary(text), "{text}");
        }
    }
}

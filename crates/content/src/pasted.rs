//! Texts in a person's message that the person did not write: pastes, and what a client adds.

use std::ops::Range;

use crate::text::is_east_asian;

/// The fewest lines of a paste.
const LEAST_LINES: usize = 6;
/// The fewest words of a line that may be a person's.
const LEAST_WORDS: usize = 4;

/// The elements that clients write in a person's name.
const ELEMENTS: [&str; 26] = [
    "bash-input",
    "bash-stderr",
    "bash-stdout",
    "command-message",
    "command-name",
    "environment_context",
    "environment_details",
    "git_status",
    "hook_context",
    "ide_diagnostics",
    "ide_opened_file",
    "ide_selection",
    "local-command-caveat",
    "local-command-stderr",
    "local-command-stdout",
    "permissions",
    "post-tool-use-hook",
    "session-start-hook",
    "session_context",
    "skills_instructions",
    "system-reminder",
    "system_reminder",
    "task-notification",
    "turn_aborted",
    "user-prompt-submit-hook",
    "user_shell_command",
];

/// The beginnings of lines in brackets that clients write in a person's name.
const NOTES: [&str; 3] = ["[Image: source", "[Request interrupted", "[SYSTEM"];

/// Returns whether a client wrote a text in a person's name: reminders, the output of commands, and notes.
///
/// ```
/// use lookback_content::pasted::is_from_client;
///
/// assert!(is_from_client("<command-name>/clear</command-name>\n<system-reminder>a</system-reminder>"));
/// assert!(is_from_client("[Request interrupted by user]"));
/// assert!(!is_from_client("<task>Never push to main.</task>"));
/// assert!(!is_from_client("<system-reminder>a</system-reminder> Why is the build slow?"));
/// ```
pub fn is_from_client(text: &str) -> bool {
    let text = text.trim();
    if NOTES.iter().any(|note| text.starts_with(note)) && text.ends_with(']') && !text.contains('\n') {
        return true;
    }
    let mut rest = text;
    while let Some(after) = after_element(rest) {
        rest = after.trim_start();
    }
    rest.is_empty()
}

/// Returns the text after the element of a client that a text begins with.
fn after_element(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('<')?;
    let name = inner.get(..inner.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))?)?;
    // A command may come with words of the person.
    let is_known = ELEMENTS.contains(&name) || (name == "command-args" && inner.starts_with("command-args></"));
    if !is_known {
        return None;
    }
    let end = format!("</{name}>");
    text.find(&end).and_then(|at| text.get(at + end.len()..))
}

/// Returns the pastes in a text, in order: blocks of code between fences, and runs of lines that are not sentences, such
/// as logs.
///
/// ```
/// use lookback_content::pasted::pastes;
///
/// let text = format!("It fails like this, twice:\n{}Why does it do that?\n", "  File \"a.py\", line 3\n".repeat(8));
/// let found: Vec<_> = pastes(&text).collect();
/// assert!(found.len() == 1 && text[found[0].clone()].lines().count() == 8);
/// ```
pub fn pastes(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut lines = text.split_inclusive('\n').scan(0, |end, line| {
        let start = *end;
        *end += line.len();
        Some((start..*end, line))
    });
    let mut is_fenced = false;
    let mut done = false;
    std::iter::from_fn(move || {
        let (mut run, mut count): (Option<Range<usize>>, usize) = (None, 0);
        while !done {
            let next = lines.next();
            done = next.is_none();
            let pasted = next.as_ref().is_some_and(|(_, line)| {
                let fence = line.trim_start().starts_with("```");
                let was_fenced = is_fenced;
                is_fenced ^= fence;
                was_fenced || fence || !is_sentence(line)
            });
            match next.filter(|_| pasted) {
                Some((range, _)) => {
                    run = Some(run.map_or(range.start, |run: Range<usize>| run.start)..range.end);
                    count += 1;
                }
                None if count >= LEAST_LINES => return run,
                None => (run, count) = (None, 0),
            }
        }
        None
    })
}

/// Returns whether a line may be a sentence of a person: mostly words, and more than a few of them.
fn is_sentence(line: &str) -> bool {
    let line = line.trim();
    let (mut letters, mut marks, mut unspaced) = (0, 0, 0);
    for c in line.chars().filter(|c| !c.is_whitespace()) {
        match c {
            c if is_east_asian(c) => unspaced += 1,
            c if c.is_alphabetic() => letters += 1,
            '.' | ',' | '!' | '?' | '\'' | '’' | '，' | '。' => {}
            _ => marks += 1,
        }
    }
    let words =
        line.split_whitespace().filter(|word| word.chars().all(|c| c.is_alphabetic() || "'’.,!?;:-()\"`".contains(c)));
    (letters + unspaced) > 5 * marks && (words.count() >= LEAST_WORDS || unspaced >= LEAST_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_and_lists_are_no_pastes_and_logs_and_fences_are() {
        let of = |text: &str| pastes(text).map(|range| text[range].to_owned()).collect::<Vec<_>>();
        let prose =
            "Please look at this, it is slow.\n\n- never use the old client\n- tests must stay green\n".repeat(9);
        assert!(of(&prose).is_empty(), "{:?}", of(&prose));
        let log = "2026-01-02T10:00:00Z INFO [main] started in 12ms\n".repeat(10);
        assert_eq!(of(&format!("See:\n{log}What is it doing there?\n{log}")), [format!("See:\n{log}"), log]);
        let fence = "```\nThis is a line of words in a fence.\n\n\nAnd one more line of words.\nThe end of it all is here.\n```\n";
        assert_eq!(of(&format!("Here is the file that I mean.\n{fence}Fix that for me please.\n")), [fence]);
        assert!(of("").is_empty());
    }

    #[test]
    fn an_element_that_does_not_end_is_a_persons() {
        assert!(!is_from_client("<system-reminder unclosed"));
        assert!(!is_from_client("<>a</>") && !is_from_client("[URGENT] never deploy to [prod]"));
        assert!(is_from_client("  "));
    }
}

//! Caps: cuts an arriving tool result to whole lines within the cap for files or for other output.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use crate::policy::Caps;
use crate::telling::telling_lines;
use lookback_content::identifiers::names;
use lookback_content::numbered::{is_numbered, sparsely_numbered};
use lookback_content::prose::is_prose;
use lookback_tokens::TokenCounter;
use lookback_tokens::cut;
use lookback_wire::edit::{Cut, Repeat};
use lookback_wire::message::ToolCall;

/// The number of bytes at the beginning of a text from which its tokens are estimated.
const SAMPLE: usize = 4_096;
/// The length in bytes of a reference to lines that are shown elsewhere.
const REFERENCE: usize = 64;

/// One in this many tokens of a cap is for the telling lines of the cut part.
const TELLING: u64 = 4;

impl Caps {
    /// Returns the caps for a model that cannot read what was cut.
    pub(crate) fn without_recall(self) -> Caps {
        let larger = |cap: u64| cap.saturating_mul(self.without_recall);
        Caps { file: larger(self.file), other: larger(self.other), ..self }
    }

    /// Returns the shortened text of a call's result, or `None` if it is short enough. `place` says where the whole text
    /// can be read.
    #[doc(hidden)]
    pub fn shortened(
        &self,
        text: &str,
        call: Option<&ToolCall>,
        place: fmt::Arguments<'_>,
        counter: &dyn TokenCounter,
    ) -> Option<String> {
        self.cut(text, counts_as_file(text, call), &[], false, place, counter).map(|cut| cut.apply(text))
    }

    /// Returns how to cut a text, or `None` if it is short enough. `file` is whether it counts as a file, `repeats` are its
    /// lines that are hidden as repeated lines, `unnumbered` is whether the numbers of its lines are hidden, and `place`
    /// says where the whole text can be read.
    pub(crate) fn cut(
        &self,
        text: &str,
        file: bool,
        repeats: &[Repeat],
        unnumbered: bool,
        place: fmt::Arguments<'_>,
        counter: &dyn TokenCounter,
    ) -> Option<Cut> {
        let most = if file { self.file } else { self.other };
        let hidden: usize = repeats.iter().map(|repeat| repeat.end - repeat.start).sum();
        let visible = (text.len() - hidden).saturating_add(REFERENCE.saturating_mul(repeats.len()));
        if visible as u64 <= most {
            // A token has at least a byte.
            return None;
        }
        let bytes = bytes_of(text, most, unnumbered, counter);
        if visible <= bytes || (visible <= bytes.saturating_mul(2) && is_shortened(text)) {
            return None;
        }
        let (mut head, mut tail) = ends(text, bytes, repeats);
        // The beginning may have fewer tokens per byte than the rest.
        let repeated = within(repeats, head, tail);
        let kept = Cut { head, tail: text.len() - tail, repeats: repeated, unnumbered, ..Cut::nothing() };
        let tokens = kept.kept(text).map(|kept| tokens_of(kept, unnumbered, counter)).sum::<u64>();
        let mut room = bytes;
        if tokens > most {
            let fewer = bytes as u128 * u128::from(most) / u128::from(tokens);
            room = usize::try_from(fewer).unwrap_or(bytes);
            (head, tail) = ends(text, room, repeats);
        }
        let telling_of = |gone| if file { Vec::new() } else { telling_lines(gone, most / TELLING, counter) };
        let mut telling = telling_of(text.get(head..tail)?);
        if !telling.is_empty() {
            let taken: usize = telling.iter().map(|line| line.len() + 1).sum();
            (head, tail) = ends(text, room.saturating_sub(taken), repeats);
            telling = telling_of(text.get(head..tail)?);
        }
        let gone = text.get(head..tail)?;
        let lines = gone.lines().count();
        let listed = self.listed(text, head..tail, &telling, counter);
        let newline =
            if text.get(..head).is_some_and(|head| head.is_empty() || head.ends_with('\n')) { "" } else { "\n" };
        let marker = match lines {
            0 | 1 => format!("{newline}[... {} characters cut; {place} has them", gone.chars().count()),
            lines => format!("{newline}[... {lines} lines cut; {place} has them"),
        };
        let marker = if listed.is_empty() { marker } else { format!("{marker}, with {listed}") };
        let marker = match telling.as_slice() {
            [] => format!("{marker} ...]\n"),
            telling => format!("{marker}; these may matter:\n{}\n...]\n", telling.join("\n")),
        };
        Cut { head, tail: text.len() - tail, marker, repeats: within(repeats, head, tail), unnumbered }.if_shorter(text)
    }

    /// Lists the names that occur only in the cut part of a text, and not in its telling lines, the most frequent first.
    fn listed(&self, text: &str, gone: Range<usize>, telling: &[&str], counter: &dyn TokenCounter) -> String {
        let (Some(head), Some(middle), Some(tail)) =
            (text.get(..gone.start), text.get(gone.clone()), text.get(gone.end..))
        else {
            return String::new();
        };
        let told = telling.iter().flat_map(|line| names(line));
        let shown: HashSet<&str> = names(head).chain(names(tail)).chain(told).collect();
        let mut found: HashMap<&str, (usize, usize)> = HashMap::new();
        for (order, name) in names(middle).filter(|name| !shown.contains(name)).enumerate() {
            found.entry(name).or_insert((0, order)).0 += 1;
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable_by_key(|(_, (count, order))| (Reverse(*count), *order));
        let mut tokens = 0;
        let fits = |(name, _): &(&str, _)| {
            tokens += counter.text(name) + 1;
            tokens <= self.names
        };
        found.into_iter().take_while(fits).map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    }
}

/// Returns whether a text was already shortened, by a hook of the client: then it says in which session the whole text
/// is. Its marker and names may make it longer than the cap.
fn is_shortened(text: &str) -> bool {
    let markers = text.lines().filter(|line| line.starts_with("[... "));
    markers.into_iter().any(|line| {
        let place = line.split_once(" cut; entry ").and_then(|(_, place)| place.split_once(" has them"));
        place.is_some_and(|(place, _)| place.contains(" of "))
    })
}

/// Returns how many bytes of a text have about this many tokens as it is shown, estimated from its beginning.
fn bytes_of(text: &str, tokens: u64, unnumbered: bool, counter: &dyn TokenCounter) -> usize {
    let sample = text.get(..text.floor_char_boundary(SAMPLE)).unwrap_or(text);
    let bytes = u128::from(tokens) * sample.len() as u128 / u128::from(tokens_of(sample, unnumbered, counter).max(1));
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Returns the tokens of a kept text as it is shown.
fn tokens_of(kept: &str, is_unnumbered: bool, counter: &dyn TokenCounter) -> u64 {
    if is_unnumbered { counter.text(&sparsely_numbered(kept).collect::<String>()) } else { counter.text(kept) }
}

/// Returns the repeats that lie within the head or within the tail.
fn within(repeats: &[Repeat], head: usize, tail: usize) -> Vec<Repeat> {
    repeats.iter().filter(|repeat| repeat.end <= head || repeat.start >= tail).cloned().collect()
}

/// Returns the end of the head and the beginning of the tail that are kept, if `bytes` bytes are to be shown.
fn ends(text: &str, bytes: usize, repeats: &[Repeat]) -> (usize, usize) {
    let head = head(text, bytes / 5 * 3, repeats);
    (head, tail(text, bytes / 5 * 2, repeats).max(head))
}

/// Returns how many bytes of a line are shown. `starts` is whether it is the first line of a repeat.
fn shown_of(line: &str, repeated: bool, starts: bool) -> usize {
    match (repeated, starts) {
        (false, _) => line.len(),
        (true, true) => REFERENCE,
        (true, false) => 0,
    }
}

/// Returns the end of the head that is kept: whole lines with at most `bytes` bytes that are shown.
fn head(text: &str, bytes: usize, repeats: &[Repeat]) -> usize {
    let (mut end, mut left) = (0, bytes);
    let mut repeats = repeats.iter().peekable();
    for line in text.split_inclusive('\n') {
        let next = end + line.len();
        while repeats.next_if(|repeat| repeat.end <= end).is_some() {}
        let repeat = repeats.peek().filter(|repeat| repeat.start <= end && next <= repeat.end);
        let shown = shown_of(line, repeat.is_some(), repeat.is_some_and(|repeat| repeat.start == end));
        let Some(rest) = left.checked_sub(shown) else { break };
        (end, left) = (next, rest);
    }
    // A long line is cut inside.
    if left > bytes / 2 { cut::floor(text, text.floor_char_boundary(end + left)) } else { end }
}

/// Returns the beginning of the tail that is kept.
fn tail(text: &str, bytes: usize, repeats: &[Repeat]) -> usize {
    let (mut start, mut left) = (text.len(), bytes);
    let mut repeats = repeats.iter().rev().peekable();
    for line in text.split_inclusive('\n').rev() {
        let next = start - line.len();
        while repeats.next_if(|repeat| repeat.start >= start).is_some() {}
        let repeat = repeats.peek().filter(|repeat| repeat.start <= next && start <= repeat.end);
        let shown = shown_of(line, repeat.is_some(), repeat.is_some_and(|repeat| repeat.end == start));
        let Some(rest) = left.checked_sub(shown) else { break };
        (start, left) = (next, rest);
    }
    if left > bytes / 2 { cut::ceil(text, text.ceil_char_boundary(start.saturating_sub(left))) } else { start }
}

/// Returns whether a tool result counts as a file: its lines are numbered consecutively, the only text in its call is
/// the path of a file, or it is prose.
pub(crate) fn counts_as_file(text: &str, call: Option<&ToolCall>) -> bool {
    is_numbered(text) || call.is_some_and(names_a_file) || is_prose(text)
}

/// Returns whether the only text among the arguments of a call is a path with an extension, or one of them is a shell
/// command that reads a file.
fn names_a_file(call: &ToolCall) -> bool {
    /// Larger arguments do more than name a file.
    const LONGEST: usize = 1_000;
    if call.arguments.len() > LONGEST {
        return false;
    }
    let arguments: Option<HashMap<String, serde_json::Value>> = serde_json::from_str(&call.arguments).ok();
    let arguments = arguments.unwrap_or_default();
    let mut texts = arguments.values().filter_map(serde_json::Value::as_str);
    if let (Some(path), None) = (texts.next(), texts.next())
        && is_path(path)
    {
        return true;
    }
    // A command is a text, or a list with the shell before it: `["bash", "-lc", "cat src/main.rs"]`.
    let last = |value: &serde_json::Value| match value {
        serde_json::Value::Array(words) => words.last().and_then(serde_json::Value::as_str).map(str::to_owned),
        value => value.as_str().map(str::to_owned),
    };
    arguments.values().filter_map(last).any(|command| reads_a_file(&command))
}

/// Returns whether a text is a path with an extension.
fn is_path(text: &str) -> bool {
    let file = text.rsplit(['/', '\\']).next().unwrap_or(text);
    let extension = file.rsplit_once('.').map(|(_, extension)| extension);
    let is_plain =
        |extension: &str| !extension.is_empty() && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    extension.is_some_and(is_plain) && !text.contains(char::is_whitespace)
}

/// Returns whether a shell command only prints files or parts of them, such as `cd src && sed -n '1,200p' main.rs`.
fn reads_a_file(command: &str) -> bool {
    const READERS: [&str; 7] = ["cat", "bat", "head", "tail", "nl", "sed", "Get-Content"];
    let mut is_file = false;
    command.split("&&").flat_map(|part| part.split([';', '|', '\n'])).all(|part| {
        let mut words = part.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
        let Some(program) = words.next() else { return true };
        let words: Vec<&str> = words.collect();
        is_file |= program != "cd" && words.last().is_some_and(|last| is_path(last));
        let writes = words.iter().any(|word| word.contains('>') || word.starts_with("-i"));
        !writes && (program == "cd" || READERS.contains(&program))
    }) && is_file
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookback_tokens::Estimate;

    const CAPS: Caps = Caps { file: 400, other: 100, names: 20, numbers: true, without_recall: 1 };

    fn lines(count: usize) -> String {
        (1..=count).map(|line| format!("line {line} of what the tool printed\n")).collect()
    }

    #[test]
    fn whole_lines_are_kept_of_head_and_tail() {
        let text = lines(200);
        let shown =
            CAPS.cut(&text, false, &[], false, format_args!("entry 7"), &Estimate::default()).unwrap().apply(&text);
        let kept: Vec<&str> = shown.lines().collect();
        let marker = kept.iter().position(|line| line.starts_with("[...")).unwrap();
        let (head, tail) = (marker, kept.len() - marker - 1);
        assert!(head > tail && tail > 2, "{shown}");
        assert!(kept.iter().all(|line| text.contains(line) || line.starts_with("[...")), "{shown}");
        assert_eq!(kept[marker], format!("[... {} lines cut; entry 7 has them ...]", 200 - head - tail));
        assert!(Estimate::default().text(&shown) < 150, "{shown}");
    }

    #[test]
    fn the_result_that_a_hook_has_shortened_is_not_shortened_again() {
        let text = format!("{}see src/main.rs and read_file\n{}", lines(100), lines(100));
        let counter = &Estimate::default();
        let shown = CAPS.shortened(&text, None, format_args!("entry 7 of kettle/results"), counter).unwrap();
        assert!(shown.contains("lines cut; entry 7 of kettle/results has them"), "{shown}");
        assert_eq!(CAPS.shortened(&shown, None, format_args!("entry 9"), counter), None);
        // A marker does not let much more pass.
        let larger = format!("{shown}{text}");
        assert!(CAPS.shortened(&larger, None, format_args!("entry 9"), counter).is_some());
    }

    #[test]
    fn a_file_has_a_cap_of_its_own() {
        let text = lines(30);
        assert!(CAPS.cut(&text, false, &[], false, format_args!("entry 7"), &Estimate::default()).is_some());
        assert!(CAPS.cut(&text, true, &[], false, format_args!("entry 7"), &Estimate::default()).is_none());
    }

    #[test]
    fn names_that_were_cut_are_listed() {
        let text = format!("{}see src/main.rs and read_file\nagain read_file\n{}", lines(40), lines(40));
        let shown =
            CAPS.cut(&text, false, &[], false, format_args!("entry 7"), &Estimate::default()).unwrap().apply(&text);
        assert!(shown.contains("has them, with read_file src/main.rs ...]"), "{shown}");
    }

    #[test]
    fn an_error_in_the_cut_part_is_shown_in_the_marker() {
        let text = format!("{}error: no such column\n  at query 4\n{}", lines(100), lines(100));
        let shown =
            CAPS.cut(&text, false, &[], false, format_args!("entry 7"), &Estimate::default()).unwrap().apply(&text);
        let told = "these may matter:\nerror: no such column\n  at query 4\n...]\nline ";
        assert!(shown.contains(told), "{shown}");
        assert!(Estimate::default().text(&shown) < 160, "{shown}");
        assert!(
            !CAPS
                .cut(&text, true, &[], false, format_args!("entry 7"), &Estimate::default())
                .unwrap()
                .apply(&text)
                .contains("matter")
        );
    }

    #[test]
    fn one_long_line_is_cut_inside() {
        let text = "word ".repeat(2_000);
        let shown =
            CAPS.cut(&text, false, &[], false, format_args!("entry 7"), &Estimate::default()).unwrap().apply(&text);
        assert!(shown.starts_with("word word") && shown.ends_with("word "), "{shown}");
        assert!(shown.contains("characters cut; entry 7 has them ...]"), "{shown}");
    }

    #[test]
    fn no_character_is_torn_apart() {
        for text in ["\u{37f0}".repeat(500), format!("{}\n{}", "\u{e9}".repeat(701), "e\u{301}".repeat(700))] {
            for other in 1..60 {
                let caps = Caps { other, ..CAPS };
                let shown = caps
                    .cut(&text, false, &[], false, format_args!("entry 7"), &Estimate::default())
                    .unwrap()
                    .apply(&text);
                assert!(shown.contains("entry 7 has them"), "{shown}");
            }
        }
    }

    #[test]
    fn lines_that_are_not_shown_anyway_do_not_count() {
        let text = lines(200);
        let all = Repeat { start: 0, end: text.len() - 40, entry: 3 };
        assert_eq!(CAPS.cut(&text, false, &[all], false, format_args!("entry 7"), &Estimate::default()), None);
    }

    #[test]
    fn a_file_is_told_by_its_numbered_lines_or_its_name() {
        let numbered: String = (5..20).map(|line| format!("{line:>6}\u{2192}    let x = {line};\n")).collect();
        assert!(counts_as_file(&numbered, None));
        let viewed = format!("Here's the file:\n\n{}", (1..9).map(|line| format!("{line}\tx\n")).collect::<String>());
        assert!(counts_as_file(&viewed, None));
        let grep: String = (1..20).map(|line| format!("{}:fn x{line}()\n", line * 7)).collect();
        assert!(!counts_as_file(&grep, None));
        let call = |arguments: &str| ToolCall::new("c", "f", arguments);
        assert!(counts_as_file("fn main() {}", Some(&call(r#"{"path":"src/main.rs","limit":100}"#))));
        assert!(!counts_as_file("fn main() {}", Some(&call(r#"{"path":"src/main.rs","pattern":"fn"}"#))));
        for command in [
            r#"{"command":"cat src/main.rs","description":"Show the file"}"#,
            r#"{"cmd":"cd src && sed -n '1,200p' main.rs","workdir":"/a"}"#,
            r#"{"command":["bash","-lc","nl -ba src/main.rs | sed -n '1,80p'"]}"#,
            r#"{"command":"cat a.toml; cat b.toml"}"#,
        ] {
            assert!(counts_as_file("fn main() {}", Some(&call(command))), "{command}");
        }
        for command in [
            r#"{"command":"cat log.txt | grep error"}"#,
            r#"{"command":"cat > notes.md"}"#,
            r#"{"command":"sed -i s/a/b/ main.rs"}"#,
            r#"{"command":"cargo test 2>&1 | tail -50"}"#,
            r#"{"command":"cd src.d"}"#,
        ] {
            assert!(!counts_as_file("fn main() {}", Some(&call(command))), "{command}");
        }
        assert!(!counts_as_file("fn main() {}", Some(&call(r#"{"path":"src"}"#))));
        let report = "I read all of the module, and nothing else in the project calls it.";
        assert!(counts_as_file(report, Some(&call(r#"{"prompt":"Who calls it?"}"#))));
    }
}

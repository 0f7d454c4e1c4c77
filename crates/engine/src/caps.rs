//! Caps: cuts an arriving tool result to whole lines within the cap for files or for other output.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::policy::Caps;
use lookback_content::identifiers::names;
use lookback_tokens::TokenCounter;
use lookback_tokens::cut;
use lookback_wire::edit::{Cut, Repeat};
use lookback_wire::message::ToolCall;

/// The number of bytes at the beginning of a text from which its tokens are estimated.
const SAMPLE: usize = 4_096;
/// The length in bytes of a reference to lines that are shown elsewhere.
const REFERENCE: usize = 64;
/// The number of lines that are examined to recognize a file.
const LOOKED_AT: usize = 200;

impl Caps {
    /// Returns how to cut a text, or `None` if it is short enough. `file` is whether it shows a file, `repeats` are its
    /// lines that are hidden as repeated lines, and `entry` is the position of its message in the log.
    pub(crate) fn cut(
        &self,
        text: &str,
        file: bool,
        repeats: &[Repeat],
        entry: u64,
        counter: &dyn TokenCounter,
    ) -> Option<Cut> {
        let most = if file { self.file } else { self.other };
        let hidden: usize = repeats.iter().map(|repeat| repeat.end - repeat.start).sum();
        let visible = (text.len() - hidden).saturating_add(REFERENCE.saturating_mul(repeats.len()));
        if visible as u64 <= most {
            // A token has at least a byte.
            return None;
        }
        let bytes = bytes_of(text, most, counter);
        if visible <= bytes {
            return None;
        }
        let (mut head, mut tail) = ends(text, bytes, repeats);
        // The beginning may have fewer tokens per byte than the rest.
        let kept = Cut { head, tail: text.len() - tail, repeats: within(repeats, head, tail), ..Cut::nothing() };
        let tokens = kept.kept(text).map(|kept| counter.text(kept)).sum::<u64>();
        if tokens > most {
            let fewer = bytes as u128 * u128::from(most) / u128::from(tokens);
            (head, tail) = ends(text, usize::try_from(fewer).unwrap_or(bytes), repeats);
        }
        let gone = text.get(head..tail)?;
        let lines = gone.lines().count();
        let listed = self.listed(text, head..tail, counter);
        let newline =
            if text.get(..head).is_some_and(|head| head.is_empty() || head.ends_with('\n')) { "" } else { "\n" };
        let marker = match lines {
            0 | 1 => format!("{newline}[... {} characters cut; entry {entry} has them", gone.chars().count()),
            lines => format!("{newline}[... {lines} lines cut; entry {entry} has them"),
        };
        let marker =
            if listed.is_empty() { format!("{marker} ...]\n") } else { format!("{marker}, with {listed} ...]\n") };
        Cut { head, tail: text.len() - tail, marker, repeats: within(repeats, head, tail) }.if_shorter(text)
    }

    /// Lists the names that occur only in the cut part of a text, the most frequent first.
    fn listed(&self, text: &str, gone: Range<usize>, counter: &dyn TokenCounter) -> String {
        let (Some(head), Some(middle), Some(tail)) =
            (text.get(..gone.start), text.get(gone.clone()), text.get(gone.end..))
        else {
            return String::new();
        };
        let shown: HashSet<&str> = names(head).chain(names(tail)).collect();
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

/// Returns how many bytes of a text have about this many tokens, estimated from its beginning.
fn bytes_of(text: &str, tokens: u64, counter: &dyn TokenCounter) -> usize {
    let sample = text.get(..text.floor_char_boundary(SAMPLE)).unwrap_or(text);
    let bytes = u128::from(tokens) * sample.len() as u128 / u128::from(counter.text(sample).max(1));
    usize::try_from(bytes).unwrap_or(usize::MAX)
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

/// Returns whether a tool result shows a file: its lines are numbered consecutively, or the only text in its call is
/// the path of a file.
pub(crate) fn shows_file(text: &str, call: Option<&ToolCall>) -> bool {
    is_numbered(text) || call.is_some_and(names_a_file)
}

/// Returns whether most lines begin with a number that is one higher than that of the line before.
fn is_numbered(text: &str) -> bool {
    let (mut lines, mut numbered, mut last) = (0, 0, None);
    for line in text.lines().filter(|line| !line.trim().is_empty()).take(LOOKED_AT) {
        lines += 1;
        let number = number(line);
        numbered +=
            u32::from(number.is_some() && (last.is_none() || number == last.and_then(|last: u64| last.checked_add(1))));
        last = number.or(last);
    }
    lines >= 4 && numbered * 5 >= lines * 3
}

/// Returns the number that a line begins with, if a separator follows it.
fn number(line: &str) -> Option<u64> {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = line.split_at_checked(digits)?;
    rest.starts_with(['\t', ':', '|', ' ', '\u{2192}']).then(|| number.parse().ok()).flatten()
}

/// Returns whether the only text among the arguments of a call is a path with an extension.
fn names_a_file(call: &ToolCall) -> bool {
    /// Larger arguments do more than name a file.
    const LONGEST: usize = 1_000;
    if call.arguments.len() > LONGEST {
        return false;
    }
    let arguments: Option<HashMap<String, serde_json::Value>> = serde_json::from_str(&call.arguments).ok();
    let arguments = arguments.unwrap_or_default();
    let mut texts = arguments.values().filter_map(serde_json::Value::as_str);
    let (Some(path), None) = (texts.next(), texts.next()) else { return false };
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let extension = file.rsplit_once('.').map(|(_, extension)| extension);
    let is_plain =
        |extension: &str| !extension.is_empty() && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    extension.is_some_and(is_plain) && !path.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookback_tokens::Estimate;

    const CAPS: Caps = Caps { file: 400, other: 100, names: 20 };

    fn lines(count: usize) -> String {
        (1..=count).map(|line| format!("line {line} of what the tool printed\n")).collect()
    }

    #[test]
    fn whole_lines_are_kept_of_head_and_tail() {
        let text = lines(200);
        let shown = CAPS.cut(&text, false, &[], 7, &Estimate::default()).unwrap().apply(&text);
        let kept: Vec<&str> = shown.lines().collect();
        let marker = kept.iter().position(|line| line.starts_with("[...")).unwrap();
        let (head, tail) = (marker, kept.len() - marker - 1);
        assert!(head > tail && tail > 2, "{shown}");
        assert!(kept.iter().all(|line| text.contains(line) || line.starts_with("[...")), "{shown}");
        assert_eq!(kept[marker], format!("[... {} lines cut; entry 7 has them ...]", 200 - head - tail));
        assert!(Estimate::default().text(&shown) < 150, "{shown}");
    }

    #[test]
    fn a_file_has_a_cap_of_its_own() {
        let text = lines(30);
        assert!(CAPS.cut(&text, false, &[], 7, &Estimate::default()).is_some());
        assert!(CAPS.cut(&text, true, &[], 7, &Estimate::default()).is_none());
    }

    #[test]
    fn names_that_were_cut_are_listed() {
        let text = format!("{}see src/main.rs and read_file\nagain read_file\n{}", lines(40), lines(40));
        let shown = CAPS.cut(&text, false, &[], 7, &Estimate::default()).unwrap().apply(&text);
        assert!(shown.contains("has them, with read_file src/main.rs ...]"), "{shown}");
    }

    #[test]
    fn one_long_line_is_cut_inside() {
        let text = "word ".repeat(2_000);
        let shown = CAPS.cut(&text, false, &[], 7, &Estimate::default()).unwrap().apply(&text);
        assert!(shown.starts_with("word word") && shown.ends_with("word "), "{shown}");
        assert!(shown.contains("characters cut; entry 7 has them ...]"), "{shown}");
    }

    #[test]
    fn no_character_is_torn_apart() {
        for text in ["\u{37f0}".repeat(500), format!("{}\n{}", "\u{e9}".repeat(701), "e\u{301}".repeat(700))] {
            for other in 1..60 {
                let caps = Caps { other, ..CAPS };
                let shown = caps.cut(&text, false, &[], 7, &Estimate::default()).unwrap().apply(&text);
                assert!(shown.contains("entry 7 has them"), "{shown}");
            }
        }
    }

    #[test]
    fn lines_that_are_not_shown_anyway_do_not_count() {
        let text = lines(200);
        let all = Repeat { start: 0, end: text.len() - 40, entry: 3 };
        assert_eq!(CAPS.cut(&text, false, &[all], 7, &Estimate::default()), None);
    }

    #[test]
    fn a_file_is_told_by_its_numbered_lines_or_its_name() {
        let numbered: String = (5..20).map(|line| format!("{line:>6}\u{2192}    let x = {line};\n")).collect();
        assert!(shows_file(&numbered, None));
        let viewed = format!("Here's the file:\n\n{}", (1..9).map(|line| format!("{line}\tx\n")).collect::<String>());
        assert!(shows_file(&viewed, None));
        let grep: String = (1..20).map(|line| format!("{}:fn x{line}()\n", line * 7)).collect();
        assert!(!shows_file(&grep, None));
        let call = |arguments: &str| ToolCall::new("c", "f", arguments);
        assert!(shows_file("fn main() {}", Some(&call(r#"{"path":"src/main.rs","limit":100}"#))));
        assert!(!shows_file("fn main() {}", Some(&call(r#"{"path":"src/main.rs","pattern":"fn"}"#))));
        assert!(!shows_file("fn main() {}", Some(&call(r#"{"command":"cat src/main.rs"}"#))));
        assert!(!shows_file("fn main() {}", Some(&call(r#"{"path":"src"}"#))));
    }
}

//! Numbered lines: files that a tool shows with a number before each line.

/// The number of lines that are examined to recognize numbered lines.
const LOOKED_AT: usize = 200;

/// Returns whether most lines of a text begin with a number that is one higher than that of the line before.
///
/// ```
/// use lookback_content::numbered::is_numbered;
///
/// assert!(is_numbered("7\tfn main() {\n8\t    run();\n9\t}\n10\t\n"));
/// // Lines that a search has found.
/// assert!(!is_numbered("7:fn main() {\n12:fn run() {\n40:fn stop() {\n41:fn end() {\n"));
/// ```
pub fn is_numbered(text: &str) -> bool {
    let (mut lines, mut numbered, mut last) = (0, 0, None);
    for line in text.lines().filter(|line| !line.trim().is_empty()).take(LOOKED_AT) {
        lines += 1;
        let number = split(line).map(|(number, _)| number);
        numbered += u32::from(number.is_some() && (last.is_none() || follows(last, number)));
        last = number.or(last);
    }
    lines >= 4 && numbered * 5 >= lines * 3
}

/// Returns the lines of a text with their ends, with only some of their numbers: the first, each that starts another
/// count, and every tenth. A line without a number ends a count, unless it is empty.
///
/// ```
/// use lookback_content::numbered::sparsely_numbered;
///
/// let lines: Vec<&str> = sparsely_numbered("8\tfn main() {\n9\t    run();\n10\t}\n20\tmod tests;\n").collect();
/// assert_eq!(lines, ["8\tfn main() {\n", "    run();\n", "10\t}\n", "20\tmod tests;\n"]);
/// ```
pub fn sparsely_numbered(text: &str) -> impl Iterator<Item = &str> {
    let mut last = None;
    text.split_inclusive('\n').map(move |line| {
        let Some((number, rest)) = split(line) else {
            last = last.filter(|_| line.trim().is_empty());
            return line;
        };
        let before = last.replace(number);
        if follows(before, Some(number)) && !number.is_multiple_of(10) { rest } else { line }
    })
}

/// Returns the lines of a text with their ends, without the numbers that belong to a count.
///
/// ```
/// use lookback_content::numbered::unnumbered;
///
/// let lines: Vec<&str> = unnumbered("8\tfn main() {\n9\t    run();\n10\t}\n2026 lines in all\n").collect();
/// assert_eq!(lines, ["fn main() {\n", "    run();\n", "}\n", "2026 lines in all\n"]);
/// ```
pub fn unnumbered(text: &str) -> impl Iterator<Item = &str> {
    let mut last = None;
    let mut lines = text.split_inclusive('\n').peekable();
    std::iter::from_fn(move || {
        let line = lines.next()?;
        let Some((number, rest)) = split(line) else {
            last = last.filter(|_| line.trim().is_empty());
            return Some(line);
        };
        let before = last.replace(number);
        let next = lines.peek().and_then(|next| split(next)).map(|(number, _)| number);
        Some(if follows(before, Some(number)) || follows(Some(number), next) { rest } else { line })
    })
}

fn follows(last: Option<u64>, number: Option<u64>) -> bool {
    last.is_some() && number == last.and_then(|last| last.checked_add(1))
}

/// Splits a line into the number that it begins with, and the text after the separator.
fn split(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start_matches([' ', '\t']);
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = line.split_at_checked(digits)?;
    let rest = rest.strip_prefix(['\t', ':', '|', ' ', '\u{2192}'])?;
    Some((number.parse().ok()?, rest))
}

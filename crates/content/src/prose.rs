//! Prose: whether a text was written to be read, such as the report of another agent, and was not printed by a program.

/// A line of prose has at least this many words, or this many characters of a script without spaces between words.
const WORDS: usize = 8;
const CHARACTERS: usize = 15;
/// An element of a list or another line that is marked as in Markdown has at least this many words.
const MARKED_WORDS: usize = 3;

/// Returns whether a text is prose: two in five of its lines have many words and little else, or are marked as in
/// Markdown.
///
/// The figures were chosen on recorded tool results. Reports of agents are prose, and most output of programs is not.
pub fn is_prose(text: &str) -> bool {
    if text.trim_start().starts_with(['{', '[']) {
        // JSON, whatever is in it.
        return false;
    }
    let (mut lines, mut of_prose) = (0usize, 0usize);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lines += 1;
        of_prose += usize::from(is_line_of_prose(line));
    }
    of_prose > 0 && of_prose * 5 >= lines * 2
}

fn is_line_of_prose(line: &str) -> bool {
    let words = line.split_whitespace().count();
    if is_marked(line) && words >= MARKED_WORDS {
        return true;
    }
    let (mut all, mut letters, mut unspaced) = (0usize, 0usize, 0usize);
    for char in line.chars() {
        all += 1;
        letters += usize::from(char.is_alphabetic() || char == ' ');
        unspaced += usize::from(char >= '\u{2e80}');
    }
    letters * 5 >= all * 4 && (words >= WORDS || unspaced >= CHARACTERS)
}

/// Returns whether a line is a heading, an element of a list, a quotation, a row of a table or emphasized, in Markdown.
fn is_marked(line: &str) -> bool {
    let heading = line.trim_start_matches('#');
    let number = line.trim_start_matches(|char: char| char.is_ascii_digit());
    (heading.len() < line.len() && heading.starts_with(' '))
        || (number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") ")))
        || ["- ", "* ", "+ ", "> ", "|", "**"].iter().any(|mark| line.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_to_be_read_is_prose() {
        for text in [
            "I looked through the module and found that nothing else calls it.\n\nIt can be removed without a change.",
            "## Findings\n\n- The parser reads the file twice.\n- The cache is never cleared.\n\n```\nlet x = 1;\n```\n\nBoth can be mended in an hour or two.",
            "Я прочитал весь модуль и не нашёл других мест, где он вызывается.",
            "我看了整个模块，没有找到其他调用它的地方，可以放心删除。",
            "1. Read the configuration first.\n2) Then start the server.",
        ] {
            assert!(is_prose(text), "{text}");
        }
    }

    #[test]
    fn what_a_program_printed_is_not() {
        for text in [
            "",
            "\n \n",
            "running 3 tests\ntest a::b ... ok\ntest a::c ... ok\ntest result: ok. 2 passed; 0 failed; 0 ignored",
            "src/main.rs:12:    let window = session.window().await?;\nsrc/lib.rs:9:fn window() {",
            "{\"name\": \"lookback\", \"words\": \"there are many words in this text of an object\"}",
            "total 12\ndrwxr-xr-x 2 root root 4096 Nov 27 15:05 .\n-rw-r--r-- 1 root root 2308 Nov 27 15:05 README.md",
            "diff --git a/a b/a\n@@ -1,3 +1,3 @@\n-let a = 1;\n+let a = 2;",
        ] {
            assert!(!is_prose(text), "{text}");
        }
    }
}

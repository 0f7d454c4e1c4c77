//! Telling lines: those in the output of a tool that say how something ended, such as errors and counts of tests.

use std::collections::HashSet;

use lookback_tokens::TokenCounter;

/// The most bytes of a line that are kept.
const LONGEST: usize = 300;

/// The words that make a line telling, in lower case.
const WORDS: [&str; 16] = [
    "aborted",
    "assertion",
    "cannot",
    "denied",
    "error",
    "errors",
    "exception",
    "fail",
    "failed",
    "failure",
    "failures",
    "fatal",
    "panic",
    "panicked",
    "passed",
    "traceback",
];

/// Returns the telling lines of a text, each once, up to this many tokens. A long line is cut.
///
/// The line after an error often has its place, so it counts, too.
pub(crate) fn telling_lines<'a>(text: &'a str, most: u64, counter: &dyn TokenCounter) -> Vec<&'a str> {
    let (mut lines, mut known, mut tokens, mut follows) = (Vec::new(), HashSet::new(), 0, false);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let is_telling = is_telling(line);
        if !is_telling && !std::mem::replace(&mut follows, false) {
            continue;
        }
        follows = is_telling;
        let line = line.get(..line.floor_char_boundary(LONGEST)).unwrap_or(line).trim_end();
        if known.insert(line) {
            tokens += counter.text(line) + 1;
            if tokens > most {
                break;
            }
            lines.push(line);
        }
    }
    lines
}

/// Returns whether a text says that something failed. Words for a success do not say so, nor do counts of none, such as in
/// `3 passed; 0 failed`.
pub(crate) fn fails(text: &str) -> bool {
    text.lines().any(|line| {
        let words: Vec<&str> = words(line).collect();
        let ends_well = words.last().is_some_and(|last| last.eq_ignore_ascii_case("ok"));
        let is_none =
            |at: Option<usize>| at.and_then(|at| words.get(at)).is_some_and(|word| matches!(*word, "0" | "no" | "No"));
        let fails = |(at, word): (usize, &&str)| {
            is_telling_word(word)
                && !word.eq_ignore_ascii_case("passed")
                && !is_none(at.checked_sub(1))
                && !is_none(at.checked_add(1))
        };
        !ends_well && words.iter().enumerate().any(fails)
    })
}

/// Returns whether a line has a word such as `error`, or a name such as `TypeError`. A part of a path or of a longer
/// name does not count.
fn is_telling(line: &str) -> bool {
    words(line).any(is_telling_word)
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    line.split(move |c| !inner(c)).map(|word| word.trim_matches(['.', '-', '/'])).filter(|word| !word.is_empty())
}

fn is_telling_word(word: &str) -> bool {
    let is_word = || WORDS.iter().any(|telling| telling.eq_ignore_ascii_case(word));
    let is_name = || word.ends_with("Error") || word.ends_with("Exception");
    (4..=60).contains(&word.len()) && (is_word() || is_name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookback_tokens::Estimate;

    #[test]
    fn a_count_of_no_failures_is_not_a_failure() {
        assert!(fails("running 2 tests\ntest b ... FAILED\n1 passed; 1 failed\n"));
        assert!(fails("TypeError: x is not a function"));
        assert!(fails("Error: connect ECONNREFUSED 127.0.0.1:80"));
        assert!(fails("AssertionError: assert 0 == 1\n1 failed, 3 passed in 0.5s"));
        assert!(!fails("tests/test_a.py::test_a PASSED\n[  PASSED  ] 3 tests.\nErrors: 0, Failures: 0\nNo errors."));
        assert!(!fails("running 2 tests\ntest error::a ... ok\n2 passed; 0 failed\n0 errors, 0 warnings\n"));
        assert!(!fails(""));
    }

    #[test]
    fn lines_with_an_error_its_place_and_a_count_of_tests_are_telling() {
        let text = "   Compiling notes v0.1.0\nerror[E0308]: mismatched types\n  --> src/main.rs:4:5\n   |\n\
            test a ... ok\ntest b ... FAILED\ntest c ... ok\nTypeError: x is not a function\n    at run (main.js:3)\n\
            test b ... FAILED\n3 passed; 1 failed\n";
        let told = [
            "error[E0308]: mismatched types",
            "  --> src/main.rs:4:5",
            "test b ... FAILED",
            "test c ... ok",
            "TypeError: x is not a function",
            "    at run (main.js:3)",
            "3 passed; 1 failed",
        ];
        assert_eq!(telling_lines(text, 1_000, &Estimate::default()), told);
        assert_eq!(telling_lines(text, 28, &Estimate::default()), told[..2]);
    }

    #[test]
    fn names_of_files_and_longer_names_are_not_telling() {
        for line in ["src/error.rs", "errors.log 12 KB", "fn error_of(line)", "no-error-here", "the end"] {
            assert!(!is_telling(line), "{line}");
        }
    }
}

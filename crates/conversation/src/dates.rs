//! Removing dates from texts, because some clients put the current date into the first message and change it every day.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// A date in numbers, or in English words, with or without its weekday.
static DATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const WEEKDAY: &str = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,? )?";
    const MONTH: &str = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)";
    const DAY: &str = r"\d{1,2}(?:st|nd|rd|th)?";
    let words = format!(r"{WEEKDAY}(?:{MONTH} {DAY},? \d{{4}}|{DAY} {MONTH},? \d{{4}})");
    Regex::new(&format!(r"(?i)\b(?:{words}|\d{{4}}[-/]\d{{2}}[-/]\d{{2}}|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{4}})\b")).ok()
});

/// Returns a text without its dates.
pub(super) fn without_dates(text: &str) -> Cow<'_, str> {
    match &*DATE {
        Some(date) => date.replace_all(text, ""),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_left_out_and_other_numbers_stay() {
        for (text, left) in [
            ("Today's date is Tuesday, November 24, 2026 (formatted).", "Today's date is  (formatted)."),
            ("today is 2026-11-24.", "today is ."),
            ("Today is the 1st May 2027, or 5/1/2027, or 01.05.2027.", "Today is the , or , or ."),
            ("Fix issue 2026 in version 1.2.3, may 5 times", "Fix issue 2026 in version 1.2.3, may 5 times"),
            ("order 12-345-6789", "order 12-345-6789"),
        ] {
            assert_eq!(without_dates(text), left);
        }
    }
}

//! The numbers of a text, regardless of how their digits are grouped.

/// Numbers with fewer digits are not compared, because a summary may count things.
const LEAST: usize = 3;
/// Numbers with more digits are data, so a suffix such as `k` does not scale them.
const LONG: usize = 12;

/// A number: digits with single separators between them, such as `64,000`, `10.0.0.1` or `3.5`.
pub(super) struct Number<'a> {
    text: &'a str,
    before: Option<char>,
    after: Option<char>,
}

/// Returns the numbers of a text, in order. The time is linear in the length of the text.
pub(super) fn numbers(text: &str) -> Numbers<'_> {
    Numbers { text, at: 0 }
}

pub(super) struct Numbers<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Numbers<'a> {
    type Item = Number<'a>;

    fn next(&mut self) -> Option<Number<'a>> {
        let is_digit = |c: char| c.is_ascii_digit();
        let start = self.at + self.text.get(self.at..)?.find(is_digit)?;
        let mut end = start;
        let mut signs = self.text.get(start..)?.char_indices().peekable();
        while let Some((offset, sign)) = signs.next() {
            if is_digit(sign) {
                end = start + offset + 1;
            } else if !(separates(sign) && signs.peek().is_some_and(|(_, next)| is_digit(*next))) {
                break;
            }
        }
        self.at = end;
        let before = self.text.get(..start).and_then(|text| text.chars().next_back());
        let after = self.text.get(end..).and_then(|text| text.chars().next());
        Some(Number { text: self.text.get(start..end)?, before, after })
    }
}

fn separates(sign: char) -> bool {
    matches!(sign, '.' | ',' | '_' | '\'' | '\u{2019}' | '\u{a0}' | '\u{202f}')
}

impl<'a> Number<'a> {
    /// Returns the number as written in the text.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the digits that the source must have if a summary has this number. There are none if the number is
    /// short, part of a name, a percentage, or rounded, such as `128k`. For a decimal number, they are the digits
    /// before the point.
    pub(super) fn wanted(&self) -> Vec<String> {
        let within = |sign: char| sign.is_alphanumeric() || sign == '_';
        if self.before.is_some_and(within) || matches!(self.after, Some('k' | 'K' | 'M' | '%')) {
            return Vec::new();
        }
        let groups = self.groups();
        let mut signs = self.text.chars().filter(|sign| separates(*sign));
        let dots = signs.clone().all(|sign| sign == '.');
        let wanted = match signs.next() {
            Some('.') if groups.len() == 2 => groups.first().map(|first| (*first).to_owned()).into_iter().collect(),
            // An address, a version, or a date.
            Some(_) if dots => vec![groups.concat()],
            Some(_) if in_thousands(&groups) => vec![groups.concat()],
            _ => groups.into_iter().map(str::to_owned).collect::<Vec<_>>(),
        };
        wanted.into_iter().filter(|digits| digits.len() >= LEAST).collect()
    }

    /// Returns the digits that a summary may use for this number of the source: all digits, each group, and `64000` for
    /// `64k`.
    pub(super) fn forms(&self) -> impl Iterator<Item = String> + use<'a> {
        let groups = self.groups();
        let all = groups.concat();
        let factor = match self.after {
            Some('k' | 'K') => 1e3,
            Some('M') => 1e6,
            _ => 0.0,
        };
        let is_scaled = factor > 0.0 && all.len() <= LONG;
        let value = if is_scaled { self.text.replace(',', "").parse::<f64>().ok() } else { None };
        let scaled = value.map(|value| format!("{:.0}", value * factor));
        let groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
        groups.into_iter().chain([all]).chain(scaled).filter(|digits| digits.len() >= LEAST)
    }

    fn groups(&self) -> Vec<&'a str> {
        self.text.split(separates).collect()
    }
}

/// Whether the groups are thousands, as in `64,000`.
fn in_thousands(groups: &[&str]) -> bool {
    groups.split_first().is_some_and(|(first, rest)| {
        (1..=3).contains(&first.len()) && !rest.is_empty() && rest.iter().all(|group| group.len() == 3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Vec<String> {
        numbers(text).flat_map(|number| number.wanted()).collect()
    }

    #[test]
    fn digits_are_compared_without_what_separates_them() {
        for (text, expected) in [
            ("port 5050.", vec!["5050"]),
            ("64,000 or 64_000 or 64'000", vec!["64000", "64000", "64000"]),
            ("on 10.0.0.1, version 1.90.0", vec!["10001", "1900"]),
            ("ports 5050,5051,80", vec!["5050", "5051"]),
            ("12.5, 1234.5, 0.7142 and 3,5", vec!["1234"]),
            ("12 of 99, 100%, 128k, gpt4096, x_100", vec![]),
            ("main.rs:152:7", vec!["152"]),
        ] {
            assert_eq!(wanted(text), expected, "{text}");
        }
    }

    #[test]
    fn a_source_has_a_number_in_all_its_forms() {
        let forms = |text: &str| numbers(text).flat_map(|number| number.forms()).collect::<Vec<_>>();
        assert_eq!(forms("64k"), ["64000"]);
        assert_eq!(forms("1.5M"), ["1500000"]);
        assert_eq!(forms("128,431"), ["128", "431", "128431"]);
        assert_eq!(forms("v2024"), ["2024", "2024"]);
    }
}

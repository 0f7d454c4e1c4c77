//! Finds identifiers: the names and numbers in a text that a model may use again later.

use serde::Serialize;

/// Returns the identifiers in a text: paths, dotted, snake_case and camelCase names, numbers of four digits or more,
/// and hashes.
///
/// ```
/// use lookback_content::identifiers::identifiers;
///
/// let text = "See src/main.rs:42 and read_file (port 5050) in commit 3f2a9bc; the rest is prose.";
/// assert_eq!(identifiers(text).collect::<Vec<_>>(), ["src/main.rs", "read_file", "5050", "3f2a9bc"]);
/// ```
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let joined = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'));
    text.split(joined).map(trim).filter(|word| is_identifier(word))
}

/// Returns the identifiers that are worth listing. Identifiers of more than 120 bytes are left out, and an identifier
/// from the output of grep, as in `main.rs-152-use`, is reduced to the file.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    const LONGEST: usize = 120;
    identifiers(text).filter_map(|found| {
        let name = without_line(found);
        let is_name = name.len() <= LONGEST && (name.len() == found.len() || is_identifier(name));
        is_name.then_some(name)
    })
}

/// What an identifier names, by its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file or folder, such as `src/main.rs`.
    File,
    /// A number of digits alone, such as `5050`.
    Number,
    /// Anything else, such as `read_file` or `3f2a9bc`.
    Name,
}

impl Kind {
    /// Returns the kind of an identifier.
    ///
    /// ```
    /// use lookback_content::identifiers::Kind;
    ///
    /// let kinds = ["src/main", "main.rs", "5050", "serde.1.0.219", "read_file"].map(Kind::of);
    /// assert_eq!(kinds, [Kind::File, Kind::File, Kind::Number, Kind::Name, Kind::Name]);
    /// ```
    pub fn of(identifier: &str) -> Kind {
        let extension = |name: &str| {
            let end = name.rsplit_once('.').map_or("", |(_, end)| end);
            (1..=5).contains(&end.len())
                && end.starts_with(|first: char| first.is_ascii_lowercase())
                && end.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        match identifier {
            _ if identifier.bytes().all(|byte| byte.is_ascii_digit()) => Kind::Number,
            _ if identifier.contains('/') || extension(identifier) => Kind::File,
            _ => Kind::Name,
        }
    }
}

/// Removes a line number and the rest after it, if they follow the name of a file.
fn without_line(name: &str) -> &str {
    let number = |rest: &str| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        // A longer number is a date, as in `app.log-20241120`.
        (1..=6).contains(&digits) && rest.as_bytes().get(digits).is_none_or(|next| *next == b'-')
    };
    let is_file = |file: &str| {
        let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
        extension.starts_with(|first: char| first.is_ascii_alphabetic()) && !extension.contains(['/', '-', '_'])
    };
    let line = name.match_indices('-').find_map(|(at, _)| {
        let (file, rest) = (name.get(..at)?, name.get(at + 1..)?);
        (number(rest) && is_file(file)).then_some(file)
    });
    line.unwrap_or(name)
}

/// Removes a sentence's punctuation around a word.
fn trim(word: &str) -> &str {
    word.trim_matches(['.', '-', '/'])
}

fn is_identifier(word: &str) -> bool {
    // Longer runs are data, not names.
    if !(4..=200).contains(&word.len()) {
        return false;
    }
    let bytes = word.as_bytes();
    // Words of only lowercase letters are ordinary words.
    if bytes.iter().all(u8::is_ascii_lowercase) {
        return false;
    }
    let letters = bytes.iter().any(u8::is_ascii_alphabetic);
    if !letters {
        return bytes.iter().all(u8::is_ascii_digit);
    }
    let inner = |mark: u8| {
        bytes.windows(3).any(|three| match three {
            [before, middle, after] => {
                *middle == mark && before.is_ascii_alphanumeric() && after.is_ascii_alphanumeric()
            }
            _ => false,
        })
    };
    let camel = || {
        bytes
            .windows(2)
            .any(|two| matches!(two, [before, after] if before.is_ascii_lowercase() && after.is_ascii_uppercase()))
    };
    let hash = || {
        bytes.len() >= 7
            && bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && bytes.iter().any(u8::is_ascii_digit)
    };
    bytes.contains(&b'/') || inner(b'.') || inner(b'_') || camel() || hash()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_has_no_identifiers() {
        assert_eq!(identifiers("The quick brown fox - 123 times. Really... (yes/no)").collect::<Vec<_>>(), ["yes/no"]);
    }

    #[test]
    fn of_a_line_of_grep_the_file_is_worth_listing() {
        let text = "src/main.rs-152-    read_file(path)";
        assert_eq!(names(text).collect::<Vec<_>>(), ["src/main.rs", "read_file"]);
        assert_eq!(names("src/main.rs-152-use").collect::<Vec<_>>(), ["src/main.rs"]);
        assert!(identifiers(text).any(|name| name == "src/main.rs-152"));
        for name in ["lib-1.2.3-4", "v1.2.3-45", "a.test-case.js", "app.log-20241120"] {
            assert_eq!(names(name).collect::<Vec<_>>(), [name]);
        }
    }

    #[test]
    fn the_kinds_that_are_told_apart() {
        let text = "std.mem a.b.c HashMap getUser user_id ./a/b/ 20260101 12 deadbeef0 facade";
        let found = ["std.mem", "a.b.c", "HashMap", "getUser", "user_id", "a/b", "20260101", "deadbeef0"];
        // "a/b" has three characters, which is too short to be a name.
        let expected: Vec<_> = found.into_iter().filter(|word| *word != "a/b").collect();
        assert_eq!(identifiers(text).collect::<Vec<_>>(), expected);
    }
}

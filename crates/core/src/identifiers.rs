//! Identifiers: the names and numbers in a text that a model uses again later.

/// Returns the identifiers in a text: paths, dotted, snake_case and camelCase names, numbers of four digits or more,
/// and hashes.
///
/// ```
/// use lookback_core::identifiers::identifiers;
///
/// let text = "See src/main.rs:42 and read_file (port 5050) in commit 3f2a9bc; the rest is prose.";
/// assert_eq!(identifiers(text).collect::<Vec<_>>(), ["src/main.rs", "read_file", "5050", "3f2a9bc"]);
/// ```
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let joined = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'));
    text.split(joined).map(trim).filter(|word| is_identifier(word))
}

/// Returns the identifiers that are worth listing: without numbers of lines that grep wrote after a file, as in
/// `main.rs-152`, and without very long ones.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    const LONGEST: usize = 120;
    identifiers(text).filter(|name| name.len() <= LONGEST && !is_line_of_grep(name))
}

fn is_line_of_grep(name: &str) -> bool {
    let Some((file, line)) = name.rsplit_once('-') else { return false };
    file.contains('.') && line.bytes().all(|byte| byte.is_ascii_digit())
}

/// Removes the punctuation of the sentence around a word.
fn trim(word: &str) -> &str {
    word.trim_matches(['.', '-', '/'])
}

fn is_identifier(word: &str) -> bool {
    // Longer runs are data, not names.
    if !(4..=200).contains(&word.len()) {
        return false;
    }
    let bytes = word.as_bytes();
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
    fn a_line_of_grep_is_not_worth_listing() {
        let text = "src/main.rs-152-    read_file(path)";
        assert_eq!(names(text).collect::<Vec<_>>(), ["read_file"]);
        assert!(identifiers(text).any(|name| name == "src/main.rs-152"));
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

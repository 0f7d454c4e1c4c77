//! Memory identifiers, which may be any text, and the names of their logs.

use std::fmt::Write as _;

use crate::OptionError;
use lookback_store::LogName;

/// The prefix of a log's name if the memory's identifier is not a valid log name.
const ESCAPED: &str = "id:";

/// Returns the name of a memory's log. It is the identifier itself if that is a valid log name. Otherwise, it is `id:`
/// and the identifier, with `%` and two hexadecimal digits for each byte of a character that a name cannot have. Two
/// identifiers never share a name.
pub(super) fn name_of(id: &str) -> Result<LogName, OptionError> {
    if id.is_empty() {
        return Err(OptionError { option: "id", expected: "one character or more", value: "none".to_owned() });
    }
    if let Some(name) = Some(id).filter(|id| !id.starts_with(ESCAPED)).and_then(|id| id.parse().ok()) {
        return Ok(name);
    }
    let mut name = ESCAPED.to_owned();
    for character in id.chars() {
        if character.is_control() || matches!(character, '%' | '/' | '\\') {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                _ = write!(name, "%{byte:02X}");
            }
        } else {
            name.push(character);
        }
    }
    name.parse().map_err(|_| OptionError {
        option: "id",
        expected: "short enough for a log's name of 200 characters",
        value: format!("{} characters as `{ESCAPED}…`", name.chars().count()),
    })
}

/// Returns the identifier of the memory whose log has this name.
pub(super) fn id_of(name: &LogName) -> String {
    let Some(escaped) = name.as_str().strip_prefix(ESCAPED) else { return name.to_string() };
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let [first, after @ ..] = rest {
        let code = if *first == b'%' { after.get(..2).and_then(|code| std::str::from_utf8(code).ok()) } else { None };
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn any_identifier_is_a_name_of_its_own_and_comes_back() {
        let ids = [
            "default",
            "ada@example.org",
            "https://example.org/chat/7?user=ada#top",
            "a//b",
            "a/b",
            "/",
            ".",
            "..",
            "../secrets",
            "C:\\chats\\ada",
            "line\nbreak",
            "100%",
            "%2F",
            "id:a",
            "id:a%2Fb",
            "id:",
            "compact:chat:summary",
            "memory:chat:facts",
            " ",
            "日本語の会話",
            "\u{7f}\u{85}",
        ];
        let names: BTreeMap<_, _> = ids.iter().map(|id| (name_of(id).unwrap(), *id)).collect();
        assert_eq!(names.len(), ids.len(), "two have one name: {names:?}");
        for (name, id) in names {
            assert_eq!(id_of(&name), id);
        }
        assert_eq!(name_of("team/agent-7").unwrap().as_str(), "team/agent-7");
    }

    #[test]
    fn no_identifier_and_one_without_end_are_refused() {
        assert_eq!(name_of("").unwrap_err().to_string(), "id must be one character or more, got none");
        assert!(name_of(&"x".repeat(200)).is_ok());
        let told = name_of(&"x".repeat(300)).unwrap_err().to_string();
        assert!(told.starts_with("id must be short enough for a log's name of 200 characters, got 303"), "{told}");
    }
}

//! Counts JSON that only the provider understands: as text, except for long strings in base64.

use serde_json::value::RawValue;

use super::TokenCounter;
use super::media::data_tokens;
use super::sealed_tokens;
use lookback_content::base64::{decoded, lines_of_one_length, unbroken};
use lookback_content::json;
use lookback_wire::size::Size;

/// The longest string of the characters of base64 that is counted as text. Words and names are shorter.
const LONGEST_WORD: usize = 512;

/// Measures JSON. Providers do not read long strings in base64 as text. They are media, such as pictures, or encrypted
/// text.
pub(crate) fn json_size(value: &RawValue, counter: &dyn TokenCounter) -> Size {
    let whole = value.get();
    // Most JSON is too short for such a string.
    if whole.len() <= LONGEST_WORD {
        return Size { tokens: counter.text(whole), ..Size::default() };
    }
    let (mut text, mut size, mut rest, mut member) = (String::new(), Size::default(), whole, "");
    while let Some((before, string)) = next_string(rest) {
        rest = rest.get(before.len() + string.len()..).unwrap_or_default();
        text.push_str(before);
        let is_sealed = ["ncrypted", "ignature"].iter().any(|sealed| member.contains(sealed));
        match data_in(string, is_sealed) {
            Some((mime, data)) => {
                text.push_str("\"\"");
                size += if is_sealed {
                    Size { tokens: sealed_tokens(&data), ..Size::default() }
                } else {
                    Size { tokens: data_tokens(&data, mime.as_deref(), counter), media: 1, ..Size::default() }
                };
            }
            None => text.push_str(string),
        }
        if rest.trim_start().starts_with(':') {
            member = string;
        }
    }
    text.push_str(rest);
    size + Size { tokens: counter.text(&text), ..Size::default() }
}

/// Splits JSON before its first string: the text before it, and the string with its quotes.
fn next_string(json: &str) -> Option<(&str, &str)> {
    let start = json.find('"')?;
    let (before, rest) = json.split_at_checked(start)?;
    let mut escaped = false;
    let end = rest.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some((before, rest.get(..end + 2)?))
}

/// Returns the media type and the base64 of a JSON string, if the whole string is base64 or a data URL.
fn data_in(string: &str, is_sealed: bool) -> Option<(Option<String>, String)> {
    if string.len() <= LONGEST_WORD {
        return None;
    }
    let raw: &RawValue = serde_json::from_str(string).ok()?;
    let text = json::text(raw)?;
    if let Some((head, data)) = text.split_once(',').filter(|(head, _)| head.len() < LONGEST_WORD) {
        let head = head.to_ascii_lowercase();
        let mime = head.strip_prefix("data:").and_then(|head| head.strip_suffix(";base64"))?;
        let mime = mime.split(';').next().filter(|mime| !mime.is_empty());
        return Some((mime.map(str::to_owned), unbroken(data).into_owned()));
    }
    let data = lines_of_one_length(&text)?;
    let of_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
    // Long names and numbers use the same characters.
    let is_mixed =
        || data.bytes().any(|byte| byte.is_ascii_uppercase()) && data.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_data = data.bytes().all(of_base64) && (is_sealed || is_mixed() && !decoded(&data, usize::MAX).is_empty());
    is_data.then(|| (None, data.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::samples::{base64, broken, counter, png};

    #[test]
    fn base64_in_json_that_is_unknown_is_priced_as_media_wherever_it_is() {
        let data = base64(&png(800, 600, 90_000));
        for json in [
            format!(r#"{{"type":"image_generation_call","result":"{data}"}}"#),
            format!(r#"{{"output":{{"image_url":"data:image/png;base64,{data}"}}}}"#),
            format!(r#"[{{"a":[{{"b":"{}"}}]}}]"#, data.replace('/', "\\/")),
            format!(r#"["\"","{}"]"#, data.replace('+', "-").replace('/', "_").trim_end_matches('=')),
            format!(r#"{{"url":"DATA:image/png;charset=x;BASE64, {data}"}}"#),
            format!(r#"{{"data":"{}"}}"#, broken(&data).replace('\n', "\\r\\n")),
        ] {
            let size = json_size(&RawValue::from_string(json.clone()).unwrap(), &counter());
            assert_eq!(size.media, 1);
            assert!((29 * 22..29 * 22 + 60).contains(&size.tokens), "{} {}", size.tokens, &json[..40]);
        }
    }

    #[test]
    fn long_words_that_are_no_base64_are_text() {
        let numbers = (0..5_000).map(|number| format!("{number}\\n")).collect();
        let names = (0..900).map(|number| format!("Name_{number}\\n")).collect();
        let dashes = "-".repeat(600);
        for word in ["Say 5 words. ".repeat(100), "a.b/c".repeat(500), "\u{5b57}".repeat(600), numbers, names, dashes] {
            let json = format!(r#"{{"text":"{word}"}}"#);
            let size = json_size(&RawValue::from_string(json.clone()).unwrap(), &counter());
            assert_eq!((size.tokens, size.media), (counter().text(&json), 0));
        }
    }

    #[test]
    fn what_the_provider_encrypted_is_priced_as_the_text_that_it_is() {
        let sealed = base64(&png(8, 8, 1_450));
        let json = format!(r#"{{"type":"compaction","encrypted_content":"{sealed}"}}"#);
        let size = json_size(&RawValue::from_string(json).unwrap(), &counter());
        assert_eq!(
            (size.media, size.tokens),
            (0, 200 + counter().text(r#"{"type":"compaction","encrypted_content":""}"#))
        );
    }
}

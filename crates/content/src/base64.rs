//! Decodes base64 as clients write it: in both alphabets, with or without padding, and with line breaks.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Decoders for both alphabets of base64, with or without padding.
const ENGINES: [GeneralPurpose; 2] = [engine(&alphabet::STANDARD), engine(&alphabet::URL_SAFE)];

const fn engine(alphabet: &alphabet::Alphabet) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(alphabet, config.with_decode_allow_trailing_bits(true))
}

/// Decodes at most the first `most` characters, without white space. Returns an empty vector if they are not base64.
pub fn decoded(data: &str, most: usize) -> Vec<u8> {
    let data = unbroken(data);
    let head = if data.len() <= most { &*data } else { data.get(..most / 4 * 4).unwrap_or_default() };
    ENGINES.iter().find_map(|engine| engine.decode(head).ok()).unwrap_or_default()
}

/// Returns base64 without the white space that some clients insert.
pub fn unbroken(data: &str) -> Cow<'_, str> {
    if data.bytes().any(|byte| byte.is_ascii_whitespace()) {
        Cow::Owned(data.split_ascii_whitespace().collect())
    } else {
        Cow::Borrowed(data)
    }
}

/// Returns a text without its line breaks, if they divide it like base64 into lines of equal length. The last line may
/// be shorter.
pub fn lines_of_one_length(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim();
    let mut lines = text.lines();
    let length = lines.next()?.len();
    let Some(last) = lines.next_back() else { return Some(Cow::Borrowed(text)) };
    let is_even = length % 4 == 0 && last.len() <= length && lines.all(|line| line.len() == length);
    is_even.then(|| unbroken(text))
}

//! The tokens of pictures, files, sound and video, from their bytes and never by the length of the base64.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::sealed_tokens;
use super::image::{ImageFormula, Pixels};
use super::{TokenCounter, scale};
use crate::json;
use crate::message::{Media, MediaSource};
use crate::size::Size;

/// A provider's formulas for pictures, files, sound and video.
///
/// The default is for providers that publish none: close to the most that any of them asks.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MediaFormula {
    /// The tokens of a picture.
    pub image: ImageFormula,
    /// The tokens of a page of a PDF file, besides those of its text.
    pub page: u64,
    /// The factor by which the tokens of the text of a PDF file are multiplied. At 0 it is part of `page`.
    pub text: f64,
    /// The tokens of a second of sound.
    pub audio: u64,
    /// The length of a clip, in seconds. Sound is rounded up to whole clips.
    pub clip: u64,
    /// The tokens of a second of video.
    pub video: u64,
}

impl MediaFormula {
    /// Formulas by which nothing costs anything.
    pub const NONE: MediaFormula =
        MediaFormula { image: ImageFormula::Flat(0), page: 0, text: 0.0, audio: 0, clip: 1, video: 0 };
}

impl Default for MediaFormula {
    /// Anthropic's guide gives 1,500 to 3,000 tokens for a page, and Google's 32 tokens for a second of sound and 258 for
    /// the picture of each second of video.
    fn default() -> Self {
        MediaFormula { image: ImageFormula::default(), page: 2_000, text: 0.0, audio: 32, clip: 1, video: 290 }
    }
}

/// What bytes are, by the media type that the client gave and by how they begin.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Image,
    Audio,
    Video,
    Text,
    Pdf,
    Unknown,
}

impl Kind {
    fn of(mime: Option<&str>, bytes: &[u8]) -> Kind {
        let named = |mime: &str| match mime.split_once('/') {
            Some(("image", _)) => Kind::Image,
            Some(("audio", _)) => Kind::Audio,
            Some(("video", _)) => Kind::Video,
            Some(("text", _)) => Kind::Text,
            Some(("application", "pdf")) => Kind::Pdf,
            _ => Kind::Unknown,
        };
        let wave = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WAVE");
        let named = mime.map_or(Kind::Unknown, named);
        // Two letters are all that a bitmap begins with, and words begin with them, too.
        let is_word =
            bytes.starts_with(b"BM") && (mime.is_some() && named != Kind::Image || bytes.get(6..10) != Some(&[0; 4]));
        match (bytes, named) {
            (_, Kind::Text) => Kind::Text,
            _ if !is_word && imagesize::image_type(bytes).is_ok() => Kind::Image,
            ([b'%', b'P', b'D', b'F', ..], _) => Kind::Pdf,
            (_, Kind::Unknown) if wave => Kind::Audio,
            ([b'I', b'D', b'3', ..] | [b'f', b'L', b'a', b'C', ..] | [b'O', b'g', b'g', b'S', ..], Kind::Unknown) => {
                Kind::Audio
            }
            // FF FE begins a text in UTF-16.
            ([0xff, second, ..], Kind::Unknown) if second & 0xe0 == 0xe0 && *second != 0xfe => Kind::Audio,
            (_, Kind::Unknown) if mime.is_some() && is_text(bytes) => Kind::Text,
            ([_, _, _, _, b'f', b't', b'y', b'p', ..] | [0x1a, 0x45, 0xdf, 0xa3, ..], Kind::Unknown) => Kind::Video,
            (_, kind) => kind,
        }
    }
}

/// Returns whether bytes may be the beginning of a text.
fn is_text(bytes: &[u8]) -> bool {
    let whole = match std::str::from_utf8(bytes) {
        Ok(text) => text.len(),
        // The last character may be cut.
        Err(error) => error.valid_up_to() + 3,
    };
    whole >= bytes.len() && !bytes.is_empty() && !bytes.contains(&0)
}

/// The size of a picture at an address. Most are made for the web, and the largest would cost several times as much.
const USUAL: Pixels = Pixels { width: 512, height: 512 };

/// Returns the tokens of a picture.
pub(crate) fn image_tokens(media: &Media, counter: &dyn TokenCounter) -> u64 {
    let formula = counter.media_formula().image;
    match &media.source {
        MediaSource::Base64(data) => formula.tokens(pixels(data)),
        MediaSource::Url(_) => formula.tokens(Some(USUAL)),
        MediaSource::Text(_) | MediaSource::Id(_) => formula.tokens(None),
    }
}

/// Returns the tokens of a file. A text file is counted as text.
pub(crate) fn document_tokens(media: &Media, counter: &dyn TokenCounter) -> u64 {
    match &media.source {
        MediaSource::Text(text) => counter.text(text),
        MediaSource::Base64(data) => data_tokens(data, media.mime.as_deref(), counter),
        MediaSource::Url(_) | MediaSource::Id(_) => elsewhere(media.mime.as_deref(), counter.media_formula()),
    }
}

/// Returns the tokens of a file of which only the address is known: a page of text, or a minute of sound or video.
fn elsewhere(mime: Option<&str>, formula: MediaFormula) -> u64 {
    match Kind::of(mime, &[]) {
        Kind::Image => formula.image.tokens(Some(USUAL)),
        Kind::Audio => formula.audio.saturating_mul(60),
        Kind::Video => formula.video.saturating_mul(60),
        _ => formula.page.saturating_add(scale(PAGE_TEXT, formula.text)),
    }
}

/// Returns how many pages a PDF file has, if it says that.
pub(crate) fn pdf_pages(media: &Media) -> Option<u64> {
    let MediaSource::Base64(data) = &media.source else { return None };
    if !decoded(data, 1 << 10).starts_with(b"%PDF") {
        return None;
    }
    tree_pages(&decoded(data, usize::MAX))
}

/// Returns the tokens of bytes in base64.
fn data_tokens(data: &str, mime: Option<&str>, counter: &dyn TokenCounter) -> u64 {
    let formula = counter.media_formula();
    if formula == MediaFormula::NONE {
        return 0;
    }
    let padding = data.bytes().rev().take(2).take_while(|byte| *byte == b'=').count() as u64;
    let length = (data.len() as u64 * 3 / 4).saturating_sub(padding);
    let head = decoded(data, 1 << 10);
    match Kind::of(mime, &head) {
        Kind::Image => formula.image.tokens(pixels(data)),
        Kind::Audio if formula.clip > 1 => {
            let clips = length.div_ceil(bytes_a_second(&head).saturating_mul(formula.clip));
            clips.saturating_mul(formula.clip).saturating_mul(formula.audio)
        }
        Kind::Audio => length.saturating_mul(formula.audio).div_ceil(bytes_a_second(&head)),
        Kind::Video => length.saturating_mul(formula.video).div_ceil(VIDEO_BYTES),
        Kind::Text => match decoded(data, usize::MAX) {
            // What cannot be decoded has no more tokens than bytes.
            bytes if bytes.is_empty() => length,
            bytes => counter.text(&String::from_utf8_lossy(&bytes)),
        },
        Kind::Pdf => {
            let bytes = decoded(data, usize::MAX);
            let pages = known_pages(&bytes).unwrap_or_else(|| length.div_ceil(PAGE_BYTES).max(1));
            let text = if formula.text == 0.0 { 0 } else { pdf_text(&bytes).min(pages.saturating_mul(MOST_TEXT)) };
            pages.saturating_mul(formula.page).saturating_add(scale(text, formula.text))
        }
        // A file of an office program, of whose packed bytes the text is a part.
        Kind::Unknown if mime.is_some() => 100 + length / 40,
        Kind::Unknown => {
            let as_video = length.saturating_mul(formula.video).div_ceil(VIDEO_BYTES);
            // A small one is no large picture: no text has more tokens than bytes.
            formula.image.tokens(None).max(as_video).min(length)
        }
    }
}

/// The bytes of a page, if a file does not say how many it has.
const PAGE_BYTES: u64 = 50_000;

/// The tokens of the text of a page, if nothing of it is known.
const PAGE_TEXT: u64 = 600;

/// The most tokens of the text of a page, as Anthropic's guide to PDF files gives it.
const MOST_TEXT: u64 = 3_000;

/// Estimates the tokens of the text in a PDF file: one for five bytes of the packed streams that draw its pages.
///
/// Other streams, such as fonts and pictures, have a dictionary that says so.
fn pdf_text(bytes: &[u8]) -> u64 {
    const OTHER: [&[u8]; 6] = [b"/Length1", b"/Subtype", b"/FunctionType", b"/Type", b"/N ", b"/Alternate"];
    let (mut rest, mut drawn) = (bytes, 0);
    while let Some(start) = memmem(rest, b"stream") {
        let (before, stream) = rest.split_at(start + b"stream".len());
        let length = memmem(stream, b"endstream").unwrap_or(stream.len());
        let object = before.windows(3).rposition(|word| word == b"obj").and_then(|at| before.get(at..));
        let dictionary = object.unwrap_or(before);
        if !OTHER.iter().any(|word| memmem(dictionary, word).is_some()) {
            drawn += length as u64;
        }
        rest = stream.get(length + b"endstream".len()..).unwrap_or_default();
    }
    drawn / 5
}

/// Returns where a word begins.
fn memmem(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word)
}

/// The bytes of a second of video: 500 kbit/s.
const VIDEO_BYTES: u64 = 62_500;

/// Returns the bytes of a second of sound, from how it begins. Unless it says that, it is 128 kbit/s, the most usual rate.
fn bytes_a_second(head: &[u8]) -> u64 {
    let wave = head.get(28..32).filter(|_| head.starts_with(b"RIFF") && head.get(12..16) == Some(b"fmt "));
    let rate = wave.and_then(|rate| rate.try_into().ok()).map_or(0, u32::from_le_bytes);
    if rate == 0 { 16_000 } else { rate.into() }
}

/// Returns the pages of a PDF file: those of its page tree or, if that is packed, its page objects.
fn known_pages(bytes: &[u8]) -> Option<u64> {
    let objects = || typed(bytes, b"/Page").count() as u64;
    tree_pages(bytes).or_else(|| Some(objects()).filter(|pages| *pages > 0))
}

/// Returns the pages of the page tree of a PDF file: the largest count of its nodes. Other objects have counts, too.
fn tree_pages(bytes: &[u8]) -> Option<u64> {
    let count = |at: usize| {
        let before = bytes.get(at.saturating_sub(LONGEST_NODE)..at)?;
        let begin = at - (before.len() - before.windows(2).rposition(|word| word == b"<<")?);
        let node = bytes.get(begin..bytes.len().min(begin + LONGEST_NODE))?;
        let node = node.get(..memmem(node, b">>")?)?;
        let count = node.get(memmem(node, b"/Count")? + b"/Count".len()..)?.trim_ascii_start();
        let digits = count.iter().take(6).take_while(|byte| byte.is_ascii_digit());
        Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    };
    typed(bytes, b"/Pages").take(MOST_NODES).filter_map(count).max().filter(|pages| *pages > 0)
}

/// The most nodes of a page tree that are read, so that a file of nothing else costs no more.
const MOST_NODES: usize = 1 << 12;

/// The longest node of a page tree that is read, in bytes.
const LONGEST_NODE: usize = 1 << 14;

/// Returns where the objects of a type are in a PDF file.
fn typed<'a>(bytes: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    const TYPE: &[u8] = b"/Type";
    let types = bytes.windows(TYPE.len()).enumerate().filter(|(_, window)| *window == TYPE);
    types.map(|(at, _)| at).filter(move |at| {
        let rest = bytes.get(at + TYPE.len()..).unwrap_or_default().trim_ascii_start();
        let rest = rest.strip_prefix(name);
        rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
    })
}

/// Both alphabets of base64, with padding or without.
const ENGINES: [GeneralPurpose; 2] = [engine(&alphabet::STANDARD), engine(&alphabet::URL_SAFE)];

const fn engine(alphabet: &alphabet::Alphabet) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(alphabet, config.with_decode_allow_trailing_bits(true))
}

/// Decodes at most the first `most` characters, and passes over white space. Returns nothing if they are not base64.
fn decoded(data: &str, most: usize) -> Vec<u8> {
    let data = unbroken(data);
    let head = if data.len() <= most { &*data } else { data.get(..most / 4 * 4).unwrap_or_default() };
    ENGINES.iter().find_map(|engine| engine.decode(head).ok()).unwrap_or_default()
}

/// Reads the width and height from a picture's header.
fn pixels(data: &str) -> Option<Pixels> {
    // Most formats have their size in the first bytes, JPEG has it after its metadata. So more is decoded only if
    // needed.
    [1 << 10, 1 << 18, usize::MAX].into_iter().find_map(|most| {
        let size = imagesize::blob_size(&decoded(data, most)).ok()?;
        Some(Pixels { width: size.width as u64, height: size.height as u64 })
    })
}

/// The longest string of the characters of base64 that is counted as text. Words and names are shorter.
const LONGEST_WORD: usize = 512;

/// Measures JSON of which only the provider knows the meaning. Its text is counted as it is, apart from long strings in
/// base64: no provider reads these as text. They are pictures or the like, or text that only the provider can read.
pub(crate) fn json_size(value: &RawValue, counter: &dyn TokenCounter) -> Size {
    let whole = value.get();
    // Most have no such string.
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

/// Returns base64 without the white space that some clients write in it.
fn unbroken(data: &str) -> Cow<'_, str> {
    if data.bytes().any(|byte| byte.is_ascii_whitespace()) {
        Cow::Owned(data.split_ascii_whitespace().collect())
    } else {
        Cow::Borrowed(data)
    }
}

/// Returns the media type and the base64 of a JSON string that is nothing else.
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
    // Long names and numbers are written with the same characters.
    let is_mixed =
        || data.bytes().any(|byte| byte.is_ascii_uppercase()) && data.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_data = data.bytes().all(of_base64) && (is_sealed || is_mixed() && !decoded(&data, usize::MAX).is_empty());
    is_data.then(|| (None, data.into_owned()))
}

/// Returns text without its line breaks, if they divide it as programs divide base64: into lines of one length.
fn lines_of_one_length(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim();
    let mut lines = text.lines();
    let length = lines.next()?.len();
    let Some(last) = lines.next_back() else { return Some(Cow::Borrowed(text)) };
    let is_even = length % 4 == 0 && last.len() <= length && lines.all(|line| line.len() == length);
    is_even.then(|| unbroken(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Estimate;

    fn base64(bytes: &[u8]) -> String {
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    /// Base64 as mail programs write it.
    fn broken(data: &str) -> String {
        data.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>().join("\n")
    }

    fn png(width: u32, height: u32, length: usize) -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend(width.to_be_bytes().into_iter().chain(height.to_be_bytes()));
        png.extend(b"\x08\x02\0\0\0");
        // Not a byte that repeats: base64 of it is words that do.
        png.extend((png.len()..length).map(|at| u8::try_from(((at * at) >> 3) % 251).unwrap()));
        png
    }

    fn counter() -> Estimate {
        let image = ImageFormula::Patches { side: 28, most: 1_568, edge: 1_568, factor: 1.0 };
        Estimate::default().media(MediaFormula { image, ..MediaFormula::default() })
    }

    #[test]
    fn a_picture_is_priced_by_its_pixels_and_not_by_its_base64() {
        let source = MediaSource::Base64(base64(&png(800, 600, 3_000_000)));
        let media = Media { mime: Some("image/png".into()), name: None, source };
        assert_eq!(image_tokens(&media, &counter()), 29 * 22);
    }

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
    fn a_file_is_what_its_type_says_and_not_what_it_happens_to_begin_with() {
        let text = "BMW report. ".repeat(1_000);
        for mime in ["text/plain", "application/csv"] {
            assert_eq!(data_tokens(&base64(text.as_bytes()), Some(mime), &counter()), counter().text(&text), "{mime}");
        }
        // A picture of unknown size would cost four times as much, and no text has more tokens than bytes.
        assert_eq!(data_tokens(&base64(&[7; 400]), None, &counter()), 400);
    }

    #[test]
    fn line_breaks_in_base64_change_nothing() {
        let picture = base64(&png(200, 200, 2_000));
        let text = base64("some words of a text. ".repeat(500).as_bytes());
        let pdf = base64(format!("%PDF-1.7\n<</Type /Pages /Count 50>>{}", " ".repeat(500)).as_bytes());
        for (data, mime) in [(picture, "image/png"), (text, "text/plain"), (pdf, "application/pdf")] {
            let whole = data_tokens(&data, Some(mime), &counter());
            assert_eq!(data_tokens(&broken(&data), Some(mime), &counter()), whole, "{mime}");
        }
    }

    #[test]
    fn the_text_of_a_pdf_file_is_what_its_pages_draw() {
        let media = MediaFormula { page: 100, text: 1.0, ..MediaFormula::default() };
        let drawn = format!("<</Length 500>>\nstream\n{}\nendstream endobj", "x".repeat(498));
        let font = format!("9 0 obj <</Length1 800>>\nstream\n{}\nendstream endobj", "y".repeat(800));
        let pdf = format!("%PDF-1.7\n<</Type/Pages/Count 1>> 8 0 obj {drawn} {font}");
        assert_eq!(data_tokens(&base64(pdf.as_bytes()), None, &Estimate::default().media(media)), 200);
    }

    #[test]
    fn only_so_many_nodes_of_a_page_tree_are_read() {
        let nodes =
            |count: usize| format!("%PDF-1.7\n{}<</Type/Pages/Count 9>>", "<</Type/Pages/Count 2>>".repeat(count));
        assert_eq!(known_pages(nodes(MOST_NODES - 1).as_bytes()), Some(9));
        assert_eq!(known_pages(nodes(MOST_NODES).as_bytes()), Some(2));
    }

    #[test]
    fn sound_is_filled_up_to_whole_clips() {
        let media = MediaFormula { audio: 13, clip: 30, ..MediaFormula::default() };
        let mp3 = [b"ID3\x04".as_slice(), &[7; 160_000 - 4]].concat();
        assert_eq!(data_tokens(&base64(&mp3), None, &Estimate::default().media(media)), 30 * 13);
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

    #[test]
    fn sound_is_priced_by_its_seconds() {
        let mut wave = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0".to_vec();
        wave.extend(32_000_u32.to_le_bytes());
        wave.resize(320_000, 1);
        assert_eq!(data_tokens(&base64(&wave), None, &counter()), 10 * 32);
        let mp3 = [b"ID3\x04".as_slice(), &[7; 160_000 - 4]].concat();
        assert_eq!(data_tokens(&base64(&mp3), Some("audio/mpeg"), &counter()), 10 * 32);
    }

    #[test]
    fn a_pdf_file_is_priced_by_its_pages() {
        let pdf = |rest: &str| data_tokens(&base64(format!("%PDF-1.7\n{rest}").as_bytes()), None, &counter());
        assert_eq!(pdf("<</Type /Page>> <</Type/Page/Parent 3 0 R>> <</Type /PageLabel>>"), 2 * 2_000);
        // An update repeats a page, and the outlines have a count of their own.
        let tree = "<</Type /Pages /Count 2>> <</Type /Page>> <</Type /Page>> <</Type /Page>>";
        assert_eq!(pdf(&format!("{tree} <</Type /Outlines /Count 500>>")), 2 * 2_000);
        assert_eq!(pdf("<</Kids [1 0 R] /Count 7 /Type/Pages>> <</Count 3>>"), 7 * 2_000);
        assert_eq!(pdf("nothing that is known"), 2_000);
    }
}

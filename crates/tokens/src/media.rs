//! The tokens of pictures, files, sound and video, computed from their contents and never from the length of the
//! base64.

use super::{TokenCounter, scale};
use lookback_content::base64::decoded;
use lookback_content::pdf;
use lookback_models::{MediaFormula, Pixels};
use lookback_wire::message::{Media, MediaSource};

/// The kind of a file, from the client's media type and the first bytes.
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
    fn detect(mime: Option<&str>, bytes: &[u8]) -> Kind {
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
        // A bitmap begins with two letters, and so do some words.
        let is_word =
            bytes.starts_with(b"BM") && (mime.is_some() && named != Kind::Image || bytes.get(6..10) != Some(&[0; 4]));
        match (bytes, named) {
            (_, Kind::Text) => Kind::Text,
            _ if !is_word && imagesize::image_type(bytes).is_ok() => Kind::Image,
            _ if pdf::is_pdf(bytes) => Kind::Pdf,
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

/// The assumed size of a picture at a URL. Most pictures are made for the web, and the largest would cost several times
/// as much.
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

/// Returns the tokens of a file that is known only by a URL or an identifier: a page of text, or a minute of sound or
/// video.
fn elsewhere(mime: Option<&str>, formula: MediaFormula) -> u64 {
    match Kind::detect(mime, &[]) {
        Kind::Image => formula.image.tokens(Some(USUAL)),
        Kind::Audio => formula.audio.saturating_mul(60),
        Kind::Video => formula.video.saturating_mul(60),
        _ => formula.page.saturating_add(scale(PAGE_TEXT, formula.text)),
    }
}

/// Returns the tokens of bytes in base64.
pub(super) fn data_tokens(data: &str, mime: Option<&str>, counter: &dyn TokenCounter) -> u64 {
    let formula = counter.media_formula();
    if formula == MediaFormula::NONE {
        return 0;
    }
    let padding = data.bytes().rev().take(2).take_while(|byte| *byte == b'=').count() as u64;
    let length = (data.len() as u64 * 3 / 4).saturating_sub(padding);
    let head = decoded(data, 1 << 10);
    match Kind::detect(mime, &head) {
        Kind::Image => formula.image.tokens(pixels(data)),
        Kind::Audio if formula.clip > 1 => {
            let clips = length.div_ceil(bytes_a_second(&head).saturating_mul(formula.clip));
            clips.saturating_mul(formula.clip).saturating_mul(formula.audio)
        }
        Kind::Audio => length.saturating_mul(formula.audio).div_ceil(bytes_a_second(&head)),
        Kind::Video => length.saturating_mul(formula.video).div_ceil(VIDEO_BYTES),
        Kind::Text => match decoded(data, usize::MAX) {
            // Data that cannot be decoded has no more tokens than bytes.
            bytes if bytes.is_empty() => length,
            bytes => counter.text(&String::from_utf8_lossy(&bytes)),
        },
        Kind::Pdf => {
            let bytes = decoded(data, usize::MAX);
            let pages = pdf::pages(&bytes, length);
            let text = if formula.text == 0.0 { 0 } else { pdf::text_tokens(&bytes, pages) };
            pages.saturating_mul(formula.page).saturating_add(scale(text, formula.text))
        }
        // A file such as an office document, whose packed bytes contain the text.
        Kind::Unknown if mime.is_some() => 100 + length / 40,
        Kind::Unknown => {
            let as_video = length.saturating_mul(formula.video).div_ceil(VIDEO_BYTES);
            // The bytes are an upper bound: a small file is not a large picture, and text never has more tokens than
            // bytes.
            formula.image.tokens(None).max(as_video).min(length)
        }
    }
}

/// The assumed tokens of a page of unknown text.
const PAGE_TEXT: u64 = 600;

/// The bytes of a second of video: 500 kbit/s.
const VIDEO_BYTES: u64 = 62_500;

/// Returns the bytes of a second of sound, from the header of a WAVE file, or else at 128 kbit/s, the most usual rate.
fn bytes_a_second(head: &[u8]) -> u64 {
    let is_wave = head.starts_with(b"RIFF") && head.get(12..16) == Some(b"fmt ");
    let wave = if is_wave { head.get(28..32) } else { None };
    let rate = wave.and_then(|rate| rate.try_into().ok()).map_or(0, u32::from_le_bytes);
    if rate == 0 { 16_000 } else { rate.into() }
}

/// Reads the width and height from a picture's header.
fn pixels(data: &str) -> Option<Pixels> {
    // Most formats have their size in the first bytes, but JPEG has it after its metadata. So more is decoded only if
    // needed.
    [1 << 10, 1 << 18, usize::MAX].into_iter().find_map(|most| {
        let size = imagesize::blob_size(&decoded(data, most)).ok()?;
        Some(Pixels { width: size.width as u64, height: size.height as u64 })
    })
}

/// Sample files for tests.
#[cfg(test)]
pub(super) mod samples {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::*;
    use crate::Estimate;

    pub(crate) fn base64(bytes: &[u8]) -> String {
        BASE64_STANDARD.encode(bytes)
    }

    /// Base64 with line breaks, as mail programs write it.
    pub(crate) fn broken(data: &str) -> String {
        data.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn png(width: u32, height: u32, length: usize) -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend(width.to_be_bytes().into_iter().chain(height.to_be_bytes()));
        png.extend(b"\x08\x02\0\0\0");
        // The bytes must not repeat, because their base64 would repeat, too.
        png.extend((png.len()..length).map(|at| u8::try_from(((at * at) >> 3) % 251).unwrap()));
        png
    }

    pub(crate) fn counter() -> Estimate {
        let image = lookback_models::ImageFormula::Patches { side: 28, most: 1_568, edge: 1_568, factor: 1.0 };
        Estimate::default().media(MediaFormula { image, ..MediaFormula::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{base64, broken, counter, png};
    use super::*;
    use crate::Estimate;

    #[test]
    fn a_picture_is_priced_by_its_pixels_and_not_by_its_base64() {
        let source = MediaSource::Base64(base64(&png(800, 600, 3_000_000)));
        let media = Media::new(source).with_mime("image/png");
        assert_eq!(image_tokens(&media, &counter()), 29 * 22);
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
    fn sound_is_filled_up_to_whole_clips() {
        let media = MediaFormula { audio: 13, clip: 30, ..MediaFormula::default() };
        let mp3 = [b"ID3\x04".as_slice(), &[7; 160_000 - 4]].concat();
        assert_eq!(data_tokens(&base64(&mp3), None, &Estimate::default().media(media)), 30 * 13);
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
    fn a_pdf_file_is_priced_by_its_pages_and_by_their_text_if_the_model_reads_both() {
        let drawn = format!("8 0 obj <<>>\nstream\n{}\nendstream endobj", "x".repeat(498));
        let file = base64(format!("%PDF-1.7\n<</Type/Pages/Count 2>> {drawn}").as_bytes());
        assert_eq!(data_tokens(&file, None, &counter()), 2 * 2_000);
        let media = MediaFormula { page: 100, text: 1.0, ..MediaFormula::default() };
        assert_eq!(data_tokens(&file, None, &Estimate::default().media(media)), 2 * 100 + 100);
    }
}

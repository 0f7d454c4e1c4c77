//! Turning the bytes of a file into text: unpacking gzip, and removing a byte order mark.

use std::io::{ErrorKind, Read};

use flate2::read::MultiGzDecoder;

use crate::shape;

/// A limit for [`read_text`] that no real recording reaches: 4 GiB.
#[doc(hidden)]
pub const LARGEST: u64 = 4 << 30;

/// The most times its size that a gzip file may unpack to. Conversations unpack to three to twenty times their size,
/// and a file that is made to exhaust memory to a thousand times.
const MOST_TIMES: u64 = 64;
/// The bytes to which any gzip file may unpack, regardless of its size: 64 MiB.
const ANY: u64 = 64 << 20;

/// The errors of turning bytes into text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
#[doc(hidden)]
pub struct TextError(#[from] TextFault);

/// The reason of a [`TextError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum TextFault {
    /// The bytes are not UTF-8.
    #[error("not valid UTF-8 at byte {at}")]
    Utf8 { at: usize },
    /// The text is UTF-16, which some shells write.
    #[error("the text is UTF-16; convert it to UTF-8")]
    Utf16,
    /// The bytes begin like gzip, but are damaged or cut off.
    #[error("cannot unpack the gzip data: it is {}", damage(.0))]
    Gzip(ErrorKind),
    /// The unpacked text would be too large.
    #[error("more than {largest} bytes after unpacking; unpack the file, and split it into several")]
    TooLarge { largest: u64 },
}

/// Returns the text of a file. Gzip is unpacked, and a byte order mark is removed.
///
/// # Errors
/// Returns an error if the text is not UTF-8, if it cannot be unpacked, or if it would have more than `largest` bytes
/// after unpacking. A gzip file may also not unpack to more than 64 times its size or 64 MiB, whichever is more,
/// because a small file can unpack to a thousand times its size.
///
/// ```
/// use lookback_recordings::{LARGEST, read_text};
///
/// assert_eq!(read_text(b"\xef\xbb\xbf[]".to_vec(), LARGEST)?, "[]");
/// # Ok::<(), lookback_recordings::TextError>(())
/// ```
#[doc(hidden)]
pub fn read_text(bytes: Vec<u8>, largest: u64) -> Result<String, TextError> {
    let mut bytes = if bytes.starts_with(&shape::GZIP) { unpacked(&bytes, largest)? } else { bytes };
    if shape::UTF16.iter().any(|mark| bytes.starts_with(mark)) {
        return Err(TextFault::Utf16.into());
    }
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        // The file ends inside a character, so it may still be growing. The reader decides whether the last line is
        // complete.
        bytes.truncate(error.valid_up_to());
    }
    let mut text =
        String::from_utf8(bytes).map_err(|error| TextFault::Utf8 { at: error.utf8_error().valid_up_to() })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

fn damage(kind: &ErrorKind) -> &'static str {
    if *kind == ErrorKind::UnexpectedEof { "cut off" } else { "damaged" }
}

fn unpacked(bytes: &[u8], largest: u64) -> Result<Vec<u8>, TextError> {
    let mut unpacked = Vec::new();
    let largest = largest.min((bytes.len() as u64).saturating_mul(MOST_TIMES).max(ANY));
    // Read one byte more than allowed, to detect a text that is too large.
    let mut reader = MultiGzDecoder::new(bytes).take(largest.saturating_add(1));
    reader.read_to_end(&mut unpacked).map_err(|error| TextFault::Gzip(error.kind()))?;
    if unpacked.len() as u64 > largest { Err(TextFault::TooLarge { largest }.into()) } else { Ok(unpacked) }
}

//! From a file's bytes to its text: unpacked, and without a byte order mark.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::shape;

/// A bound for [`text`] that no real recording reaches: 4 GiB.
pub const LARGEST: u64 = 4 << 30;

/// Why bytes are no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The bytes are not UTF-8.
    #[error("not valid UTF-8 at byte {at}")]
    Utf8 {
        /// The first byte that is not.
        at: usize,
    },
    /// The text is UTF-16, as some shells write it.
    #[error("UTF-16 and not UTF-8: write it again as UTF-8")]
    Utf16,
    /// The bytes begin as gzip, and are damaged or cut off.
    #[error("gzip that cannot be unpacked: {0}")]
    Gzip(String),
    /// Unpacked it would be larger than it may be.
    #[error("gzip of more than {largest} bytes: unpack it, and split it into several files")]
    TooLarge {
        /// The most bytes that it may have.
        largest: u64,
    },
}

/// The text of a file: unpacked where it is gzip, and without a byte order mark.
///
/// # Errors
/// Where the bytes are no UTF-8, cannot be unpacked, or would be more than `largest` bytes: a small file can say that it is
/// a thousand times its size.
///
/// ```
/// use lookback::recording::{LARGEST, text};
///
/// assert_eq!(text(b"\xef\xbb\xbf[]".to_vec(), LARGEST)?, "[]");
/// # Ok::<(), lookback::recording::TextError>(())
/// ```
pub fn text(bytes: Vec<u8>, largest: u64) -> Result<String, TextError> {
    let mut bytes = if bytes.starts_with(&shape::GZIP) { unpacked(&bytes, largest)? } else { bytes };
    if shape::UTF16.iter().any(|mark| bytes.starts_with(mark)) {
        return Err(TextError::Utf16);
    }
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        // It ends inside a letter: more of it is being written. Whether the line before is whole is the reader's to say.
        bytes.truncate(error.valid_up_to());
    }
    let mut text =
        String::from_utf8(bytes).map_err(|error| TextError::Utf8 { at: error.utf8_error().valid_up_to() })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

fn unpacked(bytes: &[u8], largest: u64) -> Result<Vec<u8>, TextError> {
    let mut unpacked = Vec::new();
    // One byte more tells a text that is too large from one that is just as large as it may be.
    let mut reader = MultiGzDecoder::new(bytes).take(largest.saturating_add(1));
    reader.read_to_end(&mut unpacked).map_err(|error| TextError::Gzip(error.to_string()))?;
    if unpacked.len() as u64 > largest { Err(TextError::TooLarge { largest }) } else { Ok(unpacked) }
}

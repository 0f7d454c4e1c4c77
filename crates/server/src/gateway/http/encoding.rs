//! Decoding of compressed bodies, piece by piece or as a whole.

use std::io::{Error, Read as _, Result, Write};

use axum::http::{HeaderMap, header};
use brotli_decompressor::{Decompressor, DecompressorWriter};
use bytes::Bytes;
use flate2::write::{GzDecoder, ZlibDecoder};
use ruzstd::decoding::StreamingDecoder;

use crate::gateway::http::headers;

/// The decoder for an answer that is read while it passes.
pub(crate) enum Encoding {
    Plain,
    Gzip(Box<GzDecoder<Bounded>>),
    Deflate(Box<ZlibDecoder<Bounded>>),
    Brotli(Box<DecompressorWriter<Bounded>>),
}

impl Encoding {
    /// Returns the decoder for the encoding in the headers, with a limit on the decoded bytes. `None` for encodings
    /// that cannot be decoded piece by piece, such as Zstandard.
    pub(crate) fn from_headers(headers: &HeaderMap, most: usize) -> Option<Encoding> {
        let out = Bounded { bytes: Vec::new(), left: most };
        Some(match headers::text(headers, header::CONTENT_ENCODING.as_str()) {
            None | Some("identity") => Encoding::Plain,
            Some("gzip" | "x-gzip") => Encoding::Gzip(Box::new(GzDecoder::new(out))),
            Some("deflate") => Encoding::Deflate(Box::new(ZlibDecoder::new(out))),
            Some("br") => Encoding::Brotli(Box::new(DecompressorWriter::new(out, 4096))),
            Some(_) => return None,
        })
    }

    /// Decodes the next bytes. `None` if they are not encoded.
    ///
    /// # Errors
    /// Returns an error if the bytes do not match the encoding, or if they decode to too many bytes.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Encoding::Plain => Ok(None),
            Encoding::Gzip(decoder) => {
                decoder.write_all(bytes)?;
                // Decoded bytes must not wait for the next piece.
                decoder.flush()?;
                Ok(Some(decoder.get_mut().take()))
            }
            Encoding::Deflate(decoder) => {
                decoder.write_all(bytes)?;
                decoder.flush()?;
                Ok(Some(decoder.get_mut().take()))
            }
            Encoding::Brotli(decoder) => {
                decoder.write_all(bytes)?;
                Ok(Some(decoder.get_mut().take()))
            }
        }
    }
}

/// A buffer for decoded bytes, with a limit.
pub(crate) struct Bounded {
    bytes: Vec<u8>,
    left: usize,
}

impl Bounded {
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or_else(|| Error::other("it unpacks to too many bytes"))?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Decodes a whole body. `None` if its encoding is unknown or invalid, or if it would have more than `most` bytes.
pub(crate) fn decoded(headers: &HeaderMap, body: &Bytes, most: usize) -> Option<Bytes> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let body_bytes: &[u8] = body;
    let mut out = Vec::new();
    match headers::text(headers, header::CONTENT_ENCODING.as_str()) {
        None | Some("identity") => return Some(body.clone()),
        Some("gzip" | "x-gzip") => flate2::read::GzDecoder::new(body_bytes).take(limit).read_to_end(&mut out).ok()?,
        Some("deflate") => flate2::read::ZlibDecoder::new(body_bytes).take(limit).read_to_end(&mut out).ok()?,
        Some("br") => Decompressor::new(body_bytes, 4096).take(limit).read_to_end(&mut out).ok()?,
        Some("zstd") => StreamingDecoder::new(body_bytes).ok()?.take(limit).read_to_end(&mut out).ok()?,
        Some(_) => return None,
    };
    (out.len() <= most).then(|| out.into())
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn headers(encoding: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, header::HeaderValue::from_static(encoding));
        headers
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn deflate(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn brotli(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        brotli::BrotliCompress(&mut &*text, &mut out, &brotli::enc::BrotliEncoderParams::default()).unwrap();
        out
    }

    /// The output of `zstd --check` for ten bytes. Its last four bytes are a checksum.
    const CHECKED: [u8; 23] = [
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0x51, 0x00, 0x00, 0x7b, 0x22, 0x61, 0x22, 0x3a, 0x31, 0x7d, 0x20, 0x20,
        0x20, 0x05, 0xb2, 0x89, 0x1c,
    ];

    #[test]
    fn a_body_is_read_whatever_its_encoding() {
        let text: Vec<u8> = (0..400_000_u32).map(|at| b'a' + (at.wrapping_mul(at) % 23) as u8).collect();
        let zstd = compress_to_vec(&text[..], CompressionLevel::Fastest);
        for (name, packed) in [
            ("gzip", gzip(&text)),
            ("deflate", deflate(&text)),
            ("br", brotli(&text)),
            ("zstd", zstd),
            ("identity", text.clone()),
        ] {
            assert_eq!(decoded(&headers(name), &packed.clone().into(), 1 << 20).as_deref(), Some(&text[..]), "{name}");
            let Some(mut encoding) = Encoding::from_headers(&headers(name), 1 << 20) else { continue };
            let mut out = Vec::new();
            for piece in packed.chunks(7) {
                out.extend(encoding.decode(piece).unwrap().unwrap_or_else(|| piece.to_vec()));
            }
            assert_eq!(out, text, "{name} in small pieces");
        }
    }

    #[test]
    fn what_unpacks_to_too_much_is_not_read() {
        let zeros = vec![0; 8 << 20];
        let zstd = compress_to_vec(&zeros[..], CompressionLevel::Fastest);
        for (name, packed) in
            [("gzip", gzip(&zeros)), ("deflate", deflate(&zeros)), ("br", brotli(&zeros)), ("zstd", zstd)]
        {
            assert_eq!(decoded(&headers(name), &packed.clone().into(), 1 << 20), None, "{name}");
            let Some(mut encoding) = Encoding::from_headers(&headers(name), 1 << 20) else { continue };
            assert!(packed.chunks(1 << 12).any(|piece| encoding.decode(piece).is_err()), "{name}");
        }
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_not_read() {
        for name in ["gzip", "deflate", "br", "zstd", "compress"] {
            assert_eq!(decoded(&headers(name), &Bytes::from_static(&[b'x'; 100]), 1 << 20), None, "{name}");
        }
        for end in 0..CHECKED.len() {
            let part = Bytes::copy_from_slice(&CHECKED[..end]);
            assert_eq!(decoded(&headers("zstd"), &part, 1 << 20), None, "zstd {end}");
        }
        let whole = decoded(&headers("zstd"), &Bytes::from_static(&CHECKED), 1 << 20);
        assert_eq!(whole.as_deref(), Some(&b"{\"a\":1}   "[..]));
        let text = b"{\"messages\": []}".repeat(99);
        for (name, packed) in [("gzip", gzip(&text)), ("deflate", deflate(&text))] {
            for end in 0..packed.len() - 8 {
                assert_eq!(decoded(&headers(name), &packed[..end].to_vec().into(), 1 << 20), None, "{name} {end}");
            }
        }
    }
}

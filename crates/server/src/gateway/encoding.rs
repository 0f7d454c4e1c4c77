//! Bodies that are compressed: reading them while they pass.

use std::io::{Error, Result, Write as _};

use axum::http::{HeaderMap, header};
use brotli_decompressor::DecompressorWriter;
use bytes::Bytes;
use flate2::write::{GzDecoder, ZlibDecoder};
use ruzstd::decoding::FrameDecoder;

use super::headers;

/// How many compressed bytes are decoded at a time, so that a body that grows beyond its limit is noticed.
const PIECE: usize = 16 << 10;

/// How the bytes of a body are compressed.
pub(super) enum Encoding {
    Plain,
    Gzip(Box<GzDecoder<Vec<u8>>>),
    Deflate(Box<ZlibDecoder<Vec<u8>>>),
    Brotli(Box<DecompressorWriter<Vec<u8>>>),
    Zstd(Box<Zstd>),
}

impl Encoding {
    /// Returns the encoding that the headers name; `None` if it is not known.
    pub(super) fn of(headers: &HeaderMap) -> Option<Encoding> {
        Some(match headers::text(headers, header::CONTENT_ENCODING.as_str()) {
            None | Some("identity") => Encoding::Plain,
            Some("gzip" | "x-gzip") => Encoding::Gzip(Box::new(GzDecoder::new(Vec::new()))),
            Some("deflate") => Encoding::Deflate(Box::new(ZlibDecoder::new(Vec::new()))),
            Some("br") => Encoding::Brotli(Box::new(DecompressorWriter::new(Vec::new(), 4096))),
            Some("zstd") => Encoding::Zstd(Box::default()),
            Some(_) => return None,
        })
    }

    /// Decodes the next bytes. `None` if they are not encoded.
    ///
    /// # Errors
    /// Returns an error if the bytes are not what the headers say.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Encoding::Plain => Ok(None),
            Encoding::Gzip(decoder) => {
                decoder.write_all(bytes)?;
                // What was decoded must not wait for more to come.
                decoder.flush()?;
                Ok(Some(std::mem::take(decoder.get_mut())))
            }
            Encoding::Deflate(decoder) => {
                decoder.write_all(bytes)?;
                decoder.flush()?;
                Ok(Some(std::mem::take(decoder.get_mut())))
            }
            Encoding::Brotli(decoder) => {
                decoder.write_all(bytes)?;
                Ok(Some(std::mem::take(decoder.get_mut())))
            }
            Encoding::Zstd(decoder) => Ok(Some(decoder.decode(bytes)?)),
        }
    }
}

/// Returns a whole body as it is without its encoding. `None` if it cannot be read, or would have more than `most` bytes: a
/// few bytes may unpack to very many.
pub(super) fn decoded(headers: &HeaderMap, body: &Bytes, most: usize) -> Option<Bytes> {
    let mut encoding = Encoding::of(headers)?;
    let mut out = Vec::new();
    for piece in body.chunks(PIECE) {
        match encoding.decode(piece).ok()? {
            None => return Some(body.clone()),
            Some(decoded) => out.extend(decoded),
        }
        if out.len() > most {
            return None;
        }
    }
    Some(out.into())
}

/// A decoder of Zstandard that is given a piece at a time.
#[derive(Default)]
pub(super) struct Zstd {
    decoder: FrameDecoder,
    /// What came, and is not a whole block yet.
    waiting: Vec<u8>,
}

impl Zstd {
    /// The longest head of a frame.
    const HEAD: usize = 18;

    fn decode(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.waiting.extend_from_slice(bytes);
        let mut out = Vec::new();
        let mut piece = [0; PIECE];
        while self.waiting.len() >= Zstd::HEAD || self.decoder.bytes_read_from_source() > 0 {
            let (read, written) = self
                .decoder
                .decode_from_to(&self.waiting, &mut piece)
                .map_err(|error| Error::other(error.to_string()))?;
            self.waiting.drain(..read.min(self.waiting.len()));
            out.extend_from_slice(piece.get(..written).unwrap_or_default());
            if read == 0 && written == 0 {
                break;
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
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

    #[test]
    fn a_body_is_read_whatever_its_encoding_and_its_pieces() {
        let text: Vec<u8> = (0..400_000_u32).map(|at| b'a' + (at.wrapping_mul(at) % 23) as u8).collect();
        for (name, packed) in [
            ("gzip", gzip(&text)),
            ("zstd", compress_to_vec(&text[..], CompressionLevel::Fastest)),
            ("identity", text.clone()),
        ] {
            assert_eq!(decoded(&headers(name), &packed.clone().into(), 1 << 20).as_deref(), Some(&text[..]), "{name}");
            let mut encoding = Encoding::of(&headers(name)).unwrap();
            let mut out = Vec::new();
            for piece in packed.chunks(7) {
                out.extend(encoding.decode(piece).unwrap().unwrap_or_else(|| piece.to_vec()));
            }
            assert_eq!(out, text, "{name} in small pieces");
        }
    }

    #[test]
    fn what_unpacks_to_too_much_or_is_something_else_is_not_read() {
        let zeros = vec![0; 8 << 20];
        for (name, packed) in [("gzip", gzip(&zeros)), ("zstd", compress_to_vec(&zeros[..], CompressionLevel::Fastest))]
        {
            assert_eq!(decoded(&headers(name), &packed.into(), 1 << 20), None, "{name}");
        }
        for name in ["gzip", "deflate", "br", "zstd", "compress"] {
            assert_eq!(decoded(&headers(name), &Bytes::from_static(&[b'x'; 100]), 1 << 20), None, "{name}");
        }
    }
}

//! The elements of a log's lists, as bytes.
//!
//! A record is the key of its append and its checksum, eight bytes each in little-endian order, and its body. A text is
//! its position and its time, eight bytes each, and its terms, separated by spaces.

use lookback_engine::transcript::Millis;

use lookback_store::{Damage, LogName, StoreError, StoredRecord};

/// An unknown time.
const UNKNOWN: Millis = Millis::MIN;

/// Packs a record.
pub(super) fn packed(key: u64, checksum: u64, body: &str) -> Vec<u8> {
    [&key.to_le_bytes(), &checksum.to_le_bytes(), body.as_bytes()].concat()
}

/// Packs the replacement for a record, without its key.
pub(super) fn tombstone(checksum: u64, body: &str) -> Vec<u8> {
    [&checksum.to_le_bytes(), body.as_bytes()].concat()
}

/// Unpacks the record at a position.
pub(super) fn unpacked(log: &LogName, position: u64, bytes: &[u8]) -> Result<StoredRecord, StoreError> {
    let altered = || StoreError::damaged(log, position, Damage::Altered);
    let (_key, rest) = bytes.split_first_chunk::<8>().ok_or_else(altered)?;
    let (checksum, body) = rest.split_first_chunk().ok_or_else(altered)?;
    let body = std::str::from_utf8(body).map_err(|_| altered())?;
    Ok(StoredRecord::new(position, u64::from_le_bytes(*checksum), body))
}

/// The position and the time of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) position: u64,
    pub(super) time: Option<Millis>,
}

impl Text {
    /// Packs a text with these terms.
    pub(super) fn packed(self, terms: &[String]) -> Vec<u8> {
        let time = self.time.unwrap_or(UNKNOWN);
        [&self.position.to_le_bytes(), &time.to_le_bytes(), terms.join(" ").as_bytes()].concat()
    }

    /// Unpacks a text and its terms; `None` if it was erased, or is damaged.
    pub(super) fn unpacked(bytes: &[u8]) -> Option<(Text, impl Iterator<Item = &str>)> {
        let (position, rest) = bytes.split_first_chunk()?;
        let (time, terms) = rest.split_first_chunk().filter(|(_, terms)| !terms.is_empty())?;
        let time = Some(Millis::from_le_bytes(*time)).filter(|time| *time != UNKNOWN);
        let text = Text { position: u64::from_le_bytes(*position), time };
        Some((text, std::str::from_utf8(terms).ok()?.split(' ')))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again() {
        let log = "a".parse().unwrap();
        let record = unpacked(&log, 7, &packed(1, 2, "{\"é\":0}")).unwrap();
        assert_eq!((record.position, record.checksum, &*record.body), (7, 2, "{\"é\":0}"));
        let all = packed(1, 2, "é");
        for end in [0, 7, 15, 17] {
            assert!(unpacked(&log, 7, &all[..end]).is_err());
        }
        for time in [None, Some(-5), Some(Millis::MAX)] {
            let text = Text { position: u64::MAX, time };
            let bytes = text.packed(&["one".to_owned(), "two".to_owned()]);
            let (found, terms) = Text::unpacked(&bytes).unwrap();
            assert_eq!((found, terms.collect::<Vec<_>>()), (text, vec!["one", "two"]));
            assert!(Text::unpacked(&bytes[..15]).is_none());
        }
    }
}

//! Times as RFC 3339 text.

use jiff::Timestamp;
use lookback_engine::transcript::Millis;

/// Returns a time as text. `None` if it is missing or outside the range of the calendar.
pub(super) fn rfc3339(time: Option<Millis>) -> Option<String> {
    Some(Timestamp::from_millisecond(time?).ok()?.to_string())
}

//! The limits of a search: speaker and time.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use lookback_content::Redacted;
use lookback_engine::transcript::Millis;
use serde::{Serialize, Serializer};

/// The limits of a search: the speaker, and the time. The default limits nothing.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Within {
    /// The role (`user`, `assistant`, `system`, `tool`) or the name of the speaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// The earliest time. In JSON it is a time such as `2026-11-22T10:00:00Z`.
    #[serde(serialize_with = "timestamp", skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
    /// The latest time.
    #[serde(serialize_with = "timestamp", skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
}

#[allow(clippy::ref_option, reason = "the signature that serde wants")]
fn timestamp<S: Serializer>(time: &Option<Millis>, serializer: S) -> Result<S::Ok, S::Error> {
    time.and_then(|time| Timestamp::from_millisecond(time).ok()).map(|time| time.to_string()).serialize(serializer)
}

impl fmt::Debug for Within {
    /// Prints whether there is a speaker, but not the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within")
            .field("speaker", &self.speaker.as_deref().map(Redacted))
            .field("since", &self.since)
            .field("until", &self.until)
            .finish()
    }
}

/// A text that is not a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a time; write a day such as 2026-11-22, which is in UTC, or a time such as 2026-11-22T10:00:00Z")]
pub struct BadTime;

impl Within {
    /// Limits a search to a role (`user`, `assistant`, `system`, `tool`), or to the name of a speaker.
    #[must_use]
    pub fn speaker(self, name: impl Into<Option<String>>) -> Self {
        Within { speaker: name.into(), ..self }
    }

    /// Limits a search to this time and later ones.
    #[must_use]
    pub fn since(self, time: impl Into<Option<Millis>>) -> Self {
        Within { since: time.into(), ..self }
    }

    /// Limits a search to this time and earlier ones.
    #[must_use]
    pub fn until(self, time: impl Into<Option<Millis>>) -> Self {
        Within { until: time.into(), ..self }
    }

    /// Parses an earliest time: a time with its offset, or a day in UTC, which means its beginning.
    ///
    /// # Errors
    /// Returns an error if the text is neither.
    ///
    /// ```
    /// use lookback_store::search::Within;
    ///
    /// assert_eq!(Within::first("1970-01-02"), Ok(86_400_000));
    /// assert_eq!(Within::last("1970-01-01"), Ok(86_399_999));
    /// assert_eq!(Within::first("1970-01-01T00:00:01Z"), Ok(1_000));
    /// assert!(Within::first("yesterday").is_err());
    /// ```
    pub fn first(text: &str) -> Result<Millis, BadTime> {
        day(text).map(Timestamp::as_millisecond).or_else(|| time(text)).ok_or(BadTime)
    }

    /// Parses a latest time: a time with its offset, or a day in UTC, which means its end.
    ///
    /// # Errors
    /// Returns an error if the text is neither.
    pub fn last(text: &str) -> Result<Millis, BadTime> {
        const DAY: Millis = 24 * 60 * 60 * 1_000;
        day(text).map(|day| day.as_millisecond().saturating_add(DAY - 1)).or_else(|| time(text)).ok_or(BadTime)
    }
}

/// Returns the beginning of a day.
fn day(text: &str) -> Option<Timestamp> {
    // The parser would also read a time as a day.
    if text.contains([':', 'T', 't']) {
        return None;
    }
    let date: Date = text.trim().parse().ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn time(text: &str) -> Option<Millis> {
    Some(text.trim().parse::<Timestamp>().ok()?.as_millisecond())
}

//! Numbers and times in a form for readers.

use lookback_engine::transcript::Millis;

/// Returns a number in short form: `950`, `10 k`, `12.4 k`, `3.1 M`.
pub(crate) fn short(number: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "it is rounded anyway")]
    let float = number as f64;
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 if number.is_multiple_of(1_000) => format!("{} k", number / 1_000),
        1_000..1_000_000 => format!("{:.1} k", float / 1e3),
        _ => format!("{:.1} M", float / 1e6),
    }
}

/// Returns a share of a whole, in percent.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "it is rounded anyway")]
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    format!("{share:.1} %")
}

/// Returns a time in UTC, to the second. `None` if it is outside the range of the calendar.
pub(crate) fn time(time: Millis) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(time).ok()?;
    Some(time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([999, 10_000, 12_449, 3_120_000].map(short), ["999", "10 k", "12.4 k", "3.1 M"]);
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(time(0).as_deref(), Some("1970-01-01 00:00:00"));
    }
}

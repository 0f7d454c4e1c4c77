//! Ascending spans of positions.

use std::ops::Range;

use lookback_engine::transcript::Position;

/// Adds a position at or after the end of these ascending spans.
pub fn join(spans: &mut Vec<Range<Position>>, position: Position) {
    match spans.last_mut().filter(|last| last.end == position) {
        Some(last) => last.end = position.saturating_add(1),
        None => spans.push(position..position.saturating_add(1)),
    }
}

/// Returns whether one of these ascending spans contains a position.
pub fn holds(spans: &[Range<Position>], position: Position) -> bool {
    overlap(spans, &(position..position.saturating_add(1)))
}

/// Returns whether a span overlaps one of these ascending spans.
pub fn overlap(spans: &[Range<Position>], span: &Range<Position>) -> bool {
    let at = spans.partition_point(|own| own.end <= span.start);
    spans.get(at).is_some_and(|own| own.start < span.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_in_spans() {
        let mut spans = Vec::new();
        [1, 2, 3, 7, 9].into_iter().for_each(|position| join(&mut spans, position));
        assert_eq!(spans, [1..4, 7..8, 9..10]);
        assert_eq!((0..12).filter(|position| holds(&spans, *position)).collect::<Vec<_>>(), [1, 2, 3, 7, 9]);
        assert!(overlap(&spans, &(4..8)) && !overlap(&spans, &(4..7)) && !overlap(&spans, &(10..99)));
        assert!(!overlap(&[], &(0..9)));
    }
}

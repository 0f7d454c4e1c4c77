//! The middleware for a run's progress, by vectors, and cycles in all short sequences of calls.

use crate::vectors;
use lookback_agent::repeated_cycle;

#[test]
fn a_run_that_gets_nowhere_is_told_so_and_then_brought_to_its_end() {
    vectors::run::hold("progress.json");
}

#[test]
fn a_circle_is_found_where_the_last_calls_repeat() {
    let of = |calls: &str| repeated_cycle(&calls.chars().collect::<Vec<_>>());
    let table = [
        ("", None),
        ("a", None),
        ("aa", None),
        ("aaa", Some(1)),
        ("baaa", Some(1)),
        ("aaab", None),
        ("abab", Some(2)),
        ("cabab", Some(2)),
        ("ababc", None),
        ("abba", None),
        ("abcabc", Some(3)),
        ("xabcabc", Some(3)),
        ("abcabd", None),
        ("abcdabcd", None),
        ("aabaab", Some(3)),
        ("abcdef", None),
    ];
    for (calls, period) in table {
        assert_eq!(of(calls), period, "{calls}");
    }
}

#[test]
fn a_circle_does_repeat_and_only_the_last_calls_count() {
    // Every sequence of up to 8 calls of three kinds.
    for length in 0..=8_u32 {
        for number in 0..3_u32.pow(length) {
            let calls: Vec<u32> = (0..length).map(|place| number / 3_u32.pow(place) % 3).collect();
            let found = repeated_cycle(&calls);
            let mut longer = vec![9];
            longer.extend(&calls);
            assert_eq!(repeated_cycle(&longer), found, "{calls:?}");
            if let Some(period) = found {
                let (last, before) = calls.split_at(calls.len() - period);
                assert!(last.ends_with(before), "{calls:?} in circles of {period}");
            }
        }
    }
}

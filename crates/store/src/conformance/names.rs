//! Names that a store might confuse.

use super::record;
use crate::{Append, LogName, Store};

/// Pieces of names that are special to a file system, a database, a pattern or a shell, or that look alike.
const PIECES: [&str; 32] = [
    "a",
    "A",
    "\u{e9}",
    "e\u{301}",
    "\u{212b}",
    "\u{c5}",
    "i",
    "I",
    "\u{131}",
    "\u{130}",
    "ss",
    "\u{df}",
    " ",
    ".",
    "..",
    "/",
    "%",
    "%2F",
    "_",
    "*",
    "?",
    "[a]",
    "'",
    "\"",
    "`",
    "$1",
    ";--",
    "{x}",
    ":",
    "\u{1f600}",
    "\u{202e}",
    "\u{10ffff}",
];

/// Keeps logs apart whose names differ in case, in normalization, or in characters that are special elsewhere. Tries
/// this many names, the same ones every time.
pub async fn keeps_names_apart(store: &dyn Store, count: usize) {
    let mut names: Vec<LogName> = (0..count as u64).filter_map(|number| hostile(number).parse().ok()).collect();
    names.sort();
    names.dedup();
    for name in &names {
        let said = record(&format!("of {name:?}"));
        store.append(name, Append::new(0, [said])).await.unwrap_or_else(|error| panic!("{name:?}: {error}"));
    }
    let listed: Vec<LogName> = store.list("").await.unwrap().into_iter().map(|info| info.name).collect();
    assert!(listed == names, "the list has the names, in their order");
    for name in &names {
        let said = record(&format!("of {name:?}")).body;
        assert_eq!(store.read(name, 0..2).await.unwrap(), [said], "{name:?}");
    }
    let (some, rest) = names.split_at(names.len() / 2);
    assert_eq!(store.delete(some).await.unwrap(), some.len() as u64);
    assert_eq!(store.list("").await.unwrap().len(), rest.len());
    assert_eq!(store.clear().await.unwrap(), rest.len() as u64);
}

/// Returns a name of one to eight pieces, or a long one of many.
pub(super) fn hostile(number: u64) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or(0) % below
    };
    let pieces = if next(50) == 0 { 120 } else { 1 + next(8) };
    (0..pieces).map(|_| PIECES[next(PIECES.len())]).collect()
}

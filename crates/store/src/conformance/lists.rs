//! Lists logs by prefix, and erases everything.

use super::{name, record};
use crate::search::Query;
use crate::{Append, Hit, LogName, Store};

/// Lists logs by their prefix, byte for byte, and erases all of them.
pub(super) async fn lists_by_prefix(store: &dyn Store) {
    let names =
        ["A", "a", "a%b", "a*b", "aXb", "a_b", "ab", "a\u{10ffff}z", "a\u{10ffff}", "e\u{301}", "\u{e9}/x", "[a]"];
    for text in names {
        store.append(&name(text), Append::new(0, [record("apple")])).await.unwrap();
    }
    for prefix in [
        "",
        "a",
        "A",
        "a%",
        "a_",
        "a*",
        "%",
        "_",
        "*",
        "a\u{10ffff}",
        "e",
        "\u{e9}",
        "[",
        "ab",
        "abc",
        "\0",
        "a\0",
        "'",
    ] {
        let mut expected: Vec<_> = names.into_iter().filter(|name| name.starts_with(prefix)).collect();
        expected.sort_unstable();
        let list = store.list(prefix).await.unwrap();
        assert_eq!(list.iter().map(|info| info.name.as_str()).collect::<Vec<_>>(), expected, "{prefix:?}");
    }
    // No name is empty, so no name is a prefix of all others.
    assert!("".parse::<LogName>().is_err());
    assert_eq!(store.delete(&[name("a")]).await.unwrap(), 1);
    assert_eq!(store.list("").await.unwrap().len(), names.len() - 1);
    assert_eq!(store.clear().await.unwrap(), names.len() as u64 - 1);
    assert_eq!(store.clear().await.unwrap(), 0);
    assert_eq!(store.list("").await.unwrap(), Vec::new());
    assert!(store.search(None, &Query::new("apple"), 9).await.unwrap().is_empty());
    let log = name("ab");
    assert_eq!(store.head(&log, None).await.unwrap(), None);
    store.append(&log, Append::new(0, [record("pear")]).time(Some(1))).await.unwrap();
    assert_eq!(store.search(None, &Query::new("pear"), 9).await.unwrap(), [Hit::new(log.clone(), 0)]);
    assert_eq!(store.clear().await.unwrap(), 1);
}

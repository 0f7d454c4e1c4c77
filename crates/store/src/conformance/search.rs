//! Which records a search finds, and in which order.

use super::{name, record};
use crate::search::{Query, Within};
use crate::{Append, LogName, Record, Store};

/// Finds the same words in texts of many languages.
pub(super) async fn finds_alike(store: &dyn Store) {
    let texts = [
        "The caf\u{e9} in Z\u{fc}rich serves cr\u{e8}me br\u{fb}l\u{e9}e",
        "cafe\u{301}s, and a na\u{ef}ve cafe",
        "Stra\u{df}e und Gr\u{f6}\u{df}e; \u{c4}RGER",
        "\u{130}stanbul'da \u{131}l\u{131}k bir g\u{fc}n",
        "Vi\u{1ec7}t Nam, \u{110}\u{e0} N\u{1eb5}ng",
        "\u{39f}\u{394}\u{39f}\u{3a3} \u{3ba}\u{3b1}\u{3b9} \u{3bf}\u{3b4}\u{3cc}\u{3c2}",
        "Ещё один ёж и чай",
        "हिन्दी में पाठ",
        "東京 タワー が高い",
        "한국어 문장",
        "\u{5e9}\u{5b8}\u{5dc}\u{5d5}\u{5b9}\u{5dd} שלום",
        "مرحبا بالعالم ١٢٣",
        "ภาษาไทย",
        "snake_case x2 \u{2764}\u{fe0f} C++ 3.14 don't I/O",
        "\u{ff21}\u{ff22} \u{b2} \u{2168} \u{24d0}",
    ];
    let log = name("said");
    store.append(&log, Append::new(0, texts.iter().map(|text| record(text)))).await.unwrap();
    for (query, expected) in [
        ("cafe", &[0, 1][..]),
        ("CAF\u{c9}", &[0, 1]),
        ("cafe\u{301}", &[0, 1]),
        ("caf", &[]),
        ("cafes", &[0, 1]),
        ("brulee zurich", &[0]),
        ("naive", &[1]),
        ("stra\u{df}e", &[2]),
        ("strasse", &[]),
        ("grosse", &[]),
        ("arger", &[2]),
        ("istanbul", &[3]),
        ("\u{131}l\u{131}k", &[3]),
        ("ilik", &[]),
        ("viet nam", &[4]),
        ("nang", &[4]),
        ("οδος", &[5]),
        ("ΟΔΌΣ", &[5]),
        ("еще", &[6]),
        ("ЁЖ", &[6]),
        ("हिन्दी", &[7]),
        ("ह", &[]),
        ("हिन", &[]),
        ("東京", &[8]),
        ("東", &[]),
        ("か\u{3099}高い", &[8]),
        ("か高い", &[8]),
        ("한국어", &[9]),
        ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}\u{110b}\u{1165}", &[9]),
        ("שלום", &[10]),
        ("\u{5e9}\u{5b8}\u{5dc}\u{5d5}\u{5b9}\u{5dd}", &[10]),
        ("بالعالم", &[11]),
        ("١٢٣", &[11]),
        ("123", &[]),
        ("ภาษาไทย", &[12]),
        ("snake_case", &[13]),
        ("snake", &[13]),
        ("c", &[13]),
        ("14 3", &[13]),
        ("don't", &[13]),
        ("\u{2764}\u{fe0f}", &[]),
        ("\u{301}", &[]),
        ("\u{ff41}\u{ff22}", &[14]),
        ("ab", &[]),
        ("\u{2178}", &[14]),
    ] {
        let hits = store.search(None, &Query::new(query), 99).await.unwrap();
        let mut found: Vec<_> = hits.iter().map(|hit| hit.position).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{query}");
    }
    assert_eq!(store.clear().await.unwrap(), 1);
}

/// Finds the same records in the same order, and obeys limits on speaker and time.
pub(super) async fn ranks_alike(store: &dyn Store) {
    let said = |text: &str, role: &str, time| Record::new("{}").text(text).role(role).time(time);
    let (one, two) = (name("one"), name("two"));
    let first = vec![
        said("Which port does the linker service need?", "user", 10),
        said("5050, as ever.", "assistant", 20),
        Record::new("no text"),
        said("The sunset was painted in Lyon.", "user", 30).name("Ann Lee"),
        said("Nice. Does src/store/mod.rs call read_file?", "assistant", 40),
    ];
    let second = vec![
        said("Reading the file takes long. A port is open.", "tool", 50),
        said("Die Häuser sind nicht für die Reichen, und nicht für uns.", "user", 60),
        Record::new("{}").text("She paints and paints; painting is all. What is it that she paints?").role("assistant"),
        said("or is it not?", "user", 70),
    ];
    store.append(&one, Append::new(0, first).time(Some(1))).await.unwrap();
    store.append(&two, Append::new(0, second).time(Some(2))).await.unwrap();
    let found = |log: Option<LogName>, query: Query| async move {
        let hits = store.search(log.as_ref(), &query, 9).await.unwrap();
        hits.into_iter().map(|hit| (hit.log.to_string(), hit.position)).collect::<Vec<_>>()
    };
    let (a, b) = (|at| ("one".to_owned(), at), |at| ("two".to_owned(), at));
    for (query, expected) in [
        // The rarer word, the stems, and the answer next to its question.
        ("What port did the linker need?", vec![a(0), a(1), b(0)]),
        ("the painting of sunsets", vec![a(3), b(2)]),
        ("paint", vec![b(2), a(3)]),
        // A whole name, then its parts.
        ("read_file", vec![a(4), b(0)]),
        ("mod.rs", vec![a(4)]),
        // By the stem of its language, or by the common stem.
        ("Haus", vec![b(1)]),
        ("das Haus der Reichsten", vec![b(1)]),
        ("H\u{e4}user", vec![b(1)]),
        // Function words, if the query has no others.
        ("what is it", vec![b(2), b(3), b(0)]),
        ("zebra", vec![]),
    ] {
        assert_eq!(found(None, Query::new(query)).await, expected, "{query}");
    }
    assert_eq!(found(Some(two.clone()), "port of the linker".into()).await, [b(0)]);
    assert_eq!(found(None, Query::new("a \"port is open\"")).await, [b(0)], "it has the words of the phrase");
    assert_eq!(found(None, Query::every_word("a port open")).await, [b(0)]);
    assert_eq!(found(None, Query::every_word("port linker zebra")).await, []);
    let within = |within: Within| found(None, Query::new("port paint file house").within(within));
    let by = |name: &str| Within::default().speaker(name.to_owned());
    assert_eq!(within(by("tool")).await, [b(0)]);
    assert_eq!(within(by("Ann Lee")).await, [a(3)]);
    assert_eq!(within(by("ann")).await, [a(3)]);
    assert_eq!(within(by("nobody")).await, []);
    // The speaker's name is searched like the text.
    assert_eq!(found(None, "what did Ann say?".into()).await, [a(3)]);
    let times = |since: Option<i64>, until: Option<i64>| within(Within::default().since(since).until(until));
    assert_eq!(times(Some(30), Some(40)).await.len(), 2);
    assert_eq!(times(Some(41), None).await, [b(0)]);
    assert_eq!(times(Some(3), Some(10)).await, [a(0)]);
    assert_eq!(times(None, Some(9)).await, [b(2)], "it was written then");
    assert_eq!(store.clear().await.unwrap(), 2);
}

//! The times of creation and last use.

use super::{name, record};
use crate::{Append, LogInfo, Store};

/// Keeps the times when a log was created and last used.
pub(super) async fn keeps_times(store: &dyn Store) {
    let log = name("timed");
    let times = || async {
        let info = store.info(&log).await.unwrap().unwrap();
        (info.created, info.used)
    };
    assert_eq!(store.info(&log).await.unwrap(), None);
    assert!(!store.touch(&log, 5).await.unwrap());
    store.append(&log, Append::new(0, []).time(Some(5))).await.unwrap();
    assert_eq!(store.info(&log).await.unwrap(), None, "nothing written makes no log");

    store.append(&log, Append::new(0, [record("a")]).time(Some(100))).await.unwrap();
    assert_eq!(times().await, (Some(100), Some(100)));
    let bytes = record("a").body.len() as u64;
    let info = LogInfo::new(log.clone(), 1, bytes).created(Some(100)).used(Some(100));
    assert_eq!(store.info(&log).await.unwrap(), Some(info.clone()));
    assert_eq!(store.list("").await.unwrap(), [info]);
    // The clock may go back or be missing; the time of last use never goes back.
    for (at, time, used) in [(1, Some(50), 100), (2, Some(200), 200), (3, None, 200)] {
        store.append(&log, Append::new(at, [record("b")]).time(time)).await.unwrap();
        assert_eq!(times().await, (Some(100), Some(used)));
    }
    for (time, used) in [(150, 200), (300, 300), (i64::MIN, 300), (i64::MAX, i64::MAX)] {
        assert!(store.touch(&log, time).await.unwrap());
        assert_eq!(times().await, (Some(100), Some(used)));
    }
    // A refused append and a read do not count as uses. A reader may call `touch`.
    let other = name("other");
    store.append(&other, Append::new(0, [record("c")]).time(Some(-7))).await.unwrap();
    store.append(&other, Append::new(0, [record("c")]).time(Some(9))).await.unwrap_err();
    store.append(&other, Append::new(1, []).time(Some(9))).await.unwrap();
    store.read(&other, 0..9).await.unwrap();
    let info = store.info(&other).await.unwrap().unwrap();
    assert_eq!((info.created, info.used), (Some(-7), Some(-7)));
    // A creation time that was unknown at the beginning stays unknown.
    store.delete(std::slice::from_ref(&log)).await.unwrap();
    store.append(&log, Append::new(0, [record("d")])).await.unwrap();
    assert_eq!(times().await, (None, None));
    store.append(&log, Append::new(1, [record("d")]).time(Some(8))).await.unwrap();
    assert_eq!(times().await, (None, Some(8)));
    assert_eq!(store.clear().await.unwrap(), 2);
}

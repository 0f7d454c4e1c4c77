//! Names that a store might confuse with others, on every store.

use futures_lite::future::block_on;
use lookback_store::conformance;

use crate::processes::{open, stores};

#[test]
fn ten_thousand_hostile_names_are_kept_apart() {
    let (urls, _folder) = stores();
    for url in &urls {
        block_on(conformance::keeps_names_apart(&*open(url), 10_000));
    }
}

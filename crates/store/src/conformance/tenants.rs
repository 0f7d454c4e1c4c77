//! Isolates tenants from each other.

use std::sync::Arc;

use super::names::hostile;
use super::{name, record};
use crate::search::Query;
use crate::{Append, Store, Tenant};

/// Keeps tenants apart from each other and from the store itself: none reads, lists, finds or erases another's logs.
pub(super) async fn keeps_tenants_apart(store: &dyn Store) {
    // Names that a store might confuse, or take for a path, a pattern or a part of a query.
    let names =
        ["a", "A", "a ", "a/b", "..", "%61", "a%", "a_", "*", "'", "\"", "\u{e9}", "e\u{301}", "a\u{10ffff}", "=", ":"];
    let longest = "x".repeat(Tenant::LONGEST);
    let mut tenants: Vec<Tenant> =
        names.into_iter().chain([longest.as_str()]).map(|name| name.parse().unwrap()).collect();
    tenants.extend((0..40).filter_map(|number| hostile(number).parse::<Tenant>().ok()));
    tenants.sort();
    tenants.dedup();
    let log = name("log");
    let scoped = |tenant: &Tenant| store.scoped(tenant).unwrap();
    assert_eq!(store.tenants().await.unwrap(), []);
    store.append(&log, Append::new(0, [record("apple of the root")]).time(Some(1))).await.unwrap();
    for tenant in &tenants {
        let of_tenant = scoped(tenant);
        assert_eq!(of_tenant.head(&log, None).await.unwrap(), None, "{tenant:?}");
        assert_eq!(of_tenant.list("").await.unwrap(), [], "{tenant:?}");
        assert!(!of_tenant.touch(&log, 9).await.unwrap(), "{tenant:?}");
        assert_eq!(of_tenant.search(None, &Query::new("apple"), 99).await.unwrap(), [], "{tenant:?}");
        assert_eq!(of_tenant.delete(std::slice::from_ref(&log)).await.unwrap(), 0, "{tenant:?}");
        assert_eq!(of_tenant.clear().await.unwrap(), 0, "{tenant:?}");
        of_tenant.append(&log, Append::new(0, [record(&format!("apple of {tenant}"))]).time(Some(2))).await.unwrap();
        of_tenant.append(&log.facts_of(), Append::new(0, [record("fact")]).time(Some(2))).await.unwrap();
    }
    assert_eq!(store.tenants().await.unwrap(), tenants);
    assert_eq!(store.list("").await.unwrap().len(), 1);
    assert_eq!(store.read(&log, 0..9).await.unwrap(), [record("apple of the root").body]);
    let everywhere: Vec<Arc<dyn Store>> = tenants.iter().map(scoped).collect();
    for (tenant, of_tenant) in tenants.iter().zip(&everywhere) {
        assert_eq!(of_tenant.read(&log, 0..9).await.unwrap(), [record(&format!("apple of {tenant}")).body]);
        assert_eq!(of_tenant.list("").await.unwrap().len(), 2, "{tenant:?}");
        assert_eq!(of_tenant.info(&log).await.unwrap().unwrap().used, Some(2), "{tenant:?}");
        for within in [None, Some(&log)] {
            assert_eq!(of_tenant.search(within, &Query::new("apple"), 99).await.unwrap().len(), 1, "{tenant:?}");
        }
        assert_eq!(of_tenant.search(None, &Query::new("root"), 99).await.unwrap(), [], "{tenant:?}");
        assert_eq!(of_tenant.tenants().await.unwrap(), [], "{tenant:?}");
    }
    assert_eq!(store.search(None, &Query::new("apple"), 99).await.unwrap().len(), 1);
    assert_eq!(store.search(None, &Query::new("apple of"), 99).await.unwrap().len(), 1);
    // A tenant of a tenant.
    let inner = everywhere[0].scoped(&tenants[1]).unwrap();
    inner.append(&log, Append::new(0, [record("apple within")])).await.unwrap();
    assert_eq!(everywhere[0].tenants().await.unwrap(), [tenants[1].clone()]);
    assert_eq!(everywhere[1].read(&log, 0..9).await.unwrap(), [record(&format!("apple of {}", tenants[1])).body]);
    assert_eq!(store.tenants().await.unwrap(), tenants);
    assert_eq!(everywhere[0].clear().await.unwrap(), 2);
    assert_eq!(store.tenants().await.unwrap(), tenants, "its tenant is left");
    assert_eq!(inner.clear().await.unwrap(), 1);
    assert_eq!(store.tenants().await.unwrap(), tenants[1..]);
    // Clearing the store itself leaves its tenants.
    assert_eq!(store.clear().await.unwrap(), 1);
    for of_tenant in &everywhere[1..] {
        assert_eq!(of_tenant.delete(std::slice::from_ref(&log)).await.unwrap(), 1);
        assert_eq!(of_tenant.list("").await.unwrap().len(), 1);
        assert_eq!(of_tenant.clear().await.unwrap(), 1);
    }
    assert_eq!(store.tenants().await.unwrap(), []);
}

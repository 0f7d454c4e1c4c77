//! The simulated cost of conversations that are sent as they come, and of the windows that were not sent.

use std::collections::HashMap;
use std::ops::Add;
use std::sync::{Mutex, PoisonError};

use lookback_store::Tenant;
use serde::Serialize;
use utoipa::ToSchema;

/// The simulated cost of calls, with their answers, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct Simulated {
    /// The number of calls whose cost was simulated.
    #[schema(value_type = u64)]
    pub(crate) calls: f64,
    /// The cost of sending everything, as the gateway did.
    pub(crate) everything: f64,
    /// The cost of the windows.
    pub(crate) windows: f64,
}

impl Add for Simulated {
    type Output = Simulated;

    fn add(self, other: Simulated) -> Simulated {
        Simulated {
            calls: self.calls + other.calls,
            everything: self.everything + other.everything,
            windows: self.windows + other.windows,
        }
    }
}

/// The sums over all shadows since the gateway started.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    by_tenant: Mutex<HashMap<Option<Tenant>, Simulated>>,
}

impl Shadows {
    /// Adds the cost of further calls.
    pub(crate) fn add(&self, tenant: Option<&Tenant>, more: Simulated) {
        let mut by_tenant = self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = by_tenant.entry(tenant.cloned()).or_default();
        *sum = *sum + more;
    }

    /// Returns the sum of a tenant, or `None` if nothing was simulated for it.
    pub(crate) fn of(&self, tenant: Option<&Tenant>) -> Option<Simulated> {
        self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner).get(&tenant.cloned()).copied()
    }

    /// Returns the sum over all tenants, or `None` if nothing was simulated.
    pub(crate) fn all(&self) -> Option<Simulated> {
        self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner).values().copied().reduce(Simulated::add)
    }
}

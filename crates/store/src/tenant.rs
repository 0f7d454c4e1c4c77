//! Tenants: isolated namespaces of a store.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The name of a tenant: 1 to 64 bytes without control characters.
///
/// [`Store::scoped`](super::Store::scoped) returns the store of a tenant. Names are compared byte for byte.
///
/// ```
/// use lookback_store::Tenant;
///
/// assert!("acme.com/eu".parse::<Tenant>().is_ok());
/// assert!("".parse::<Tenant>().is_err());
/// assert!("a\0b".parse::<Tenant>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Tenant(String);

impl Tenant {
    /// The most bytes of a name. In a file name, each may take three.
    pub(crate) const LONGEST: usize = 64;

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tenant {
    type Err = BadTenant;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name.is_empty() || name.len() > Tenant::LONGEST {
            return Err(TenantFault::Length { length: name.len() }.into());
        }
        match name.chars().position(char::is_control) {
            Some(at) => Err(TenantFault::Character { at }.into()),
            None => Ok(Tenant(name.to_owned())),
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An invalid name for a tenant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct BadTenant(#[from] TenantFault);

/// The reason of a [`BadTenant`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum TenantFault {
    /// The name is too short or too long.
    #[error("a tenant's name has 1 to {} bytes, not {length}", Tenant::LONGEST)]
    Length { length: usize },
    /// The name contains a control character.
    #[error("a tenant's name may not have control characters, but character {at} is one", at = .at + 1)]
    Character { at: usize },
}

/// The namespace of a log: the store itself, a tenant, or a tenant's own tenant.
///
/// A store keeps it next to the name of each log, and compares both. It is for implementations of
/// [`Store`](super::Store).
///
/// ```
/// use lookback_store::Scope;
///
/// let (root, acme) = (Scope::default(), "acme".parse()?);
/// let scope = root.for_tenant(&acme);
/// assert_eq!(scope.as_str(), "acme\u{1f}");
/// assert_eq!(root.tenant_in(scope.as_str()), Some(acme));
/// assert_eq!(scope.tenant_in(scope.as_str()), None);
/// # Ok::<(), lookback_store::BadTenant>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Scope(String);

impl Scope {
    /// Ends the name of each tenant, and is in none of them.
    const END: char = '\u{1f}';

    /// Returns the namespace of a tenant within this one.
    #[must_use]
    pub fn for_tenant(&self, tenant: &Tenant) -> Scope {
        Scope(format!("{}{tenant}{}", self.0, Scope::END))
    }

    /// Returns the namespace as text: the name of each tenant, outermost first, each followed by the control character
    /// U+001F. It is empty for the namespace of the store itself. The texts of the namespaces within this one, and no
    /// others, begin with its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps the stored text of a namespace without a check.
    pub fn unchecked(text: String) -> Scope {
        Scope(text)
    }

    /// Returns the tenant of this namespace that contains or is the namespace with this text; `None` if the text is not
    /// within this namespace.
    pub fn tenant_in(&self, inner: &str) -> Option<Tenant> {
        let (name, _) = inner.strip_prefix(&self.0)?.split_once(Scope::END)?;
        Some(Tenant(name.to_owned()))
    }

    /// Returns whether this is the namespace of the store or of a chain of valid tenants, so that a walk from the store
    /// through its tenants reaches it.
    pub fn is_known(&self) -> bool {
        let mut scope = Scope::default();
        while scope != *self {
            let tenant = scope.tenant_in(&self.0).filter(|tenant| tenant.0.parse::<Tenant>().is_ok());
            let Some(tenant) = tenant else { return false };
            scope = scope.for_tenant(&tenant);
        }
        true
    }

    /// An index term that the texts of all tenants have.
    pub const OF_TENANTS: &str = "=";

    /// Returns the index terms that separate a tenant's texts from all others, the tenant's own last; none for the
    /// store itself. No text has such terms by itself: no other term begins with `=`.
    pub fn terms(&self) -> Vec<String> {
        if self.0.is_empty() {
            return Vec::new();
        }
        // Digits and `a` to `f`, because an index may ignore case.
        let own = self.0.bytes().fold(Scope::OF_TENANTS.to_owned(), |own, byte| format!("{own}{byte:02x}"));
        vec![Scope::OF_TENANTS.to_owned(), own]
    }
}

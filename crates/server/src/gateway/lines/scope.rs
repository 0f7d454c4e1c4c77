//! Scopes: the lines among which that of a request is looked for. Their names are the beginnings of sessions' names.

use lookback::Dialect;
use lookback::store::Tenant;
use lookback::{LogName, Message, RawRequest, Role};

use super::super::caller::Caller;
use super::super::identity::Identity;

/// The lines among which that of a request is looked for: those of one account and one conversation of the client, or
/// those that begin with the same words.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::gateway) struct Scope {
    /// The name of its first line.
    name: LogName,
    dialect: Dialect,
    tenant: Option<Tenant>,
}

impl Scope {
    /// Returns the scope of a request. The account of its caller tells accounts apart that share a store; it is part of
    /// the name.
    pub(in crate::gateway) fn of(identity: &Identity, caller: &Caller, request: &RawRequest<'_>) -> Option<Scope> {
        let at = |name: &str| match &caller.account {
            Some(account) => format!("{name}@{account}"),
            // Without an account, no name may be that of one.
            None if name.contains('@') => format!("{name}@-"),
            None => name.to_owned(),
        };
        let name = match identity {
            Identity::Session(name) => at(name),
            Identity::Client { client, id } => format!("{}/{id}", at(client)),
            Identity::Unsaid => {
                let mut messages = (0..request.len()).map_while(|index| request.message(index).ok());
                let first = messages.find(|message| message.role() == Role::User)?;
                // A message that grows while a stream fails keeps its beginning.
                let beginning: String = first.text().chars().take(120).collect();
                format!("{}/{:016x}", at("chat"), Message::user(beginning).digest() >> 64)
            }
        };
        // An identifier may have characters that no name has.
        let hashed = || format!("{}/{:032x}", at("chat"), Message::user(name.as_str()).digest());
        let short = || name.parse::<LogName>().ok().filter(|name| name.as_str().len() + 8 <= LogName::LONGEST);
        let name = short().or_else(|| hashed().parse().ok())?;
        Some(Scope { name, dialect: request.dialect(), tenant: caller.tenant.clone() })
    }

    /// Returns whether it is one conversation of the client.
    pub(in crate::gateway) fn is_named(identity: &Identity) -> bool {
        *identity != Identity::Unsaid
    }

    /// Returns the name of a line: the first has the name of the scope, and others a number behind it.
    pub(super) fn name(&self, number: usize) -> LogName {
        let numbered = || format!("{}#{}", self.name.as_str(), number + 1).parse().ok();
        (number > 0).then(numbered).flatten().unwrap_or_else(|| self.name.clone())
    }

    /// Returns the beginning of the names of all its lines.
    pub(super) fn prefix(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the number of the line with a name: the reverse of [`Scope::name`].
    pub(super) fn number(&self, name: &LogName) -> Option<usize> {
        let rest = name.as_str().strip_prefix(self.name.as_str())?;
        match rest.strip_prefix('#') {
            Some(number) => number.parse::<usize>().ok()?.checked_sub(1),
            None => rest.is_empty().then_some(0),
        }
    }
}

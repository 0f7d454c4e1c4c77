//! Scopes: sets of lines to which the search for a request's line is limited.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use lookback_store::{LogName, Tenant, now};
use lookback_wire::dialect::RawRequest;
use lookback_wire::message::{Message, Role};

use super::dates::without_dates;
use super::identity::Identity;

/// The owner of conversations. No request continues a line of another account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Account {
    /// The tenant, if there are several. Each tenant has its own store, so the names of sessions do not contain it.
    pub tenant: Option<Tenant>,
    /// A name that distinguishes accounts that share a store, if there are several. It is part of the names of
    /// sessions.
    pub name: Option<String>,
}

/// The lines of one account among which a request's line is searched: one conversation that the client identifies, or a
/// group of conversations that it identifies together, or all conversations that begin with the same words.
///
/// The names of their sessions begin with the name of the scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    name: LogName,
    /// Whether it is one conversation that the client identifies.
    is_named: bool,
    account: Account,
}

impl Scope {
    /// Creates the scope of a request. `None` if the client sends no identifier, and the request has no user message.
    ///
    /// ```
    /// use lookback_conversation::{Account, Identity, Scope};
    /// use lookback_wire::dialect::RawRequest;
    ///
    /// let request = RawRequest::read(r#"{"messages":[{"role":"user","content":"Hi"}]}"#, None)?;
    /// assert!(Scope::new(&Identity::Unsaid, Account::default(), &request).is_some());
    /// let empty = RawRequest::read(r#"{"messages":[]}"#, None)?;
    /// assert!(Scope::new(&Identity::Unsaid, Account::default(), &empty).is_none());
    /// # Ok::<(), lookback_wire::dialect::RequestError>(())
    /// ```
    pub fn new(identity: &Identity, account: Account, request: &RawRequest<'_>) -> Option<Scope> {
        let at = |name: &str| match &account.name {
            Some(account) => format!("{name}@{account}"),
            // Without an account, a name must not look like one with an account.
            None if name.contains('@') => format!("{name}@-"),
            None => name.to_owned(),
        };
        let name = match identity {
            Identity::Session(name) => at(name),
            Identity::Client { client: kind, id } | Identity::Group { kind, id } => format!("{}/{id}", at(kind)),
            Identity::Unsaid => {
                let mut messages = (0..request.len()).map_while(|index| request.message(index).ok());
                let first = messages.find(|message| message.role() == Role::User)?;
                // Only the beginning, because a message may grow after a failed stream.
                let said: String = first.text().chars().take(200).collect();
                let beginning: String = without_dates(&said).chars().take(120).collect();
                // Clients that speak different dialects are different clients.
                let words = format!("{} {beginning}", request.dialect());
                format!("{}/{:016x}", at("chat"), Message::user(words).digest() >> 64)
            }
        };
        // An identifier may have characters that a name must not have, or look like the name of another scope's line.
        let hashed = || format!("{}/{:032x}", at("chat"), Message::user(name.as_str()).digest());
        let is_plain = |name: &LogName| !name.as_str().contains('~') && name.as_str().len() + 17 <= LogName::LONGEST;
        let short = || name.parse::<LogName>().ok().filter(is_plain);
        let name = short().or_else(|| hashed().parse().ok())?;
        Some(Scope { name, is_named: identity.is_conversation(), account })
    }

    /// Returns the account.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Returns whether both scopes have the same account.
    pub(super) fn has_account_of(&self, other: &Scope) -> bool {
        self.account == other.account
    }

    /// Returns whether it is one conversation that the client identifies.
    pub(super) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Returns a name for a line. The first line of a conversation that the client identifies has the name of the
    /// scope. Others have a unique number after it: the time in milliseconds, and twenty random bits.
    pub(super) fn new_name(&self, is_first: bool) -> LogName {
        let numbered = || {
            let time = u128::try_from(now().unwrap_or_default()).unwrap_or_default();
            let random = u128::from(RandomState::new().build_hasher().finish() >> 44);
            format!("{}~{:x}", self.name.as_str(), (time << 20) | random).parse().ok()
        };
        let bare = is_first && self.is_named;
        (!bare).then(numbered).flatten().unwrap_or_else(|| self.name.clone())
    }

    /// Returns the prefix of the names of all lines in the scope.
    pub(super) fn prefix(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the number in a line's name, if the line is in the scope. Later lines have greater numbers.
    pub(super) fn number(&self, name: &LogName) -> Option<u64> {
        numbered_in(self.name.as_str(), name)
    }
}

/// Returns the name of the scope in a line's name.
pub(super) fn named_in(name: &LogName) -> &str {
    let is_number = |number: &str| u64::from_str_radix(number, 16).is_ok();
    name.as_str().rsplit_once('~').filter(|(_, number)| is_number(number)).map_or(name.as_str(), |(scope, _)| scope)
}

/// Returns the number in a line's name, if the line is in the scope with this name.
pub(super) fn numbered_in(scope: &str, name: &LogName) -> Option<u64> {
    let rest = name.as_str().strip_prefix(scope)?;
    match rest.strip_prefix('~') {
        Some(number) => u64::from_str_radix(number, 16).ok(),
        None => rest.is_empty().then_some(0),
    }
}

//! Recognizes the conversation of a request by its messages, because clients rarely identify it.
//!
//! A [`Line`] is one conversation, and a session in the store. A client sends its whole history with each call, so a
//! request continues the line that shares the longest beginning with its history. An identifier from the client only
//! narrows the search. If the end of the history differs and two lines are equally likely, neither is taken, and a new
//! line begins. If the request extends several lines equally well, the last used one is taken.
//!
//! A call takes these steps:
//!
//! 1. [`Identity::from_request`] reads the identifiers that the client sends.
//! 2. [`Kind::from_request`] distinguishes turns of a conversation from side calls, such as one that asks for a title.
//! 3. [`Scope::new`] narrows the search to one account, and to one conversation if the client identifies it.
//! 4. [`Lines::find`] returns a [`Match`]: the line, and the relation of the request to it.
//! 5. [`Match::answered`] records the answer, so that the next request is recognized.
//!
//! This crate never writes to a session. An application can attach its own data to a line, as [`Line::state`].
//!
//! ```
//! use std::error::Error;
//! use std::sync::Arc;
//!
//! use futures_lite::future::block_on;
//! use http::HeaderMap;
//! use lookback_conversation::{Account, Identity, Lines, Query, Relation, Scope, Match};
//! use lookback_store::{MemoryStore, Store};
//! use lookback_wire::dialect::RawRequest;
//! use lookback_wire::message::Message;
//!
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! let lines: Lines = Lines::default();
//! let find = |body: &str| -> Result<Match, Box<dyn Error>> {
//!     let request = RawRequest::read(body, None)?;
//!     let preamble = request.preamble();
//!     let identity = Identity::from_request(&HeaderMap::new(), &request);
//!     let scope = Scope::new(&identity, Account::default(), &request).ok_or("no message of a user")?;
//!     Ok(block_on(lines.find(&store, &scope, Query::new(&request, &preamble)))?)
//! };
//!
//! let mut first = find(r#"{"messages":[{"role":"user","content":"Hi"}]}"#)?;
//! assert_eq!(first.relation, Relation::New);
//! first.answered(&Message::assistant("Hello."));
//! let name = first.line.name.clone();
//! drop(first); // The request is over.
//!
//! let second = find(
//!     r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello."},{"role":"user","content":"Go on"}]}"#,
//! )?;
//! assert_eq!((&second.line.name, second.relation), (&name, Relation::Continued));
//! # Ok::<(), Box<dyn Error>>(())
//! ```

mod answers;
mod choose;
mod clues;
mod dates;
mod identity;
mod kind;
mod line;
mod lines;
mod load;
mod matched;
mod outline;
mod path;
mod query;
mod related;
mod relation;
mod scope;
mod scopes;
mod summaries;
mod summary_words;
mod tools;

pub use self::identity::Identity;
pub use self::kind::Kind;
pub use self::line::Line;
pub use self::lines::Lines;
pub use self::matched::Match;
pub use self::query::Query;
#[doc(hidden)]
pub use self::related::{Related, related};
pub use self::relation::Relation;
pub use self::scope::{Account, Scope};

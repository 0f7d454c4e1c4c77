//! Searches texts by words: the terms in an index, the terms of a query, and the ranking of the matches.
//!
//! A text matches if it has any of the words of the query, in any form: `painting` finds `painted`. The more of the
//! words it has, and the rarer they are, the higher it ranks. Function words, such as `the`, are ignored unless the
//! query has no others. A name in code matches as a whole, and by its parts: `read_file` also finds `read the file`,
//! but ranks it lower. The texts before and after a text, and those around it, contribute to its rank, too.
//!
//! - `"a phrase"` in quotation marks is found word for word.
//! - A [`Query`] can be limited to a speaker and a time (see [`Within`]).
//!
//! Stores do not depend on these rules. A store indexes the [`terms()`] of its records, which are opaque to it, and
//! answers four questions about them (see [`Index`]). From the answers, [`rank`] makes the same list in every store.
//! [`Texts`] is such an index in memory, for stores without one.
//!
//! ```
//! use lookback_store::search::{Query, Texts};
//! use lookback_store::Record;
//!
//! let mut texts = Texts::default();
//! for (position, text) in ["I painted a sunset.", "The port is 5050.", "Is it open?"].into_iter().enumerate() {
//!     texts.add(0, position as u64, &Record::new("{}").text(text));
//! }
//! let found = texts.search(None, &Query::new("Which ports are there?"), 9);
//! assert_eq!(found, [(0, 1)]);
//! ```

mod language;
mod passage;
mod query;
mod rank;
mod terms;
mod texts;
mod within;
mod words;

pub use passage::{excerpt, passage};
pub use query::{MOST_WORDS, Query};
pub use rank::{Index, Lookup, Place, rank};
pub use terms::terms;
pub use texts::Texts;
pub use within::{BadTime, Within};
pub use words::words;

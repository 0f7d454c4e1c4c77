//! Searching texts by words: what a store indexes, what a query looks for, and which texts fit it best.
//!
//! A text is found if it has any of the words of the query, in any form: `painting` finds `painted`. The more of the
//! words it has, and the rarer they are, the better it fits. Words that say nothing, such as `the`, do not count unless
//! there are no others. A name in code counts as a whole, and so do its parts: `read_file` also finds `read the file`,
//! but less well. What was said right before and after a text, and around it, counts too.
//!
//! - `"a phrase"` in quotation marks is found word for word.
//! - A [`Query`] can be limited to who speaks and when (see [`Within`]).
//!
//! Stores know nothing of all this. A store indexes the [`terms()`] of its records, which are opaque to it, and answers
//! four questions about them (see [`Index`]). From the answers [`rank`] makes the same list in every store.
//! [`Texts`] is such an index in memory, for stores that have none of their own.
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

pub use passage::passage;
pub use query::{MOST_WORDS, Query};
pub use rank::{Index, Lookup, Place, rank};
pub use terms::terms;
pub use texts::Texts;
pub use within::{BadTime, Within};
pub use words::words;

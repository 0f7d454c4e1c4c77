//! The names in the shown text of a message, found once, and only if a policy has an index.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use lookback_content::identifiers;
use lookback_wire::edit::{self, Edit};
use lookback_wire::message::Message;

/// The names in the shown text of a message. Copies share them, so the search runs once.
#[derive(Clone, Default)]
pub(super) struct Names(Arc<OnceLock<Found>>);

/// Names in one string, because thousands of names would otherwise need thousands of allocations.
#[derive(Default)]
struct Found {
    /// The names, joined without separators.
    text: String,
    /// The end of each name, in bytes.
    ends: Vec<usize>,
}

impl Names {
    /// Returns each name once, in order. `message` and `edits` must be the same each time.
    pub(super) fn find(&self, message: &Message, edits: &[Edit]) -> impl Iterator<Item = &str> {
        let found = self.0.get_or_init(|| Found::read(&edit::shown_text(message, edits)));
        let mut start = 0;
        found.ends.iter().filter_map(move |end| found.text.get(std::mem::replace(&mut start, *end)..*end))
    }
}

impl Found {
    fn read(text: &str) -> Found {
        let (mut found, mut known) = (Found::default(), HashSet::new());
        for name in identifiers::names(text).filter(|name| known.insert(*name)) {
            found.text.push_str(name);
            found.ends.push(found.text.len());
        }
        found
    }
}

impl fmt::Debug for Names {
    /// Prints only the number of names, because names are private contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Names").field(&self.0.get().map(|found| found.ends.len())).finish()
    }
}

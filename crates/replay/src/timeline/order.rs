//! The order of rows: the order in which messages are shown, with removed ones at their former places.

/// An ordered list of rows, with insertion at any place.
#[derive(Debug, Clone, Default)]
pub(super) struct Order {
    /// The rows by their places.
    rows: Vec<usize>,
    /// The places by their rows.
    places: Vec<usize>,
}

impl Order {
    /// Returns the place of a row.
    pub(super) fn place(&self, row: usize) -> usize {
        self.places.get(row).copied().unwrap_or(self.rows.len())
    }

    /// Inserts the next row at a place, or at the end, and returns its place.
    pub(super) fn insert(&mut self, place: Option<usize>) -> usize {
        let (row, place) = (self.places.len(), place.unwrap_or(self.rows.len()).min(self.rows.len()));
        for behind in self.rows.get(place..).unwrap_or_default() {
            if let Some(place) = self.places.get_mut(*behind) {
                *place += 1;
            }
        }
        self.rows.insert(place, row);
        self.places.push(place);
        place
    }

    /// Returns the place of the first row that meets a condition.
    pub(super) fn find(&self, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        self.rows.iter().position(|row| is_it(*row))
    }

    /// Returns the rows in their order.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> {
        self.rows.iter().copied()
    }
}

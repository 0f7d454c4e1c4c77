//! The contents of all messages, as fragments of HTML. A page has them packed, and beside that as they are if they are few, so
//! that it can be read without the script.

use lookback_replay::timeline::{Row, Timeline};
use lookback_wire::edit::Edit;
use maud::Markup;

use crate::content;
use crate::pairs::Pairs;
use crate::story::Parts;

/// Up to how many bytes contents are readable without the script.
const FEW: usize = 1 << 20;
/// About how many bytes a token of text has in a page, at most.
const BYTES_OF_TOKEN: u64 = 8;
/// About how many bytes are unpacked together.
const PACK: usize = 1 << 18;

/// The contents of messages: whole, and as they were sent.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    /// For each row, the whole message, and then what was sent of it under other edits.
    rows: Vec<Vec<String>>,
    /// For each row, the form of each of its states.
    forms: Vec<Vec<Option<usize>>>,
    bytes: usize,
    is_rendered: bool,
    is_packed: bool,
}

/// Renders the contents of all rows. If they are served and many, it is only found out which forms there are.
pub(crate) fn render(timeline: &Timeline, parts: &Parts) -> Fragments {
    let pairs = Pairs::from_rows(&timeline.rows);
    let is_packed = *parts == Parts::Packed;
    let bytes = timeline.rows.iter().map(|row| row.tokens).sum::<u64>().saturating_mul(BYTES_OF_TOKEN);
    let is_rendered = is_packed || usize::try_from(bytes).is_ok_and(|bytes| bytes <= FEW);
    let mut fragments = Fragments { is_packed, is_rendered, ..Fragments::default() };
    for row in &timeline.rows {
        let (forms, of_states) = row_forms(row, &pairs, is_packed || (is_rendered && fragments.bytes <= FEW));
        fragments.bytes += forms.iter().map(String::len).sum::<usize>();
        fragments.rows.push(forms);
        fragments.forms.push(of_states);
    }
    fragments
}

/// Renders the contents of one row: the whole message, and then what was sent of it under other edits.
///
/// A page whose [parts](crate::Parts) are served asks for them. `None` if there is no such row.
pub fn forms(timeline: &Timeline, pairs: &Pairs, row: usize) -> Option<Vec<String>> {
    Some(row_forms(timeline.rows.get(row)?, pairs, true).0)
}

/// Returns the forms of a row, and the form of each of its states.
fn row_forms(row: &Row, pairs: &Pairs, is_rendered: bool) -> (Vec<String>, Vec<Option<usize>>) {
    let rendered = |markup: &dyn Fn() -> Markup| if is_rendered { markup().into_string() } else { String::new() };
    let mut forms = vec![rendered(&|| content::whole(&row.message, pairs))];
    let mut known: Vec<(&[Edit], usize)> = Vec::new();
    let mut of_states = Vec::with_capacity(row.states.len());
    for state in &row.states {
        let form = state.is_shown.then(|| {
            if state.edits.is_empty() {
                return 0;
            }
            // A message is shown in few ways.
            let same = known.iter().find(|(edits, _)| **edits == *state.edits).map(|(_, form)| *form);
            same.unwrap_or_else(|| {
                forms.push(rendered(&|| content::as_sent(&row.message, &state.edits)));
                known.push((&state.edits, forms.len() - 1));
                forms.len() - 1
            })
        });
        of_states.push(form);
    }
    (forms, of_states)
}

impl Fragments {
    /// Whether the contents are in the rows themselves.
    pub(crate) fn are_few(&self) -> bool {
        self.is_rendered && self.bytes <= FEW
    }

    /// Returns a form of a row.
    pub(crate) fn form(&self, row: usize, form: usize) -> Option<&str> {
        self.rows.get(row)?.get(form).map(String::as_str)
    }

    /// Returns the form in which a state of a row sends it; `None` if it does not.
    pub(crate) fn state_form(&self, row: usize, state: usize) -> Option<usize> {
        *self.forms.get(row)?.get(state)?
    }

    /// Returns all forms, a pack at a time: for each the first row, and the forms of its rows. None if they are served.
    pub(crate) fn packs(&self) -> Vec<(usize, &[Vec<String>])> {
        let mut packs = Vec::new();
        if !(self.is_packed || self.are_few()) {
            return packs;
        }
        let (mut first, mut bytes) = (0, 0);
        for (row, forms) in self.rows.iter().enumerate() {
            bytes += forms.iter().map(String::len).sum::<usize>();
            if bytes >= PACK || row + 1 == self.rows.len() {
                packs.push((first, self.rows.get(first..=row).unwrap_or_default()));
                (first, bytes) = (row + 1, 0);
            }
        }
        packs
    }
}

//! The contents of all messages as HTML fragments. A page contains them packed, and small contents also unpacked, so
//! that it can be read without a script.

use lookback_replay::timeline::{Row, Timeline};
use lookback_wire::edit::Edit;
use maud::Markup;

use crate::content;
use crate::pairs::Pairs;
use crate::story::Parts;

/// The most bytes of contents that a page also contains unpacked.
const FEW: usize = 1 << 20;
/// An upper estimate of the bytes of a text token in a page.
const BYTES_OF_TOKEN: u64 = 8;
/// The approximate size of one pack, in bytes.
const PACK: usize = 1 << 18;

/// The contents of messages: whole, and as they were sent.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    /// The forms of each row: the whole message, followed by its forms under other edits.
    rows: Vec<Vec<String>>,
    /// For each row, the index of the form of each of its states.
    forms: Vec<Vec<Option<usize>>>,
    bytes: usize,
    is_rendered: bool,
    is_packed: bool,
}

/// Renders the contents of all rows. If a server provides large contents, only determines which forms there are.
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

/// Renders the forms of one row: the whole message, followed by its forms under other edits. `None` if there is no such
/// row.
///
/// A server calls this for pages whose [parts](crate::Parts) it serves.
pub fn forms(timeline: &Timeline, pairs: &Pairs, row: usize) -> Option<Vec<String>> {
    Some(row_forms(timeline.rows.get(row)?, pairs, true).0)
}

/// Returns the forms of a row, and the index of the form of each of its states.
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
            // There are few different edits of a message, so a linear search is fast.
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
    /// Returns whether the page contains the contents unpacked.
    pub(crate) fn are_few(&self) -> bool {
        self.is_rendered && self.bytes <= FEW
    }

    /// Returns a form of a row.
    pub(crate) fn form(&self, row: usize, form: usize) -> Option<&str> {
        self.rows.get(row)?.get(form).map(String::as_str)
    }

    /// Returns the index of a state's form. `None` if the state does not send the row.
    pub(crate) fn state_form(&self, row: usize, state: usize) -> Option<usize> {
        *self.forms.get(row)?.get(state)?
    }

    /// Returns all forms in packs: the first row of each pack, and the forms of its rows. Empty if a server provides
    /// them.
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

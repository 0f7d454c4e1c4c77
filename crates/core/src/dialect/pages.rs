//! The pages of the PDF files in a request.

use crate::message::{Media, Message, PartRef, ResultItem};
use crate::tokens;

/// A PDF file that says how many pages it has.
pub(super) struct Pages {
    /// The index of its message.
    pub(super) message: usize,
    /// The index of its part there.
    pub(super) part: usize,
    pub(super) count: u64,
}

/// Returns the PDF files in messages and in tool results.
pub(super) fn of(messages: &[Message]) -> impl Iterator<Item = Pages> {
    messages.iter().enumerate().flat_map(|(message, value)| {
        let parts = value.parts().enumerate();
        parts.flat_map(move |(part, value)| {
            let pages = files(value).into_iter().filter_map(tokens::pdf_pages);
            pages.map(move |count| Pages { message, part, count })
        })
    })
}

fn files(part: PartRef<'_>) -> Vec<&Media> {
    match part {
        PartRef::Document(media) => vec![media],
        PartRef::ToolResult(result) => result.content.iter().filter_map(document).collect(),
        _ => Vec::new(),
    }
}

fn document(item: &ResultItem) -> Option<&Media> {
    if let ResultItem::Document(media) = item { Some(media) } else { None }
}

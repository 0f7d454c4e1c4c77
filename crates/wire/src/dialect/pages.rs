//! Counts the pages of the PDF files in a request.

use crate::message::MediaSource;
use crate::message::{Media, Message, PartRef, ResultItem};
use lookback_content::base64::decoded;
use lookback_content::pdf;

/// A PDF file with a page tree that shows how many pages it has.
pub(super) struct Pages {
    /// The index of its message.
    pub(super) message: usize,
    /// The index of its part there.
    pub(super) part: usize,
    pub(super) count: u64,
}

/// Returns the PDF files in messages and tool results whose number of pages is known.
pub(super) fn find(messages: &[Message]) -> impl Iterator<Item = Pages> {
    messages.iter().enumerate().flat_map(|(message, value)| {
        let parts = value.parts().enumerate();
        parts.flat_map(move |(part, value)| {
            let pages = files(value).into_iter().filter_map(pdf_pages);
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

/// Returns how many pages a PDF file has, if its page tree can be read.
fn pdf_pages(media: &Media) -> Option<u64> {
    let MediaSource::Base64(data) = &media.source else { return None };
    pdf::is_pdf(&decoded(data, 1 << 10)).then(|| pdf::tree_pages(&decoded(data, usize::MAX))).flatten()
}

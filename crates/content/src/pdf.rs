//! Estimates the pages and the text of PDF files, without rendering them.

use memchr::memmem;

/// The assumed bytes per page, if a file does not state its number of pages.
const PAGE_BYTES: u64 = 50_000;

/// The most tokens of the text of a page, according to Anthropic's guide to PDF files.
const MOST_TEXT: u64 = 3_000;

/// The longest node of a page tree that is read, in bytes.
const LONGEST_NODE: usize = 1 << 14;

/// Returns whether bytes are the beginning of a PDF file.
pub fn is_pdf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"%PDF")
}

/// Returns the number of pages of a PDF file, from its page tree or, if that is packed, from its page objects. If there
/// are neither, the number is estimated from `length`, the length of the file in bytes.
pub fn pages(bytes: &[u8], length: u64) -> u64 {
    let objects = || Some(typed(bytes, b"/Page").count() as u64).filter(|pages| *pages > 0);
    tree_pages(bytes).or_else(objects).unwrap_or_else(|| length.div_ceil(PAGE_BYTES).max(1))
}

/// Returns the number of pages in the page tree of a PDF file: the largest `/Count` of its nodes. Counts of other
/// objects are ignored.
pub fn tree_pages(bytes: &[u8]) -> Option<u64> {
    let nodes: Vec<usize> = typed(bytes, b"/Pages").collect();
    let count = |index: usize| {
        // A node ends before its neighbors begin, so each byte is read for at most two nodes.
        let at = *nodes.get(index)?;
        let before = index.checked_sub(1).and_then(|before| nodes.get(before)).map_or(0, |before| before + 1);
        let least = before.max(at.saturating_sub(LONGEST_NODE));
        let most = nodes.get(index + 1).copied().unwrap_or(bytes.len()).min(at + LONGEST_NODE);
        let begin = least + memmem::rfind(bytes.get(least..at)?, b"<<")?;
        let node = bytes.get(begin..most)?;
        let node = node.get(..memmem::find(node, b">>")?)?;
        let count = node.get(memmem::find(node, b"/Count")? + b"/Count".len()..)?.trim_ascii_start();
        let digits = count.iter().take(6).take_while(|byte| byte.is_ascii_digit());
        Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    };
    (0..nodes.len()).filter_map(count).max().filter(|pages| *pages > 0)
}

/// Returns the offsets of the objects of a type in a PDF file.
fn typed<'a>(bytes: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    const TYPE: &[u8] = b"/Type";
    memmem::find_iter(bytes, TYPE).filter(move |at| {
        let rest = bytes.get(at + TYPE.len()..).unwrap_or_default().trim_ascii_start();
        let rest = rest.strip_prefix(name);
        rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
    })
}

/// Estimates the tokens of the text in a PDF file with this many pages: one token per five bytes of the packed streams
/// that draw the pages.
///
/// Other streams, such as fonts and pictures, are recognized by their dictionaries.
pub fn text_tokens(bytes: &[u8], pages: u64) -> u64 {
    const OTHER: [&[u8]; 6] = [b"/Length1", b"/Subtype", b"/FunctionType", b"/Type", b"/N ", b"/Alternate"];
    let (mut rest, mut drawn) = (bytes, 0);
    while let Some(start) = memmem::find(rest, b"stream") {
        let (before, stream) = rest.split_at(start + b"stream".len());
        let length = memmem::find(stream, b"endstream").unwrap_or(stream.len());
        let object = memmem::rfind(before, b"obj").and_then(|at| before.get(at..));
        let dictionary = object.unwrap_or(before);
        if !OTHER.iter().any(|word| memmem::find(dictionary, word).is_some()) {
            drawn += length as u64;
        }
        rest = stream.get(length + b"endstream".len()..).unwrap_or_default();
    }
    (drawn / 5).min(pages.saturating_mul(MOST_TEXT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_nothing_but_nodes_is_read_in_one_pass() {
        let node = "<</Type/Pages/Count 2>>";
        assert_eq!(tree_pages(format!("{}<</Type/Pages/Count 9>>", node.repeat(10)).as_bytes()), Some(9));
        // Four million characters in nodes without an end: read for each of them, they would take minutes.
        assert_eq!(tree_pages("/Type/Pages ".repeat(350_000).as_bytes()), None);
    }

    #[test]
    fn pages_are_those_of_the_tree_or_its_objects_or_as_many_as_the_bytes_may_be() {
        let pages = |rest: &str| pages(format!("%PDF-1.7\n{rest}").as_bytes(), 120_000);
        assert_eq!(pages("<</Type /Page>> <</Type/Page/Parent 3 0 R>> <</Type /PageLabel>>"), 2);
        // An update repeats a page, and the outlines have their own count.
        let tree = "<</Type /Pages /Count 2>> <</Type /Page>> <</Type /Page>> <</Type /Page>>";
        assert_eq!(pages(&format!("{tree} <</Type /Outlines /Count 500>>")), 2);
        assert_eq!(pages("<</Kids [1 0 R] /Count 7 /Type/Pages>> <</Count 3>>"), 7);
        assert_eq!(pages("nothing that is known"), 3);
    }

    #[test]
    fn the_text_is_what_the_pages_draw() {
        let drawn = format!("<</Length 500>>\nstream\n{}\nendstream endobj", "x".repeat(498));
        let font = format!("9 0 obj <</Length1 800>>\nstream\n{}\nendstream endobj", "y".repeat(800));
        let pdf = format!("%PDF-1.7\n<</Type/Pages/Count 1>> 8 0 obj {drawn} {font}");
        assert_eq!(text_tokens(pdf.as_bytes(), 1), 100);
        let long = format!("8 0 obj <<>>\nstream\n{}\nendstream endobj", "x".repeat(50_000));
        assert_eq!(text_tokens(long.as_bytes(), 2), 2 * MOST_TEXT);
    }
}

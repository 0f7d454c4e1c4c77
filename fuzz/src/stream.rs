//! A streamed response means the same, however the network cuts it into pieces.

use lookback_wire::dialect::{Dialect, ResponseStream};

/// Checks a stream: the first byte gives the dialect, the second the length of the pieces, and the others are what comes.
pub fn stream(data: &[u8]) {
    let [dialect, length, bytes @ ..] = data else { return };
    let all: Vec<Dialect> = Dialect::ALL.into_iter().collect();
    let dialect = all[usize::from(*dialect) % all.len()];
    let mut whole = ResponseStream::new(dialect);
    whole.read(bytes);
    let mut pieces = ResponseStream::new(dialect);
    bytes.chunks(usize::from(*length).max(1)).for_each(|piece| pieces.read(piece));
    assert_eq!(state(&whole), state(&pieces), "{dialect}");
}

/// All that a stream tells.
fn state(stream: &ResponseStream) -> impl PartialEq + std::fmt::Debug {
    let response = stream.response().map(|response| {
        let raw = response.message.wire().map(|wire| wire.raw.get().to_owned());
        let usage = (response.input, response.cached, response.written, response.output);
        (raw, response.model, usage, response.fills_window, response.lost_reasoning)
    });
    (stream.is_complete(), stream.has_content(), stream.error().map(str::to_owned), response)
}

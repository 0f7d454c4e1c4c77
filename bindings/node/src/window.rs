//! A window: the messages that one model call sends, with their sources.

use lookback_bindings as bindings;
use napi::bindgen_prelude::Uint32Array;
use napi_derive::napi;

use crate::errors::done;

/// The messages that one model call sends.
#[napi]
#[derive(Debug)]
pub struct NativeWindow(bindings::Window);

impl From<bindings::Window> for NativeWindow {
    fn from(window: bindings::Window) -> NativeWindow {
        NativeWindow(window)
    }
}

#[napi]
impl NativeWindow {
    /// The tokens, including the system prompt and the tools.
    #[napi(getter)]
    #[allow(clippy::cast_precision_loss, reason = "there are fewer than 2^53 tokens")]
    pub fn tokens(&self) -> f64 {
        self.0.tokens() as f64
    }

    /// Whether this call compacted the conversation.
    #[napi(getter)]
    pub fn compacted(&self) -> bool {
        self.0.compacted()
    }

    /// The messages as a JSON list.
    #[napi]
    pub fn json(&self) -> napi::Result<String> {
        done(self.0.json())
    }

    /// The JSON of one message.
    #[napi]
    pub fn message(&self, index: u32) -> napi::Result<Option<String>> {
        done(self.0.message(index as usize))
    }

    /// The source of each message, packed as numbers: its kind (0 unchanged, 1 changed, 2 own), the number of its
    /// positions, and the positions.
    #[napi]
    pub fn sources(&self) -> napi::Result<Uint32Array> {
        let mut packed = Vec::new();
        for source in done(self.0.sources())? {
            packed.push(match source.kind() {
                "unchanged" => 0,
                "changed" => 1,
                _ => 2,
            });
            packed.push(u32::try_from(source.positions().len()).unwrap_or(u32::MAX));
            packed.extend(source.positions().iter().map(|position| u32::try_from(*position).unwrap_or(u32::MAX)));
        }
        Ok(Uint32Array::new(packed))
    }

    /// The limits that the window exceeds, as JSON.
    #[napi]
    pub fn over(&self) -> String {
        self.0.over()
    }

    /// The treatment of every message and its reason, as JSON.
    #[napi]
    pub fn why(&self) -> napi::Result<String> {
        done(self.0.why())
    }

    /// The window as HTML.
    #[napi]
    pub fn html(&self) -> napi::Result<String> {
        done(self.0.html())
    }
}

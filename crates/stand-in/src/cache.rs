//! The simulated prompt cache: a request reads the longest beginning that an earlier one had.

use std::collections::HashSet;

use lookback::view::chain;
use lookback::{Request, Settings, measure};

use crate::model::Usage;

/// Beginnings with fewer tokens are not kept.
const LEAST: u64 = 1024;

/// The beginnings of requests that were seen.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    known: HashSet<u128>,
}

impl Cache {
    /// Counts the tokens of a request, and those of them that are cached.
    pub(crate) fn count(&mut self, request: &Request, settings: &Settings) -> Usage {
        let preamble = request.preamble();
        let raw = [&preamble.system, &preamble.tools].into_iter().flatten().map(|raw| raw.get());
        let mut prefix = raw.fold(0, |before, text| chain(before, digest(text)));
        let mut usage = Usage { input: preamble.measure(&*settings.counter).tokens, ..Usage::default() };
        let mut is_known = self.known.contains(&prefix);
        if is_known {
            usage.cached = usage.input;
        }
        self.known.insert(prefix);
        for message in request.messages() {
            let raw = message.wire().map_or("", |wire| wire.raw.get());
            prefix = chain(prefix, digest(raw));
            usage.input += measure(message, &[], &*settings.counter).tokens;
            is_known &= self.known.contains(&prefix);
            if is_known {
                usage.cached = usage.input;
            }
            self.known.insert(prefix);
        }
        if usage.cached < LEAST {
            usage.cached = 0;
        }
        usage.written = if usage.input >= LEAST { usage.input - usage.cached } else { 0 };
        usage
    }
}

fn digest(text: &str) -> u128 {
    lookback::Message::user(text).digest()
}

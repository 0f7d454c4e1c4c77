//! The exact requests of all calls. They have most of their messages in common, which are kept once.

use std::borrow::Cow;
use std::collections::HashMap;

use lookback_engine::view::View;
use lookback_replay::timeline::Timeline;
use lookback_session as session;
use lookback_store::StoreError;
use lookback_store::{LogName, Store};
use lookback_wire::dialect::Dialect;
use lookback_wire::dialect::json_list;
use serde::Serialize;
use serde_json::value::RawValue;

/// The messages of each call, byte for byte as they were sent.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Requests {
    /// The messages, as texts: a browser would write their JSON in another way.
    messages: Vec<String>,
    /// For each call: how many messages of the call before it begins with, and the numbers of those that follow.
    calls: Vec<(usize, Vec<usize>)>,
}

/// Returns what is sent of a view, as it is copied from a page: a request body of the dialect with the system prompt, the tools
/// and the messages. `None` if the dialect cannot express it.
pub fn request(view: &View, dialect: Dialect) -> Option<String> {
    let messages = view.encode(dialect).ok()?;
    let beside = view.preamble().into_iter().flat_map(|preamble| preamble.in_body(dialect));
    let beside: String = beside.map(|(name, raw)| format!("\"{name}\":{},", raw.get())).collect();
    Some(format!("{{{beside}\"{}\":{}}}", dialect.list(), json_list(&messages)))
}

impl Requests {
    /// Reads the requests of a session from its log.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn read(store: &dyn Store, log: &LogName, timeline: &Timeline) -> Result<Requests, StoreError> {
        let (mut requests, mut numbers) = (Requests::default(), HashMap::new());
        let mut before = Vec::new();
        let answers: Vec<u64> = timeline.calls.iter().map(|call| call.receipt.position).collect();
        session::adapter::each_view(store, log, &answers, &mut |view| {
            // What cannot be expressed was never sent.
            let sent = view.encode(timeline.dialect).unwrap_or_default();
            let sent: Vec<usize> = sent.into_iter().map(|raw| requests.number(&mut numbers, raw)).collect();
            let same = before.iter().zip(&sent).take_while(|(a, b)| a == b).count();
            requests.calls.push((same, sent.get(same..).unwrap_or_default().to_vec()));
            before = sent;
        })
        .await?;
        Ok(requests)
    }

    /// Returns the number of a message, which is kept if it is new.
    fn number(&mut self, numbers: &mut HashMap<String, usize>, raw: Cow<'_, RawValue>) -> usize {
        if let Some(number) = numbers.get(raw.get()) {
            return *number;
        }
        let number = self.messages.len();
        numbers.insert(raw.get().to_owned(), number);
        self.messages.push(raw.get().to_owned());
        number
    }

    /// Returns the messages of a call, from 1, as a JSON list.
    pub fn get(&self, call: u64) -> Option<String> {
        let calls = self.calls.get(..usize::try_from(call).ok()?)?;
        let mut sent: Vec<usize> = Vec::new();
        for (same, more) in calls {
            sent.truncate(*same);
            sent.extend(more);
        }
        let texts: Vec<&str> =
            sent.iter().filter_map(|number| self.messages.get(*number)).map(String::as_str).collect();
        Some(format!("[{}]", texts.join(",")))
    }
}

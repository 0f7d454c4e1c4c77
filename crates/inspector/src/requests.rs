//! The exact requests of all calls. Messages that several requests share are stored once.

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
    /// The distinct messages as JSON text, because a browser would reformat parsed JSON.
    messages: Vec<String>,
    /// For each call: the number of messages that it shares with the start of the previous call, and the indices of the
    /// rest.
    calls: Vec<(usize, Vec<usize>)>,
}

/// Returns the request body of a view in a dialect, with system prompt, tools and messages, for the page's copy button.
/// `None` if the dialect cannot express the view.
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
            // A view that cannot be expressed was never sent.
            let sent = view.encode(timeline.dialect).unwrap_or_default();
            let sent: Vec<usize> = sent.into_iter().map(|raw| requests.number(&mut numbers, raw)).collect();
            let same = before.iter().zip(&sent).take_while(|(a, b)| a == b).count();
            requests.calls.push((same, sent.get(same..).unwrap_or_default().to_vec()));
            before = sent;
        })
        .await?;
        Ok(requests)
    }

    /// Returns the index of a message, and stores the message if it is new.
    fn number(&mut self, numbers: &mut HashMap<String, usize>, raw: Cow<'_, RawValue>) -> usize {
        if let Some(number) = numbers.get(raw.get()) {
            return *number;
        }
        let number = self.messages.len();
        numbers.insert(raw.get().to_owned(), number);
        self.messages.push(raw.get().to_owned());
        number
    }

    /// Returns the messages of a call as a JSON list. Calls are numbered from 1.
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

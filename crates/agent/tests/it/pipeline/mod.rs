//! The pipeline: chains of middleware, by vectors, and runs that survive every failure of middleware.

mod failing;
mod failing_store;
mod runs;
mod waiting;
mod windows;

use crate::vectors;
use lookback_agent::{Event, Failure, Middleware, Pipeline, Reaction, Run};
use lookback_engine::transcript::{Entry, Origin};
use lookback_wire::message::{Message, ToolCall};

#[test]
fn middleware_is_a_chain() {
    vectors::run::hold("pipeline.json");
}

/// An answer with a call that reads one page.
fn asks(number: u64) -> Message {
    Message::assistant_with_calls("", [ToolCall::new(format!("c{number}"), "read", format!(r#"{{"page":{number}}}"#))])
}

/// Returns for each message of the log whether it is Lookback's own.
async fn origins(run: &Pipeline) -> std::collections::HashMap<u64, bool> {
    let entries = run.session().store().read(run.session().name(), 0..u64::MAX).await.unwrap();
    let entries = (0..).zip(entries.iter().map(|entry| serde_json::from_str::<Entry>(entry).unwrap()));
    let own = |(position, entry)| match entry {
        Entry::Message(arrival) => Some((position, arrival.origin == Origin::Lookback)),
        _ => None,
    };
    entries.filter_map(own).collect()
}

/// Adds a note at each call, after a while.
struct Slow;

impl Middleware for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn on(&mut self, event: &Event, run: &Run) -> Result<Reaction, Failure> {
        std::thread::sleep(std::time::Duration::from_millis(2));
        Ok(match event {
            Event::BeforeModel => Reaction::none().note(format!("This is iteration {}.", run.iteration)),
            _ => Reaction::none(),
        })
    }
}

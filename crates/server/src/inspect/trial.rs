//! A trial of a policy: replays a session under it, in memory.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use lookback_engine::{Settings, policy::Policy};
use lookback_presets::{named, parse, to_toml};
use lookback_replay::prices::Price;
use lookback_replay::replay::replay;
use lookback_replay::timeline::Timeline;
use lookback_store::{LogName, MemoryStore};
use lookback_tokens::TokenCounter;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// The result of a trial: the timeline, and the policy as TOML.
pub(super) struct Tried {
    pub(super) timeline: Timeline,
    pub(super) toml: String,
}

/// The longest text of a policy, in bytes.
const LONGEST: usize = 16 * 1024;

/// Replays a session under a policy, or returns the error of the policy. Reads no files: a policy is a preset or TOML
/// or JSON text. Stops early if the client disconnects.
pub(super) fn replayed(
    text: &str,
    timeline: &Timeline,
    counter: Arc<dyn TokenCounter>,
    price: &Price,
    mut is_waited_for: oneshot::Receiver<Infallible>,
) -> Result<Tried, String> {
    let policy = policy(text)?;
    let toml = to_toml(&policy).map_err(|error| error.to_string())?;
    let settings = Settings::default().dialect(timeline.dialect).policy(policy).counter(counter.clone());
    let (store, log) = (MemoryStore::new(), "trial".parse::<LogName>().map_err(|error| error.to_string())?);
    let recording = timeline.recording("trial");
    Handle::current().block_on(async {
        let mut on_call = |_: &_| match is_waited_for.try_recv() {
            Err(TryRecvError::Closed) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let replay = replay(&recording, settings, price, 0, &mut on_call).await.map_err(|error| error.to_string())?;
        if replay.report.cut_short {
            return Err("nobody waits for it any more".to_owned());
        }
        replay.save(&store, &log).await.map_err(|error| error.to_string())?;
        let timeline = Timeline::load(&store, &log, &*counter, price).await.map_err(|error| error.to_string())?;
        Ok(Tried { timeline, toml })
    })
}

fn policy(text: &str) -> Result<Policy, String> {
    if text.len() > LONGEST {
        return Err(format!("a policy has at most {LONGEST} bytes"));
    }
    let text = text.trim();
    let is_file = text.starts_with('{') || text.contains('\n') || text.contains(" = ");
    let read = if is_file { parse(text) } else { named(text) };
    read.map_err(|error| error.to_string())
}

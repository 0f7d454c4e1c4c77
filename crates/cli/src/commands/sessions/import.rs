//! `lookback sessions import`: reads recordings into a store.

use std::path::PathBuf;
use std::sync::Arc;

use futures_lite::future::block_on;
use lookback_recordings::Recording;
use lookback_session::Batch;
use lookback_session::{Error, Session};
use lookback_store::Store;
use lookback_wire::dialect::Dialect;

use crate::failure::Failure;
use crate::recordings::Recordings;
use crate::{input, output};

pub(super) fn run(
    files: &[PathBuf],
    dialect: Option<Dialect>,
    store: &Arc<dyn Store>,
    place: &str,
) -> Result<(), Failure> {
    let recordings = Recordings::named(files, dialect)?;
    let bar = output::progress(recordings.messages(), "messages");
    let (mut sessions, mut messages) = (0, 0);
    for recording in recordings.read() {
        let recording = recording?;
        let all = recording.messages.len() as u64;
        messages += import(store, recording, place)?;
        sessions += 1;
        bar.inc(all);
    }
    bar.finish_and_clear();
    let (sessions, messages) =
        (output::counted(sessions, "session", "sessions"), output::counted(messages, "message", "messages"));
    output::message(&format!("imported {messages} of {sessions} into {place}"));
    Ok(())
}

/// Appends the messages that the session lacks, and returns their number.
fn import(store: &Arc<dyn Store>, recording: Recording, place: &str) -> Result<u64, Failure> {
    let name = recording.id.clone();
    let failed = |error: Error| Failure::Import { session: name.clone(), error };
    let settings = input::repair_only(recording.dialect);
    let mut session = block_on(Session::open(store.clone(), &name, settings)).map_err(failed)?;
    let known = block_on(session.history()).map_err(failed)?;
    let mut messages = recording.messages;
    let is_beginning = known.len() <= messages.len()
        && known.iter().zip(&messages).all(|(known, new)| known.arrival.message.digest() == new.message.digest());
    if !is_beginning {
        return Err(Failure::OtherSession { session: name, store: place.to_owned() });
    }
    let new = messages.split_off(known.len());
    let is_new = known.is_empty() || !new.is_empty();
    if is_new && (recording.preamble.system.is_some() || recording.preamble.tools.is_some()) {
        block_on(session.set_preamble(&recording.preamble)).map_err(failed)?;
    }
    let count = new.len() as u64;
    if !new.is_empty() {
        block_on(session.append(Batch::from_iter(new))).map_err(failed)?;
    }
    Ok(count)
}

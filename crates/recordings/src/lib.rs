//! Recorded conversations, read from the logs of coding agents, from transcripts, and from the bodies of requests.
//!
//! [`Recording::read`] reads a text, and [`RecordedFile::open`] a file. Both recognize the format. Each format of an agent
//! or a library is a file in the folder `formats`.

#[cfg(feature = "sqlite")]
mod database;
mod draft;
mod error;
mod file;
mod formats;
mod handoff;
mod home;
mod left_out;
mod machine;
mod object;
mod recording;
mod shape;
mod transcripts;
mod unpack;
mod values;

pub use error::RecordingError;
pub use file::{FileError, RecordedFile};
pub use handoff::{Handoff, Resumable, Resume, handoff_id, resume};
pub use home::Home;
pub use left_out::{LeftOut, Lines, Reason};
pub use machine::{LogFile, agents, formats, logs};
pub use recording::{RecordedUsage, Recording};
pub use shape::Shape;
pub use unpack::{LARGEST, TextError, read_text};

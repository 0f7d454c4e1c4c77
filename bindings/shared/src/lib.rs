//! The code that the packages for other languages share: sessions, windows and memories that take and return JSON text,
//! and block until the work is done.
//!
//! Each package adds the conversions of its language: from values to JSON, and from results to values, exceptions or
//! promises. So the behavior of a call is written once, here.

mod annotated;
mod callbacks;
mod failure;
mod logged;
mod logging;
mod memory;
mod options;
mod page;
mod positions;
mod prices;
mod process;
mod replay;
mod session;
mod stateless;
mod window;

pub use callbacks::{Answer, Ask, Callbacks, EventListener, Summarize};
pub use failure::{Failure, Kind};
pub use logging::log_to;
pub use memory::{Memory, Statement};
pub use options::{Model, Opening, dialect, policy, policy_document, policy_toml, presets};
pub use prices::{price, prices};
pub use replay::{Replayed, replay};
pub use session::Session;
pub use stateless::{check, fit, repair};
pub use window::{Source, Window};

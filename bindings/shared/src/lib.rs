//! What the packages for other languages share: sessions, windows and memories that take JSON text and return JSON text,
//! and that wait until the work is done.
//!
//! A package adds what its language has: how its values become JSON (`input`), and how what comes back becomes values,
//! exceptions or promises. So what a call does is written once, here.

mod callbacks;
mod failure;
mod given;
mod logged;
mod logging;
mod memory;
mod options;
mod page;
mod prices;
mod process;
mod replay;
mod session;
mod stateless;
mod told;
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

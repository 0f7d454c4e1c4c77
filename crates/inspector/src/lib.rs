//! HTML pages that show, for each call of a session, what the model saw, what was left out and why, and what it cost.
//!
//! A page is a single HTML document with its own style and script, and allows no other script. All contents of a
//! session are escaped.
//!
//! ```
//! # futures_lite::future::block_on(async {
//! use lookback_replay::timeline::Timeline;
//! use lookback_store::MemoryStore;
//! use lookback_wire::message::Message;
//! use lookback_replay::prices::Prices;
//! use lookback_session::Session;
//! use lookback_engine::Settings;
//! use lookback_engine::policy::{Limits, Policy};
//! use lookback_inspector::{Contents, Story};
//!
//! let settings = Settings::default().policy(Policy { limits: Limits::messages(2), ..Policy::unlimited() });
//! let mut chat = Session::open(MemoryStore::new(), "chat-1", settings).await?;
//! for number in 1..=3 {
//!     chat.push(Message::user(format!("Question {number}?"))).await?;
//!     chat.window().await?;
//!     chat.push(Message::assistant("<script>alert(1)</script>")).await?;
//! }
//! let price = Prices::builtin().find("anthropic-5m").unwrap();
//! let counter = &chat.settings().counter;
//! let timeline = Timeline::load(&**chat.store(), chat.name(), &**counter, price).await?;
//! let page = Story::new("chat-1", &timeline, price).to_html(Contents::Shown);
//! assert!(page.contains("Question 3?") && !page.contains("<script>alert"));
//! # Ok::<(), lookback_session::Error>(())
//! # }).unwrap();
//! ```

mod alternatives;
mod by_client;
mod calls;
mod content;
mod data;
mod edit;
mod facts;
mod figure;
mod figures;
mod fragments;
mod known;
mod numbers;
mod overview;
mod page;
mod paid;
mod pairs;
mod picture;
mod related;
mod requests;
mod rows;
mod session;
mod story;
mod text;
mod week;

#[doc(hidden)]
pub use edit::Change;
#[doc(hidden)]
pub use figure::figure;
#[doc(hidden)]
pub use figures::{Day, Figures};
#[doc(hidden)]
pub use fragments::forms;
#[doc(hidden)]
pub use known::{Ended, KnownFact};
#[doc(hidden)]
pub use overview::{Found, Listed, Overview, Sort};
#[doc(hidden)]
pub use paid::paid;
#[doc(hidden)]
pub use pairs::Pairs;
#[doc(hidden)]
pub use requests::{Requests, request};
#[doc(hidden)]
pub use story::{Alternative, Parts, Trial};
pub use story::{Contents, Story};
#[doc(hidden)]
pub use week::{cause, week, week_notes};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

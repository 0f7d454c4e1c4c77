//! The known models: their context windows, how their tokens are counted, and the providers that serve them.

mod frame;
mod image;
mod media;
mod provider;
mod scale;
mod table;

#[doc(hidden)]
pub use frame::{Frame, ReasoningFormula};
#[doc(hidden)]
pub use image::{ImageFormula, Pixels};
#[doc(hidden)]
pub use media::MediaFormula;
pub use provider::{Provider, UnknownProvider};
#[doc(hidden)]
pub use scale::scale;
pub use table::{Model, Models, ModelsError};
#[doc(hidden)]
pub use table::{Tokenizer, WideWindow, matches_glob};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

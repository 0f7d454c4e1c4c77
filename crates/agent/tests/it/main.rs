//! The tests of this crate, as one program, because linking a program for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod budget;
mod fact_sheet;
mod five_stages;
#[path = "../../../session/tests/it/held.rs"]
mod held;
mod observe;
mod pipeline;
mod presets;
mod progress;
mod runtime;
mod vectors;

//! The tests of this crate, as one program, because linking one program per file takes longer than running the tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod accepted;
mod arrows;
mod bad_input;
mod bound;
mod broken_histories;
mod cheaper;
mod circles;
mod common;
mod corpus;
mod counts;
mod dialects;
mod laws;
mod loaded;
mod mends;
mod notes;
mod people;
mod provider_errors;
mod redacted;
mod responses;
mod rules;
mod rules_page;
mod stages;
mod stitch;
mod streams;
mod tightened;
mod work;

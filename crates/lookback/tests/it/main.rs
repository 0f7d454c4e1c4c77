//! The tests of this crate, as one program: linking one for each file takes longer than running them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agent;
mod agentlib;
mod broken_requests;
mod budget;
mod chat;
mod claude_code;
#[path = "../../../engine/tests/it/common/mod.rs"]
mod common;
mod crux;
#[cfg(all(feature = "http", any(feature = "postgres", feature = "redis")))]
#[path = "../common/deaf.rs"]
mod deaf;
mod draw;
mod erase;
mod example;
mod fact_sheet;
mod file_store;
#[path = "../common/filled.rs"]
mod filled;
mod five_stages;
mod five_windows;
mod held;
mod kb_import;
mod langchain4j;
mod limits;
mod memory;
mod memory_deeds;
#[path = "../../../../bench/src/mutants.rs"]
mod mutants;
mod observe;
mod pipeline;
mod presets;
mod progress;
mod receipts;
mod recordings;
mod redacted;
mod replay_valid;
mod resume;
mod runtime;
mod session;
mod session_laws;
mod sharing;
mod special_files;
mod store;
mod strands;
mod summaries;
mod summarize;
mod summarize_http;
mod summary_check;
mod timelines;
mod transfer;
mod two_tier;
mod vectors;
mod version_1;
mod writers;

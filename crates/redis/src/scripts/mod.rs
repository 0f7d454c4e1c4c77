//! The scripts that run in the server, each as a whole.
//!
//! They read in one round trip what belongs together. (A transaction could do some of it. But a server whose memory is
//! full refuses transactions, even those that only read or delete.)

use std::sync::LazyLock;

use redis::Script;

macro_rules! scripts {
    ($($name:ident = $file:literal,)*) => {
        $(pub(super) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!($file)));)*

        /// The text of each.
        pub(super) const ALL: &[&str] = &[$(include_str!($file)),*];
    };
}

scripts! {
    APPEND = "append.lua",
    COUNT = "count.lua",
    ERASE = "erase.lua",
    FORGET = "forget.lua",
    HEAD = "head.lua",
    READ = "read.lua",
    REPLACE = "replace.lua",
    TAIL = "tail.lua",
    TOUCH = "touch.lua",
}

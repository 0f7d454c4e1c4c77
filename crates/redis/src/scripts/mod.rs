//! The scripts that run on the server, each of them atomically.
//!
//! They read related data in one round trip. (A transaction could do some of this. But a server whose memory is full
//! refuses transactions, even those that only read or delete.)

use std::sync::LazyLock;

use redis::Script;

macro_rules! scripts {
    ($($name:ident = $file:literal,)*) => {
        $(pub(super) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!($file)));)*

        /// The text of each script.
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

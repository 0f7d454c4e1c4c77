//! A number from a caller: the position of an entry, or a number of items to skip.

use serde::Deserialize;
use utoipa::ToSchema;

/// A number that every JSON parser reads exactly: up to 2^53 - 1.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(try_from = "u64")]
#[schema(value_type = u64, minimum = 0, maximum = 9007199254740991_u64)]
pub(super) struct Number(u64);

impl Number {
    pub(super) fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Number {
    type Error = &'static str;

    fn try_from(number: u64) -> Result<Number, Self::Error> {
        if number < 1 << 53 { Ok(Number(number)) } else { Err("expected a number below 2^53") }
    }
}

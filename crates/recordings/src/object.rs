//! The members of a JSON object, read leniently: a member that is absent, `null` or of another type is not there.

use std::borrow::Cow;

use lookback_content::json::{self, Fields};
use lookback_engine::transcript::Millis;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The members of an object.
pub(crate) struct Object<'a> {
    fields: Fields<'a>,
    whole: &'a RawValue,
}

impl<'a> Object<'a> {
    pub(crate) fn read(value: &'a RawValue) -> Option<Self> {
        Fields::read(value).map(|fields| Object { fields, whole: value })
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.fields.borrowed(key).filter(|value| value.get() != "null")
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn has_any(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.has(key))
    }

    pub(crate) fn has_all(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| self.has(key))
    }

    /// Returns a member that is a string.
    pub(crate) fn str(&self, key: &str) -> Option<Cow<'a, str>> {
        self.get(key).and_then(json::text)
    }

    /// Returns a member that is a string, or an empty one.
    pub(crate) fn text(&self, key: &str) -> Cow<'a, str> {
        self.str(key).unwrap_or_default()
    }

    /// Returns a member that is a string.
    pub(crate) fn string(&self, key: &str) -> Option<String> {
        self.str(key).map(Cow::into_owned)
    }

    /// Returns whether a member is `true`.
    pub(crate) fn is(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.get() == "true")
    }

    /// Returns a number of tokens. Some clients write it with a fraction.
    pub(crate) fn tokens(&self, key: &str) -> u64 {
        let number = self.get(key).and_then(parse::<f64>).filter(|number| number.is_finite() && *number > 0.0);
        // Too many tokens for any model make a usage impossible, and it is ignored.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive and bounded")]
        let tokens = number.unwrap_or(0.0).min(1e18) as u64;
        tokens
    }

    pub(crate) fn object(&self, key: &str) -> Option<Object<'a>> {
        self.get(key).and_then(Object::read)
    }

    /// Returns the elements of a list.
    pub(crate) fn list(&self, key: &str) -> Option<Vec<&'a RawValue>> {
        self.get(key).and_then(json::array)
    }

    /// Returns the objects in a list.
    pub(crate) fn objects(&self, key: &str) -> Vec<Object<'a>> {
        self.list(key).unwrap_or_default().into_iter().filter_map(Object::read).collect()
    }

    pub(crate) fn first(&self, key: &str) -> Option<Object<'a>> {
        self.objects(key).into_iter().next()
    }

    pub(crate) fn time(&self, key: &str) -> Option<Millis> {
        self.get(key).and_then(millis)
    }

    /// Returns the members with their names.
    pub(crate) fn members(&self) -> Vec<(String, &'a RawValue)> {
        self.fields.keys().map(str::to_owned).filter_map(|key| Some((key.clone(), self.get(&key)?))).collect()
    }

    /// Returns the object itself.
    pub(crate) fn whole(&self) -> &'a RawValue {
        self.whole
    }

    /// Returns the object without these members.
    pub(crate) fn write_without(&self, keys: &[&str]) -> Box<RawValue> {
        if !self.has_any(keys) {
            return self.whole.to_owned();
        }
        let mut fields = self.fields.clone();
        keys.iter().for_each(|key| fields.remove(key));
        fields.write()
    }
}

/// Reads an optional value. A value that cannot be read counts as absent.
pub(crate) fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// Reads a time: RFC 3339, or seconds or milliseconds since 1970.
pub(crate) fn millis(time: &RawValue) -> Option<Millis> {
    // No time in milliseconds since 1970 is as small as this, and none in seconds as large.
    const MILLISECONDS: f64 = 1e11;
    if let Some(text) = json::text(time) {
        return text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond);
    }
    let number: f64 = parse(time)?;
    let seconds = if number.abs() < MILLISECONDS { number } else { number / 1e3 };
    jiff::Timestamp::from_duration(jiff::SignedDuration::try_from_secs_f64(seconds).ok()?)
        .ok()
        .map(jiff::Timestamp::as_millisecond)
}

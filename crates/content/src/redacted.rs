//! Debug output that prints the length of a text and none of its content.

use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

/// A wrapper of texts whose `Debug` output has only their lengths in bytes.
///
/// Debug output ends up in logs, where contents do not belong. Use the wrapper in your own types:
///
/// ```
/// use std::fmt;
///
/// use lookback_content::Redacted;
///
/// struct Question(String);
///
/// impl fmt::Debug for Question {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         f.debug_tuple("Question").field(&Redacted(&self.0)).finish()
///     }
/// }
///
/// assert_eq!(format!("{:?}", Question("Who is it?".to_owned())), "Question((10 bytes))");
/// ```
#[derive(Clone, Copy)]
pub struct Redacted<'a, T: ?Sized>(pub &'a T);

impl<T: HasContent + ?Sized> fmt::Debug for Redacted<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.shape(f)
    }
}

/// A type with private content, whose shape can be shown without it.
pub trait HasContent {
    /// Writes the shape: the lengths of all texts.
    fn shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl HasContent for str {
    fn shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes)", self.len())
    }
}

impl HasContent for String {
    fn shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().shape(f)
    }
}

impl HasContent for RawValue {
    fn shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().shape(f)
    }
}

impl<T: HasContent + ?Sized> HasContent for &T {
    fn shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).shape(f)
    }
}

impl<T: HasContent + ?Sized> HasContent for Box<T> {
    fn shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).shape(f)
    }
}

impl<T: HasContent + ?Sized> HasContent for Arc<T> {
    fn shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).shape(f)
    }
}

impl<T: HasContent> HasContent for Option<T> {
    fn shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref().map(Redacted), f)
    }
}

impl<T: HasContent> HasContent for Vec<T> {
    fn shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(Redacted)).finish()
    }
}

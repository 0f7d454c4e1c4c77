//! Makes values from bytes. When the bytes are used up, the values are zero.

/// A source of values.
#[derive(Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Creates a source from these bytes.
    pub fn new(data: &'a [u8]) -> Self {
        Bytes(data)
    }

    /// Returns whether there are more bytes.
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Returns a number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        usize::from(self.byte()) % most.max(1)
    }

    /// Returns one of these values.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns `true` or `false`.
    pub fn coin(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns a size: mostly small, now and then the largest possible.
    pub fn size(&mut self) -> u64 {
        let byte = self.byte();
        match byte {
            0..=199 => u64::from(byte),
            200..=239 => u64::from(byte) << (byte - 200),
            240..=250 => u64::from(self.byte()) * 1000,
            251..=254 => u64::MAX - u64::from(byte),
            255 => u64::MAX,
        }
    }

    /// Returns a value or `None`.
    pub fn option<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.coin() { Some(value(self)) } else { None }
    }
}

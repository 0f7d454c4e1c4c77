//! Values out of bytes: as many as one asks for, zero when there are no more.

/// A source of values.
#[derive(Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Values out of these.
    pub fn new(data: &'a [u8]) -> Self {
        Bytes(data)
    }

    /// Whether there are more.
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The next.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        usize::from(self.byte()) % most.max(1)
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Yes or no.
    pub fn coin(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A size: mostly small, now and then as large as can be.
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

    /// A value or none.
    pub fn option<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.coin() { Some(value(self)) } else { None }
    }
}

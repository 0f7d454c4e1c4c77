//! The border to JavaScript: texts in memory.
//!
//! A text is its length in bytes, as four bytes of which the least comes first, and then UTF-8. JavaScript asks for room,
//! writes its call there, and gives it to `call`, which gives back the answer in the same form. Whoever has a text gives it
//! back: JavaScript with `release`, and `call` by taking what it is given.

#![allow(unsafe_code, reason = "the border is memory, which the compiler cannot look into")]

use std::ptr;

use crate::calls::answer;

/// The bytes of the length.
const HEAD: usize = 4;

/// Returns room for a text of so many bytes. What is in it has to be written, all of it, before it is given to `call`.
#[unsafe(no_mangle)]
pub extern "C" fn allocate(length: u32) -> *mut u8 {
    let text = vec![0; length as usize];
    hand_over(&text)
}

/// Answers a call, and takes its text.
///
/// # Safety
/// `call` is from `allocate`, and was not given to `call` or `release` before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn call(call: *mut u8) -> *mut u8 {
    // SAFETY: the caller promises what `taken` asks for.
    let call = unsafe { taken(call) };
    let answered = match str::from_utf8(call.get(HEAD..).unwrap_or_default()) {
        Ok(call) => answer(call),
        Err(error) => answer(&format!("not UTF-8: {error}")),
    };
    hand_over(answered.as_bytes())
}

/// Takes a text back.
///
/// # Safety
/// `text` is from `allocate` or `call`, and was not given to `call` or `release` before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn release(text: *mut u8) {
    // SAFETY: the caller promises what `taken` asks for.
    drop(unsafe { taken(text) });
}

/// Returns a copy of a text that belongs to whoever has the pointer.
fn hand_over(text: &[u8]) -> *mut u8 {
    // A memory of 32 bits has no longer text.
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let whole: Box<[u8]> = length.to_le_bytes().into_iter().chain(text.iter().copied()).collect();
    Box::into_raw(whole).cast()
}

/// Takes back what `hand_over` has given away.
///
/// # Safety
/// The pointer is from `hand_over`, and was not taken before. Its first four bytes are unchanged.
unsafe fn taken(text: *mut u8) -> Box<[u8]> {
    // SAFETY: `hand_over` has written the length into the first four bytes of an allocation of at least four bytes.
    let head: [u8; HEAD] = unsafe { text.cast::<[u8; HEAD]>().read() };
    let whole = HEAD + u32::from_le_bytes(head) as usize;
    // SAFETY: `hand_over` made a box of exactly this length of the allocation, and nobody has taken it since.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(text, whole)) }
}

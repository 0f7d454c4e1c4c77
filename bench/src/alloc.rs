//! An allocator that counts allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The system's allocator, with counters for calls and bytes.
pub struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);

/// Returns the bytes that are allocated now.
pub fn live() -> u64 {
    BYTES.load(Relaxed) - FREED.load(Relaxed)
}

/// Returns the number of allocations and of allocated bytes so far.
pub fn so_far() -> (u64, u64) {
    (CALLS.load(Relaxed), BYTES.load(Relaxed))
}

// SAFETY: every method hands its arguments to the system's allocator, unchanged, and returns its result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller fulfills the contract of `alloc`, which is the same for the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        FREED.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: as above; the pointer came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

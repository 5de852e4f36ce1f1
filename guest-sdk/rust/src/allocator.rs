//! What components allocate from: first a piece of their own memory that is there from the beginning, then the standard
//! library's allocator.
//!
//! That one begins by letting the memory grow. Every call has a memory of its own, and so the host would have to map a
//! page for it and take it back again, which costs as much as all else that a short call does. Most calls get along with
//! what is here.
#![allow(unsafe_code, reason = "an allocator hands out memory")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, UnsafeCell};
use std::alloc::System;

/// Enough for an action that gets and returns some thousand words. It is mapped as it is used, so that what is left over
/// costs nothing but its share of the memory that a call may have.
const ROOM_BYTES: usize = 128 << 10;

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

/// Gives out its room from the start to the end, once: only what was given out last can be taken back.
#[repr(align(16))]
struct Allocator {
    room: UnsafeCell<[u8; ROOM_BYTES]>,
    used: Cell<usize>,
}

// SAFETY: a component has one thread, and so has each test below an allocator of its own.
unsafe impl Sync for Allocator {}

impl Allocator {
    const fn new() -> Self {
        Self {
            room: UnsafeCell::new([0; ROOM_BYTES]),
            used: Cell::new(0),
        }
    }

    /// Where in the room a block lies; none for one of the other allocator's.
    fn place(&self, block: *mut u8) -> Option<usize> {
        let place = block.addr().wrapping_sub(self.room.get().addr());
        (place < ROOM_BYTES).then_some(place)
    }

    /// A block of the room.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let start = self.room.get().cast::<u8>();
        let place = self.used.get()
            + start
                .wrapping_add(self.used.get())
                .align_offset(layout.align());
        let end = place
            .checked_add(layout.size())
            .filter(|end| *end <= ROOM_BYTES)?;
        self.used.set(end);
        Some(start.wrapping_add(place))
    }
}

// SAFETY: blocks of the room do not overlap: each lies behind all that were given out before it and not taken back.
// Where there is none, blocks are the other allocator's, and go back to it.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        self.take(layout)
            .unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.place(block) {
            Some(place) if place + layout.size() == self.used.get() => self.used.set(place),
            Some(_) => {}
            // SAFETY: it is one of that allocator's.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(place) = self.place(block) else {
            // SAFETY: it is one of that allocator's.
            return unsafe { System.realloc(block, layout, size) };
        };
        if place + layout.size() == self.used.get() && size <= ROOM_BYTES - place {
            self.used.set(place + size);
            return block;
        }
        if size <= layout.size() {
            return block;
        }
        // SAFETY: the caller promises that a layout of this size is one. Both blocks have at least the old size, and do
        // not overlap.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                block.copy_to_nonoverlapping(moved, layout.size());
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    fn of(size: usize, byte: u8, allocator: &Allocator) -> *mut u8 {
        // SAFETY: the block is as large as is written to it.
        unsafe {
            let block = allocator.alloc(layout(size, 8));
            block.write_bytes(byte, size);
            block
        }
    }

    fn bytes(block: *mut u8, size: usize) -> Vec<u8> {
        // SAFETY: all of it was written.
        unsafe { std::slice::from_raw_parts(block, size).to_vec() }
    }

    #[test]
    fn blocks_are_aligned_and_apart() {
        let allocator = Box::new(Allocator::new());
        for align in [1, 2, 4, 8, 16, 64, 4096] {
            of(3, 0, &allocator);
            // SAFETY: it is not used.
            let block = unsafe { allocator.alloc(layout(5, align)) };
            assert_eq!(block.addr() % align, 0);
            assert_eq!(allocator.place(block).unwrap() + 5, allocator.used.get());
        }
    }

    #[test]
    fn the_last_block_grows_where_it_lies_and_others_move() {
        let allocator = Box::new(Allocator::new());
        let (first, last) = (of(16, 1, &allocator), of(16, 2, &allocator));
        // SAFETY: the blocks are of these sizes.
        let (moved, grown) = unsafe {
            (
                allocator.realloc(first, layout(16, 8), 32),
                allocator.realloc(last, layout(16, 8), 8),
            )
        };
        assert_eq!((grown, bytes(grown, 8)), (last, vec![2; 8]));
        assert_ne!(moved, first);
        assert_eq!(bytes(moved, 16), [1; 16]);
        // SAFETY: the block is of this size, and the last one.
        assert_eq!(
            unsafe { allocator.realloc(moved, layout(32, 8), 1000) },
            moved
        );
        // SAFETY: the block is of this size, and the last one.
        unsafe { allocator.dealloc(moved, layout(1000, 8)) };
        assert_eq!(of(1, 3, &allocator), moved);
    }

    #[test]
    fn what_has_no_room_comes_from_the_other_allocator() {
        let allocator = Box::new(Allocator::new());
        let inside = of(ROOM_BYTES - 10, 1, &allocator);
        let outside = of(11, 2, &allocator);
        assert_eq!(
            (allocator.place(inside), allocator.place(outside)),
            (Some(0), None)
        );
        // SAFETY: the blocks are of these sizes.
        unsafe {
            let moved = allocator.realloc(inside, layout(ROOM_BYTES - 10, 8), ROOM_BYTES + 1);
            assert_eq!(allocator.place(moved), None);
            assert_eq!(bytes(moved, ROOM_BYTES - 10), vec![1; ROOM_BYTES - 10]);
            allocator.dealloc(moved, layout(ROOM_BYTES + 1, 8));
            allocator.dealloc(outside, layout(11, 8));
        }
        assert_eq!(allocator.place(of(8, 3, &allocator)), Some(0));
    }
}

//! The allocator of components: it first uses a block of static memory, then the standard library's
//! allocator.
//!
//! The standard allocator begins by growing the memory. Since every call has a memory of its own,
//! the host would have to map a page for it and unmap it again, which costs as much as everything
//! else in a short call. Most calls need no more than the static block.
#![allow(unsafe_code, reason = "an allocator hands out memory")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, UnsafeCell};
use std::alloc::System;

/// The size of the static block: enough for an action that receives and returns some thousand
/// words. It is mapped as it is used, so the unused part costs nothing except that it counts
/// towards the call's memory limit.
const STATIC_BYTES: usize = 128 << 10;

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

/// A bump allocator: memory is handed out from the start to the end, and only the block that was
/// allocated last can be freed.
#[repr(align(16))]
struct Allocator {
    memory: UnsafeCell<[u8; STATIC_BYTES]>,
    used: Cell<usize>,
}

// SAFETY: a component has one thread, and each test below uses an allocator of its own.
unsafe impl Sync for Allocator {}

impl Allocator {
    const fn new() -> Self {
        Self {
            memory: UnsafeCell::new([0; STATIC_BYTES]),
            used: Cell::new(0),
        }
    }

    /// Returns the offset of a block in the static memory, or `None` if it belongs to the other
    /// allocator.
    fn offset_of(&self, block: *mut u8) -> Option<usize> {
        let place = block.addr().wrapping_sub(self.memory.get().addr());
        (place < STATIC_BYTES).then_some(place)
    }

    /// Allocates a block of the static memory, or returns `None` if there is not enough left.
    fn allocate(&self, layout: Layout) -> Option<*mut u8> {
        let start = self.memory.get().cast::<u8>();
        let place = self.used.get()
            + start
                .wrapping_add(self.used.get())
                .align_offset(layout.align());
        let end = place
            .checked_add(layout.size())
            .filter(|end| *end <= STATIC_BYTES)?;
        self.used.set(end);
        Some(start.wrapping_add(place))
    }
}

// SAFETY: blocks of the static memory do not overlap, since each begins after all blocks that are
// allocated. Other blocks belong to the system allocator, and are freed by it.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the same contract.
        self.allocate(layout)
            .unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.offset_of(block) {
            Some(place) if place + layout.size() == self.used.get() => self.used.set(place),
            Some(_) => {}
            // SAFETY: the block belongs to that allocator.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(place) = self.offset_of(block) else {
            // SAFETY: the block belongs to that allocator.
            return unsafe { System.realloc(block, layout, size) };
        };
        if place + layout.size() == self.used.get() && size <= STATIC_BYTES - place {
            self.used.set(place + size);
            return block;
        }
        if size <= layout.size() {
            return block;
        }
        // SAFETY: the caller guarantees that a layout of this size is valid. Both blocks have at
        // least the old size, and do not overlap.
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

    fn filled_block(size: usize, byte: u8, allocator: &Allocator) -> *mut u8 {
        // SAFETY: the block has `size` bytes.
        unsafe {
            let block = allocator.alloc(layout(size, 8));
            block.write_bytes(byte, size);
            block
        }
    }

    fn bytes(block: *mut u8, size: usize) -> Vec<u8> {
        // SAFETY: all `size` bytes were initialised.
        unsafe { std::slice::from_raw_parts(block, size).to_vec() }
    }

    #[test]
    fn blocks_are_aligned_and_do_not_overlap() {
        let allocator = Box::new(Allocator::new());
        for align in [1, 2, 4, 8, 16, 64, 4096] {
            filled_block(3, 0, &allocator);
            // SAFETY: the block is not accessed.
            let block = unsafe { allocator.alloc(layout(5, align)) };
            assert_eq!(block.addr() % align, 0);
            assert_eq!(
                allocator.offset_of(block).unwrap() + 5,
                allocator.used.get()
            );
        }
    }

    #[test]
    fn the_last_block_grows_in_place_and_others_move() {
        let allocator = Box::new(Allocator::new());
        let (first, last) = (
            filled_block(16, 1, &allocator),
            filled_block(16, 2, &allocator),
        );
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
        assert_eq!(filled_block(1, 3, &allocator), moved);
    }

    #[test]
    fn blocks_that_do_not_fit_come_from_the_other_allocator() {
        let allocator = Box::new(Allocator::new());
        let inside = filled_block(STATIC_BYTES - 10, 1, &allocator);
        let outside = filled_block(11, 2, &allocator);
        assert_eq!(
            (allocator.offset_of(inside), allocator.offset_of(outside)),
            (Some(0), None)
        );
        // SAFETY: the blocks are of these sizes.
        unsafe {
            let moved = allocator.realloc(inside, layout(STATIC_BYTES - 10, 8), STATIC_BYTES + 1);
            assert_eq!(allocator.offset_of(moved), None);
            assert_eq!(bytes(moved, STATIC_BYTES - 10), vec![1; STATIC_BYTES - 10]);
            allocator.dealloc(moved, layout(STATIC_BYTES + 1, 8));
            allocator.dealloc(outside, layout(11, 8));
        }
        assert_eq!(allocator.offset_of(filled_block(8, 3, &allocator)), Some(0));
    }
}

//! An allocator that counts, for each thread on its own.
#![expect(unsafe_code, reason = "an allocator is unsafe to call and to be")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    fs,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

use rustix::thread::gettid;

/// Threads that are told apart: more than all tests of a process have. One beyond is not found.
const THREADS_MAX: usize = 64;

/// The number of a thread that has not allocated yet.
const UNKNOWN: usize = usize::MAX;

static THREADS: [Thread; THREADS_MAX] = [const { Thread::nobody() }; THREADS_MAX];
static KNOWN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// A thread and how often it has asked for memory.
pub(crate) struct Thread {
    id: AtomicU32,
    allocations: AtomicU64,
}

impl Thread {
    const fn nobody() -> Self {
        Self { id: AtomicU32::new(0), allocations: AtomicU64::new(0) }
    }

    /// The thread of this process that runs under `name`.
    pub(crate) fn named(name: &str) -> &'static Self {
        let is_named = |thread: &&Self| {
            let id = thread.id.load(Ordering::Relaxed);
            fs::read_to_string(format!("/proc/self/task/{id}/comm"))
                .is_ok_and(|comm| comm.trim_end() == name)
        };
        THREADS.iter().find(is_named).unwrap_or_else(|| panic!("no thread {name} is counted"))
    }

    /// How often it has asked for memory so far.
    pub(crate) fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::Relaxed)
    }
}

/// Notes that the calling thread asks for memory. Must not allocate itself.
fn count() {
    let mut number = NUMBER.get();
    if number == UNKNOWN {
        number = KNOWN.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(number);
        if let Some(thread) = THREADS.get(number) {
            thread.id.store(gettid().as_raw_nonzero().get().cast_unsigned(), Ordering::Relaxed);
        }
    }
    if let Some(thread) = THREADS.get(number) {
        thread.allocations.fetch_add(1, Ordering::Relaxed);
    }
}

/// The system's allocator, counted.
pub(crate) struct Counting;

// SAFETY: all of it is the system's allocator, and counting has nothing to do with memory.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: what holds for the caller of this is what the system's asks for; so below.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as above.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: as above.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's.
        unsafe { System.realloc(block, layout, bytes) }
    }

    // SAFETY: as above.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(block, layout) }
    }
}

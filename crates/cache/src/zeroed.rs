//! Tables of zeros that take no memory until they are used.
//!
//! A table is made for the most memory that a cache may ever have. The system maps its zeros one
//! page at a time, when something else is written there, so what is not in use costs addresses
//! only.

#[cfg(not(any(loom, shuttle)))]
use std::alloc::{Layout, handle_alloc_error};

/// `len` elements, all of their bytes zero.
///
/// # Panics
/// Ends the process when the system has not even addresses for them, as any allocation does.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn zeroed<T: zerocopy::FromZeros>(len: usize) -> Box<[T]> {
    use zerocopy::FromZeros as _;
    <[T]>::new_box_zeroed_with_elems(len).unwrap_or_else(|_| {
        handle_alloc_error(Layout::array::<T>(len).unwrap_or(Layout::new::<T>()))
    })
}

/// `len` elements, all of their bytes zero.
#[cfg(any(loom, shuttle))]
pub(crate) fn zeroed<T: Default>(len: usize) -> Box<[T]> {
    (0..len).map(|_| T::default()).collect()
}

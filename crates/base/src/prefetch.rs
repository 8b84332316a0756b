//! Asking the processor for memory before it is needed, so that other work is done meanwhile.
//!
//! A line of a large table takes as long to come as some hundred instructions do. Asked for here,
//! it comes while the program goes on; nothing waits, and nothing that a program sees changes.
//! Where the processor has no such instruction, under miri and under the model checkers nothing
//! happens.

#![cfg_attr(
    all(target_arch = "x86_64", not(any(loom, shuttle, miri))),
    expect(unsafe_code, reason = "instructions that the language has no safe words for")
)]

/// Bytes of a line, of most processors.
const LINE_BYTES: usize = 64;

/// Asks for the line that `place` begins in, which will be written.
#[inline(always)]
pub fn to_write<T>(place: &T) {
    to_write_line(place);
}

/// The same of the place with this number. There need not be one: nothing happens then that a
/// program sees.
#[inline(always)]
pub fn to_write_at<T>(places: &[T], at: usize) {
    to_write_line(places.as_ptr().wrapping_add(at));
}

/// Asks for the line that the place with this number begins in, which will be read. There need not
/// be one.
#[inline(always)]
pub fn to_read_at<T>(places: &[T], at: usize) {
    let place = places.as_ptr().wrapping_add(at);
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    // SAFETY: changes nothing that a program sees, and faults nowhere.
    unsafe {
        std::arch::asm!(
            "prefetcht0 byte ptr [{place}]",
            place = in(reg) place,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
    let _ = place;
}

/// Asks for all lines of `bytes`, which will be read.
#[inline]
pub fn all_to_read(bytes: &[u8]) {
    line_starts(bytes).for_each(|at| to_read_at(bytes, at));
}

/// Asks for all lines of `bytes`, which will be written.
#[inline]
pub fn all_to_write(bytes: &[u8]) {
    line_starts(bytes).for_each(|at| to_write_at(bytes, at));
}

/// A byte of each line that `bytes` have a part of: the first, and those a line apart.
#[inline(always)]
fn line_starts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let first = LINE_BYTES - bytes.as_ptr().addr() % LINE_BYTES;
    let others = (first..bytes.len()).step_by(LINE_BYTES);
    (0..bytes.len().min(1)).chain(others)
}

#[inline(always)]
fn to_write_line<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    // SAFETY: changes nothing that a program sees, and faults nowhere. Processors without it do
    // nothing: all of them know the instruction.
    unsafe {
        std::arch::asm!(
            "prefetchw byte ptr [{place}]",
            place = in(reg) place,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Under miri, too, where nothing is asked for.
    #[test]
    fn what_is_asked_for_stays_as_it_is_wherever_it_lies() {
        let words: Vec<AtomicU64> = (0..1000).map(AtomicU64::new).collect();
        words.iter().for_each(super::to_write);
        (0..2000).for_each(|at| super::to_write_at(&words, at));
        (0..2000).for_each(|at| super::to_read_at(&words, at));
        for (word, expected) in words.iter().zip(0..) {
            super::to_write(&expected);
            super::to_write(&word.load(Ordering::Relaxed));
            assert_eq!(word.load(Ordering::Relaxed), expected);
        }
        let bytes: Vec<u8> = (0..=255).collect();
        for part in [&bytes[..], &bytes[1..200], &bytes[63..66], &bytes[7..8], &[]] {
            let lines = super::line_starts(part).map(|at| part[at..].as_ptr().addr() / 64);
            let expected = part.iter().map(|byte| std::ptr::from_ref(byte).addr() / 64);
            let mut expected: Vec<usize> = expected.collect();
            expected.dedup();
            assert_eq!(lines.collect::<Vec<_>>(), expected);
        }
        super::all_to_read(&bytes);
        super::all_to_write(&bytes[1..200]);
        super::all_to_write(&[]);
        assert!(bytes.iter().copied().eq(0..=255));
        super::to_write(&());
        super::to_read_at(&words, usize::MAX);
    }
}

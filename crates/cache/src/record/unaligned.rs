//! Bytes of words, wherever among them they start.
//!
//! Two words shifted together give eight bytes, in some ten steps of the processor. One load that
//! does not mind where it starts gives them at once; but the language has no such load of atomics.
//!
//! Thread safety: relaxed. Bytes of a word that is being stored may be partly old and partly new,
//! as those of two words may; whoever reads a slot validates what he has read.

#![cfg_attr(
    not(any(loom, shuttle, miri)),
    expect(
        unsafe_code,
        reason = "loads bytes of two atomics at once, which the language cannot say"
    )
)]

use base::sync::atomic::AtomicU64;

use super::{SHORT_BYTES, SHORT_WORDS};
use crate::geometry::WORD_BYTES;

/// Eight bytes from byte `at`, which is less than [`starts`] says.
#[inline(always)]
pub(super) fn eight<const WORDS: usize>(words: &[AtomicU64; WORDS], at: usize) -> u64 {
    loads::eight(words, at % const { starts(WORDS, 1) })
}

/// [`SHORT_BYTES`] bytes from byte `at`, which is less than [`starts`] says.
#[inline(always)]
pub(super) fn short<const WORDS: usize>(
    words: &[AtomicU64; WORDS],
    at: usize,
) -> [u8; SHORT_BYTES] {
    loads::short(words, at % const { starts(WORDS, SHORT_WORDS) })
}

/// From how many bytes, the first ones of so many words, `taken` words' worth may be taken: a power
/// of two, so that to hold a place below it is one step.
const fn starts(words: usize, taken: usize) -> usize {
    1 << ((words - taken) * WORD_BYTES).ilog2()
}

/// Fills `out`, of at least eight bytes, from byte `skip`, which is less than eight.
///
/// # Panics
/// Panics when the words have fewer bytes.
pub(super) fn copy(words: &[AtomicU64], skip: usize, out: &mut [u8]) {
    assert!(out.len() >= WORD_BYTES, "{} bytes", out.len());
    assert!(skip + out.len() <= words.len() * WORD_BYTES, "a copy beyond the last word");
    loads::copy(words, skip, out);
}

/// What any processor can do.
#[cfg(any(test, not(target_arch = "x86_64"), loom, shuttle, miri))]
mod shifts {
    use base::sync::atomic::{AtomicU64, Ordering};

    use super::{SHORT_BYTES, WORD_BYTES};

    pub(super) fn eight(words: &[AtomicU64], at: usize) -> u64 {
        let first = at / WORD_BYTES;
        shifted(&words[first], &words[first + 1], at % WORD_BYTES)
    }

    pub(super) fn short(words: &[AtomicU64], at: usize) -> [u8; SHORT_BYTES] {
        let mut bytes = [0; SHORT_BYTES];
        let (parts, _) = bytes.as_chunks_mut::<WORD_BYTES>();
        for (number, part) in parts.iter_mut().enumerate() {
            *part = eight(words, at + number * WORD_BYTES).to_le_bytes();
        }
        bytes
    }

    /// Whole words from the start, and the last eight bytes at once wherever they start.
    pub(super) fn copy(words: &[AtomicU64], skip: usize, out: &mut [u8]) {
        let eight_at = |at: usize| match (&words[at / WORD_BYTES..], at % WORD_BYTES) {
            ([word, ..], 0) => word.load(Ordering::Relaxed),
            ([low, high, ..], skip) => shifted(low, high, skip),
            _ => unreachable!("invariant: there are as many words"),
        };
        let end = skip + out.len() - WORD_BYTES;
        let (parts, _) = out.as_chunks_mut::<WORD_BYTES>();
        for (number, part) in parts.iter_mut().enumerate() {
            *part = eight_at(skip + number * WORD_BYTES).to_le_bytes();
        }
        if let Some(last) = out.last_chunk_mut() {
            *last = eight_at(end).to_le_bytes();
        }
    }

    fn shifted(low: &AtomicU64, high: &AtomicU64, skip: usize) -> u64 {
        let [low, high] = [low, high].map(|word| word.load(Ordering::Relaxed));
        // A shift by up to 64 bits, in two steps.
        let shift = skip * 8;
        low >> shift | high << 1 << (63 - shift)
    }
}

#[cfg(any(not(target_arch = "x86_64"), loom, shuttle, miri))]
use shifts as loads;

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
mod loads {
    use std::arch::{
        asm,
        x86_64::{__m128i, _mm_storeu_si128},
    };

    use base::sync::atomic::AtomicU64;

    use super::{SHORT_BYTES, SHORT_WORDS, WORD_BYTES, starts};

    #[inline(always)]
    pub(super) fn eight<const WORDS: usize>(words: &[AtomicU64; WORDS], at: usize) -> u64 {
        debug_assert!(at < starts(WORDS, 1));
        let bytes;
        // SAFETY: reads 8 bytes from a place that has as many behind it among the words, all of
        // them initialized. This stands for a relaxed load of one atomic for every byte that is
        // taken from it.
        unsafe {
            asm!(
                "mov {bytes}, qword ptr [{words} + {at}]",
                words = in(reg) words,
                at = in(reg) at,
                bytes = lateout(reg) bytes,
                options(nostack, preserves_flags, readonly)
            );
        }
        bytes
    }

    #[inline(always)]
    pub(super) fn short<const WORDS: usize>(
        words: &[AtomicU64; WORDS],
        at: usize,
    ) -> [u8; SHORT_BYTES] {
        const { assert!(SHORT_BYTES == 2 * size_of::<__m128i>()) };
        debug_assert!(at < starts(WORDS, SHORT_WORDS));
        let (low, high): (__m128i, __m128i);
        let mut bytes = [0; SHORT_BYTES];
        // SAFETY: reads 32 bytes from a place that has as many behind it among the words, all of
        // them initialized. This stands for a relaxed load of one atomic for every byte that is
        // taken from it. The stores fill `bytes`, which has room for both.
        unsafe {
            asm!(
                "movdqu {low}, xmmword ptr [{words} + {at}]",
                "movdqu {high}, xmmword ptr [{words} + {at} + 16]",
                words = in(reg) words,
                at = in(reg) at,
                low = out(xmm_reg) low,
                high = out(xmm_reg) high,
                options(nostack, preserves_flags, readonly)
            );
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), low);
            _mm_storeu_si128(bytes.as_mut_ptr().cast::<__m128i>().add(1), high);
        }
        bytes
    }

    /// Bytes of a load.
    const LOADED_BYTES: usize = size_of::<__m128i>();
    /// Bytes of a step of a long copy: as many as a line, so that the loop itself costs little.
    const STEP_BYTES: usize = 4 * LOADED_BYTES;

    pub(super) fn copy(words: &[AtomicU64], skip: usize, out: &mut [u8]) {
        let start = words.as_ptr().cast::<u8>().wrapping_add(skip);
        debug_assert!(skip + out.len() <= words.len() * WORD_BYTES);
        match out.len() {
            STEP_BYTES.. => in_steps(out, |at, step| {
                // SAFETY: behind `start` are as many bytes of words as `out` has, and each step is
                // read from where it is in `out`.
                unsafe { load_step(start.wrapping_add(at), step) };
            }),
            LOADED_BYTES.. => in_steps(out, |at, step| {
                // SAFETY: as above.
                *step = unsafe { sixteen_at(start.wrapping_add(at)) };
            }),
            _ => in_steps(out, |at, step: &mut [u8; WORD_BYTES]| {
                // SAFETY: as above.
                *step = unsafe { eight_at(start.wrapping_add(at)) }.to_le_bytes();
            }),
        }
    }

    /// Has `out` filled in steps from the start, and its end by one more step that overlaps.
    #[inline(always)]
    fn in_steps<const BYTES: usize>(out: &mut [u8], fill: impl Fn(usize, &mut [u8; BYTES])) {
        let end = out.len() - BYTES;
        let (steps, rest) = out.as_chunks_mut();
        let whole = rest.is_empty();
        for (number, step) in steps.iter_mut().enumerate() {
            fill(number * BYTES, step);
        }
        if !whole && let Some(step) = out.last_chunk_mut() {
            fill(end, step);
        }
    }

    /// Fills a step with as many bytes of words.
    ///
    /// # Safety
    /// All of them lie in words that may be read.
    #[inline(always)]
    unsafe fn load_step(at: *const u8, out: &mut [u8; STEP_BYTES]) {
        let (a, b, c, d): (__m128i, __m128i, __m128i, __m128i);
        let out = out.as_mut_ptr().cast::<__m128i>();
        // SAFETY: reads what the caller allows. This stands for a relaxed load of one atomic for
        // every byte that is taken from it. The stores fill `out`.
        unsafe {
            asm!(
                "movdqu {a}, xmmword ptr [{at}]",
                "movdqu {b}, xmmword ptr [{at} + 16]",
                "movdqu {c}, xmmword ptr [{at} + 32]",
                "movdqu {d}, xmmword ptr [{at} + 48]",
                at = in(reg) at,
                a = out(xmm_reg) a,
                b = out(xmm_reg) b,
                c = out(xmm_reg) c,
                d = out(xmm_reg) d,
                options(nostack, preserves_flags, readonly)
            );
            _mm_storeu_si128(out, a);
            _mm_storeu_si128(out.add(1), b);
            _mm_storeu_si128(out.add(2), c);
            _mm_storeu_si128(out.add(3), d);
        }
    }

    /// Sixteen bytes of words.
    ///
    /// # Safety
    /// All of them lie in words that may be read.
    #[inline(always)]
    unsafe fn sixteen_at(at: *const u8) -> [u8; LOADED_BYTES] {
        let loaded: __m128i;
        let mut bytes = [0; LOADED_BYTES];
        // SAFETY: reads what the caller allows. This stands for a relaxed load of one atomic for
        // every byte that is taken from it. The store fills `bytes`.
        unsafe {
            asm!(
                "movdqu {loaded}, xmmword ptr [{at}]",
                at = in(reg) at,
                loaded = out(xmm_reg) loaded,
                options(nostack, preserves_flags, readonly)
            );
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), loaded);
        }
        bytes
    }

    /// Eight bytes of words.
    ///
    /// # Safety
    /// All of them lie in words that may be read.
    #[inline(always)]
    unsafe fn eight_at(at: *const u8) -> u64 {
        let bytes;
        // SAFETY: reads what the caller allows, and stands for relaxed loads as above.
        unsafe {
            asm!(
                "mov {bytes}, qword ptr [{at}]",
                at = in(reg) at,
                bytes = lateout(reg) bytes,
                options(nostack, preserves_flags, readonly)
            );
        }
        bytes
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_from_every_start() {
        let bytes: Vec<u8> = (0..320_u32).map(|at| (at * 7 + at / 256) as u8).collect();
        let words: Vec<AtomicU64> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|eight| AtomicU64::new(u64::from_le_bytes(*eight)))
            .collect();
        for skip in 0..8 {
            for len in 8..=bytes.len() - skip {
                for copy in [copy, shifts::copy] {
                    let mut out = vec![0; len + 2];
                    copy(&words, skip, &mut out[1..=len]);
                    assert_eq!(out[1..=len], bytes[skip..skip + len], "{len} bytes from {skip}");
                    assert_eq!((out[0], out[len + 1]), (0, 0), "beside {len} bytes from {skip}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "beyond the last word")]
    fn a_copy_ends_with_the_words() {
        copy(&[const { AtomicU64::new(0) }; 4], 1, &mut [0; 32]);
    }

    #[test]
    fn bytes_are_read_from_every_start() {
        read_from_every_start::<5>([32, 8]);
        read_from_every_start::<8>([32, 32]);
    }

    /// The starts for eight bytes and for [`SHORT_BYTES`] of so many words.
    fn read_from_every_start<const WORDS: usize>(starts: [usize; 2]) {
        let bytes: Vec<u8> = (0..WORDS * 8).map(|at| at as u8 + 100).collect();
        let words: [AtomicU64; WORDS] = std::array::from_fn(|at| {
            AtomicU64::new(u64::from_le_bytes(*bytes[at * 8..].first_chunk().expect("eight")))
        });
        assert_eq!([super::starts(WORDS, 1), super::starts(WORDS, SHORT_WORDS)], starts);
        for at in 0..starts[0] {
            let expected = u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight"));
            assert_eq!((eight(&words, at), shifts::eight(&words, at)), (expected, expected));
        }
        for at in 0..starts[1] {
            assert_eq!(short(&words, at), bytes[at..at + 32]);
            assert_eq!(shifts::short(&words, at), bytes[at..at + 32]);
        }
    }
}

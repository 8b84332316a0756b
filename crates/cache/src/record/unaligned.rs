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

/// Eight bytes from byte `skip`, which is less than eight.
#[inline(always)]
pub(super) fn eight(words: &[AtomicU64; 2], skip: usize) -> u64 {
    loads::eight(words, skip % WORD_BYTES)
}

/// [`SHORT_BYTES`] bytes from byte `skip`, which is less than eight.
#[inline(always)]
pub(super) fn short(words: &[AtomicU64; SHORT_WORDS + 1], skip: usize) -> [u8; SHORT_BYTES] {
    loads::short(words, skip % WORD_BYTES)
}

/// What any processor can do.
#[cfg(any(test, not(target_arch = "x86_64"), loom, shuttle, miri))]
mod shifts {
    use base::sync::atomic::{AtomicU64, Ordering};

    use super::{SHORT_BYTES, SHORT_WORDS, WORD_BYTES};

    pub(super) fn eight([low, high]: &[AtomicU64; 2], skip: usize) -> u64 {
        shifted(low, high, skip)
    }

    pub(super) fn short(words: &[AtomicU64; SHORT_WORDS + 1], skip: usize) -> [u8; SHORT_BYTES] {
        let mut bytes = [0; SHORT_BYTES];
        let (parts, _) = bytes.as_chunks_mut::<WORD_BYTES>();
        for ((part, low), high) in parts.iter_mut().zip(words).zip(&words[1..]) {
            *part = shifted(low, high, skip).to_le_bytes();
        }
        bytes
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

    use super::{SHORT_BYTES, SHORT_WORDS, WORD_BYTES};

    #[inline(always)]
    pub(super) fn eight(words: &[AtomicU64; 2], skip: usize) -> u64 {
        debug_assert!(skip < WORD_BYTES);
        let bytes;
        // SAFETY: reads 8 bytes from one of the first 8 of 16, all of them initialized. This
        // stands for a relaxed load of one atomic for every byte that is taken from it.
        unsafe {
            asm!(
                "mov {bytes}, qword ptr [{words} + {skip}]",
                words = in(reg) words,
                skip = in(reg) skip,
                bytes = lateout(reg) bytes,
                options(nostack, preserves_flags, readonly)
            );
        }
        bytes
    }

    #[inline(always)]
    pub(super) fn short(words: &[AtomicU64; SHORT_WORDS + 1], skip: usize) -> [u8; SHORT_BYTES] {
        const { assert!(SHORT_BYTES == 2 * size_of::<__m128i>()) };
        debug_assert!(skip < WORD_BYTES);
        let (low, high): (__m128i, __m128i);
        let mut bytes = [0; SHORT_BYTES];
        // SAFETY: reads 32 bytes from one of the first 8 of 40, all of them initialized. This
        // stands for a relaxed load of one atomic for every byte that is taken from it. The stores
        // fill `bytes`, which has room for both.
        unsafe {
            asm!(
                "movdqu {low}, xmmword ptr [{words} + {skip}]",
                "movdqu {high}, xmmword ptr [{words} + {skip} + 16]",
                words = in(reg) words,
                skip = in(reg) skip,
                low = out(xmm_reg) low,
                high = out(xmm_reg) high,
                options(nostack, preserves_flags, readonly)
            );
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), low);
            _mm_storeu_si128(bytes.as_mut_ptr().cast::<__m128i>().add(1), high);
        }
        bytes
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_from_every_start() {
        let bytes: [u8; 40] = std::array::from_fn(|at| at as u8 + 100);
        let words = std::array::from_fn(|at| {
            AtomicU64::new(u64::from_le_bytes(*bytes[at * 8..].first_chunk().expect("eight")))
        });
        for skip in 0..8 {
            assert_eq!(short(&words, skip), bytes[skip..skip + 32]);
            assert_eq!(shifts::short(&words, skip), bytes[skip..skip + 32]);
            let two = words.first_chunk().expect("two");
            let expected = u64::from_le_bytes(*bytes[skip..].first_chunk().expect("eight"));
            assert_eq!((eight(two, skip), shifts::eight(two, skip)), (expected, expected));
        }
    }
}

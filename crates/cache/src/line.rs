//! A line: eight words, what the processor loads at once.
//!
//! Index and ghosts look for a few bits in every word of a line, and nothing that they do takes
//! more instructions. On x86-64 four words are compared at once, two loads of two words each.
//!
//! Thread safety: the words are atomics, and every look at them is relaxed. What belongs together
//! is for the caller to find out.

#![cfg_attr(
    not(any(loom, shuttle, miri)),
    expect(unsafe_code, reason = "loads two atomics at once, which the language cannot say")
)]

use std::ops::Deref;

use base::sync::atomic::AtomicU64;

use crate::geometry::LINE_WORDS;

/// Eight words.
#[cfg_attr(any(loom, shuttle, miri), repr(transparent))]
#[cfg_attr(not(any(loom, shuttle, miri)), repr(C, align(64)))]
#[derive(Debug, Default)]
pub(crate) struct Line([AtomicU64; LINE_WORDS]);

impl Deref for Line {
    type Target = [AtomicU64; LINE_WORDS];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Bits of a word that [`Line::topped`] compares.
pub(crate) const TOP_BITS: u32 = 24;

impl Line {
    /// A bit for each word behind the first whose highest bits are `top`, lowest first.
    #[inline(always)]
    pub(crate) fn topped(&self, top: u32) -> u32 {
        looks::topped(self, top)
    }

    /// The same for two lines, the second one's bits [`LINE_WORDS`] above the first one's.
    #[inline(always)]
    pub(crate) fn both_topped(&self, second: &Self, top: u32) -> u32 {
        looks::both_topped([self, second], top)
    }

    /// Whether one of the two halves of a word is `half`.
    #[inline(always)]
    pub(crate) fn has_half(&self, half: u32) -> bool {
        looks::has_half(self, half)
    }
}

/// What any processor can do.
#[cfg(any(test, not(target_arch = "x86_64"), loom, shuttle, miri))]
mod scalar {
    use base::sync::atomic::Ordering;

    use super::{LINE_WORDS, Line, TOP_BITS};

    pub(super) fn topped(line: &Line, top: u32) -> u32 {
        line[1..].iter().rev().fold(0, |places, word| {
            let is_it = word.load(Ordering::Relaxed) >> (u64::BITS - TOP_BITS) == u64::from(top);
            places << 1 | u32::from(is_it)
        })
    }

    pub(super) fn both_topped(lines: [&Line; 2], top: u32) -> u32 {
        let [first, second] = lines.map(|line| topped(line, top));
        first | second << LINE_WORDS
    }

    pub(super) fn has_half(line: &Line, half: u32) -> bool {
        line.iter().any(|word| {
            let word = word.load(Ordering::Relaxed);
            word as u32 == half || (word >> 32) as u32 == half
        })
    }
}

#[cfg(any(not(target_arch = "x86_64"), loom, shuttle, miri))]
use scalar as looks;

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
mod looks {
    use std::arch::{
        asm,
        x86_64::{
            __m128i, _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_or_si128, _mm_packs_epi16,
            _mm_packs_epi32, _mm_set1_epi32,
        },
    };

    use super::{Line, TOP_BITS};

    #[inline(always)]
    pub(super) fn topped(line: &Line, top: u32) -> u32 {
        both_topped([line, line], top) & 0x7f
    }

    #[inline(always)]
    pub(super) fn both_topped(lines: [&Line; 2], top: u32) -> u32 {
        #[inline]
        #[target_feature(enable = "sse2")]
        fn topped([first, second]: [&Line; 2], top: u32) -> u32 {
            let top = _mm_set1_epi32(top.cast_signed());
            let words_of = |line| {
                let low = _mm_cmpeq_epi32(tops::<0>(line), top);
                _mm_packs_epi32(low, _mm_cmpeq_epi32(tops::<1>(line), top))
            };
            let bytes = _mm_packs_epi16(words_of(first), words_of(second));
            _mm_movemask_epi8(bytes).cast_unsigned() >> 1 & 0x7f7f
        }
        // SAFETY: every x86-64 has SSE2.
        unsafe { topped(lines, top) }
    }

    #[inline(always)]
    pub(super) fn has_half(line: &Line, half: u32) -> bool {
        #[inline]
        #[target_feature(enable = "sse2")]
        fn has_half(line: &Line, half: u32) -> bool {
            let half = _mm_set1_epi32(half.cast_signed());
            let is_it = |two| _mm_cmpeq_epi32(two, half);
            let low = _mm_or_si128(is_it(two::<0>(line)), is_it(two::<1>(line)));
            let high = _mm_or_si128(is_it(two::<2>(line)), is_it(two::<3>(line)));
            _mm_movemask_epi8(_mm_or_si128(low, high)) != 0
        }
        // SAFETY: every x86-64 has SSE2.
        unsafe { has_half(line, half) }
    }

    // Aligned loads of 16 bytes are one access on every processor with AVX (Intel's manual, volume
    // 3, 9.1.1; AMD's, volume 2, 7.3.2) and two of eight bytes on those before. So each word is
    // loaded by one access, as a relaxed load would.

    /// The highest [`TOP_BITS`] of four words of a line: the first four or the last.
    #[inline(always)]
    fn tops<const HALF: usize>(line: &Line) -> __m128i {
        let tops;
        // SAFETY: reads 32 of the line's 64 bytes, which are aligned and initialized; this stands
        // for a relaxed load of each of four atomics.
        unsafe {
            asm!(
                "movaps {tops}, xmmword ptr [{line} + {at}]",
                "shufps {tops}, xmmword ptr [{line} + {at} + 16], 0xdd",
                "psrld {tops}, {shift}",
                line = in(reg) line,
                at = const HALF * 32,
                shift = const u32::BITS - TOP_BITS,
                tops = out(xmm_reg) tops,
                options(nostack, preserves_flags, readonly)
            );
        }
        tops
    }

    /// Two words of a line: the first two are number 0.
    #[inline(always)]
    fn two<const PAIR: usize>(line: &Line) -> __m128i {
        let two;
        // SAFETY: reads 16 of the line's 64 bytes, which are aligned and initialized; this stands
        // for a relaxed load of each of two atomics.
        unsafe {
            asm!(
                "movdqa {two}, xmmword ptr [{line} + {at}]",
                line = in(reg) line,
                at = const PAIR * 16,
                two = out(xmm_reg) two,
                options(nostack, preserves_flags, readonly)
            );
        }
        two
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use base::sync::atomic::Ordering;

    use super::*;

    fn line(words: [u64; LINE_WORDS]) -> Line {
        Line(words.map(AtomicU64::new))
    }

    #[test]
    fn words_are_told_by_their_highest_bits_alone() {
        let top = 0x80_00ff_u32;
        let word = u64::from(top) << 40;
        let (below, above) = (word - 1, word | 0xff_ffff_ffff);
        let first = line([word, below, above, above + 1, 0, word, u64::MAX, word]);
        let second = line([word, above, 0, 0, word, 0, below, 0]);
        assert_eq!(first.topped(top), 0b101_0010);
        assert_eq!(first.both_topped(&second, top), 0b0000_1001_0101_0010);
        assert_eq!(second.topped(0), 0b101_0110, "an empty word's");
        assert_eq!(first.topped(0xff_ffff), 0b010_0000);
        for place in 0..LINE_WORDS {
            let alone = Line::default();
            alone[place].store(above, Ordering::Relaxed);
            assert_eq!(alone.topped(top), 1 << place >> 1, "all but the first");
            assert_eq!(Line::default().both_topped(&alone, top), 256 << place >> 1 & 0x7f00);
        }
    }

    #[test]
    fn a_half_is_found_wherever_it_is_and_only_whole() {
        for place in 0..LINE_WORDS {
            for shift in [0, 32] {
                let line = Line::default();
                line[place].store(0x8000_0001 << shift, Ordering::Relaxed);
                assert!(line.has_half(0x8000_0001) && line.has_half(0));
                assert!(!line.has_half(1) && !line.has_half(0x8000_0000));
                line[place].store(0x8000_0001 << 16, Ordering::Relaxed);
                assert!(!line.has_half(0x8000_0001));
            }
        }
    }

    #[test]
    fn both_ways_of_looking_see_the_same() {
        let mut word = 88_172_645_463_325_252_u64;
        for _ in 0..1_000 {
            let [first, second] = [(); 2].map(|()| {
                line(std::array::from_fn(|_| {
                    word ^= word << 13;
                    word ^= word >> 7;
                    word ^= word << 17;
                    // Few different ones, so that some match.
                    word & 0x8000_0100_0000_0001
                }))
            });
            for top in [0, 1, 0x80_0000, 0x80_0001] {
                let places = scalar::both_topped([&first, &second], top);
                assert_eq!(first.both_topped(&second, top), places);
                assert_eq!(second.topped(top), places >> 8);
            }
            for half in [0, 1, 0x8000_0000, 0x8000_0100] {
                assert_eq!(first.has_half(half), scalar::has_half(&first, half));
            }
        }
    }
}

//! The keyed hashes of keys.
//!
//! [`KeyHasher`] is PolymurHash 2.0 (Orson Peters): a universal hash with a proof. For two
//! different keys of at most `n` bytes, chosen without knowledge of the seed, the probability of
//! equal hashes is at most `n * 2^-60.2`, and the low bits are almost 2-independent. So nobody who
//! cannot see the seed or the hashes can craft keys that collide more often than chance; the seed
//! is drawn from the operating system at start and no reply carries a hash. It makes no claim
//! against an attacker who measures the time of single lookups with nanosecond precision for long
//! enough to recover 128 bits of seed; SipHash-1-3 would, at 15 to 40 ns more an operation.
//!
//! For most keys of 57 bytes and more the crate reduces once less than the author's C, which for
//! half of all seeds gives another hash. The bound is the same, and logs on disk have the crate's.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use polymur_hash::PolymurHash;

use crate::random::Random;

/// A hash function with its secret.
#[derive(Clone, Debug)]
pub struct KeyHasher(PolymurHash);

impl KeyHasher {
    /// The function that belongs to `seed`: 128 bits, of which the lowest three do not matter.
    #[must_use]
    pub fn new(seed: u128) -> Self {
        Self(PolymurHash::new(seed))
    }

    /// The 64-bit hash of `key`. Takes 2 to 4 ns for keys of up to 49 bytes.
    ///
    /// Inlined for short keys: where their length is known, two thirds of the steps are gone.
    #[must_use]
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> u64 {
        match key.len() {
            ..=SHORT_BYTES => self.0.hash(key),
            _ => self.hash_long(key),
        }
    }

    #[inline(never)]
    fn hash_long(&self, key: &[u8]) -> u64 {
        self.0.hash(key)
    }
}

/// The longest key of which PolymurHash multiplies but twice.
const SHORT_BYTES: usize = 21;

/// 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash function of a table in memory, with its secret: a [`KeyHasher`], and one of fewer steps
/// for keys of at most 16 bytes. No file has its hashes.
///
/// Such a key becomes two words, by which it differs from all others of its length, and they, with
/// a summand for the length, a number by the pair-multiply-shift function (Thorup 2015, High Speed
/// Hashing for Integers and Strings, section 3): all 64 bits are uniform and pairwise independent,
/// so two such keys agree in any `k` of them with a probability of `2^-k`. Of keys that follow one
/// another it makes an arithmetic progression, which may crowd few buckets, so a bijection scatters
/// that, and leaves independence as it is. The seed is made longer by SplitMix64: the bound holds
/// as far as its numbers look random to who sees none of them.
#[derive(Clone, Debug)]
pub struct TableHasher {
    long: KeyHasher,
    /// Added to the words before they are multiplied.
    addends: [u128; 2],
    /// For each length.
    summands: [u128; TWO_WORDS_BYTES + 1],
}

/// The longest key that is two words.
const TWO_WORDS_BYTES: usize = 16;

impl TableHasher {
    /// The function that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u128) -> Self {
        let [low, high] = [seed as u64, (seed >> 64) as u64];
        let mut streams = [Random::new(low, 1), Random::new(high, 2)];
        let mut word = || {
            let [one, other] = &mut streams;
            one.bits() ^ other.bits().rotate_left(32)
        };
        let mut number = || u128::from(word()) << 64 | u128::from(word());
        Self {
            long: KeyHasher::new(seed),
            addends: std::array::from_fn(|_| number()),
            summands: std::array::from_fn(|_| number()),
        }
    }

    /// The 64-bit hash of `key`. Inlined for short keys.
    #[must_use]
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> u64 {
        match self.summands.get(key.len()) {
            Some(&summand) => {
                let [first, last] = words(key).map(u128::from);
                let [a, b] = self.addends;
                let product = a.wrapping_add(last).wrapping_mul(b.wrapping_add(first));
                scatter((product.wrapping_add(summand) >> 64) as u64)
            }
            None => self.long.hash(key),
        }
    }
}

/// Two words by which a key of at most 16 bytes differs from all others of its length.
#[inline(always)]
fn words(key: &[u8]) -> [u64; 2] {
    if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
        return [u64::from_le_bytes(*first), u64::from_le_bytes(*last)];
    }
    if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
        return [first, last].map(|word| u64::from(u32::from_le_bytes(*word)));
    }
    let bytes = |key: &[u8]| key.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    [bytes(key), 0]
}

/// A bijection: two shifts and a multiplication by an odd number, which can be undone.
#[inline(always)]
fn scatter(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 32).wrapping_mul(GOLDEN);
    hash ^ hash >> 29
}

/// A map whose keys are numbers that this process has drawn itself, one after the other.
pub type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// The hash of a [`Numbered`] map: a multiplication. Keys of others may all fall into one place.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(32) ^ number).wrapping_mul(GOLDEN);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Bytes of the seed of a [`WideHasher`].
pub const WIDE_SEED_BYTES: usize = 128;

/// A hash function of 128 bits with its secret, for those who take a hash for the key itself.
///
/// Two PolymurHashes with seeds of their own, finished by two multiply-shift functions
/// (Dietzfelbinger 1996; sums of them for more than one input: Thorup 2015). Two different keys of
/// at most `n` bytes, chosen without knowledge of the seed, agree in any given `k` of the 128 bits
/// with a probability of at most `2^-k + n^2 * 2^-120.4`: either both PolymurHashes agree, or the
/// finish, which is pairwise independent, makes all bits of the two like coins. PolymurHash alone
/// promises that for 64 bits as a whole and not for 128.
#[derive(Clone, Debug)]
pub struct WideHasher {
    parts: [KeyHasher; 2],
    /// Of the lower and of the upper half: a factor for each part, and a summand.
    finish: [[u128; 3]; 2],
}

impl WideHasher {
    /// The function that belongs to a seed. All of its bytes are to be random: the bound is
    /// arithmetic with them.
    #[must_use]
    pub fn new(seed: &[u8; WIDE_SEED_BYTES]) -> Self {
        let (numbers, _) = seed.as_chunks();
        let number = |at: usize| u128::from_le_bytes(numbers[at]);
        Self {
            parts: [0, 1].map(|at| KeyHasher::new(number(at))),
            finish: [2, 5].map(|at| [at, at + 1, at + 2].map(number)),
        }
    }

    /// The 128-bit hash of `key`.
    #[must_use]
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u128 {
        let [one, other] = [&self.parts[0], &self.parts[1]].map(|part| u128::from(part.hash(key)));
        let half = |[by_one, by_other, plus]: [u128; 3]| {
            let sum = by_one.wrapping_mul(one).wrapping_add(by_other.wrapping_mul(other));
            sum.wrapping_add(plus) >> 64
        };
        half(self.finish[0]) | half(self.finish[1]) << 64
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, hash::Hasher};

    use super::{GOLDEN, KeyHasher, NumberHasher, TableHasher, WIDE_SEED_BYTES, WideHasher, words};
    use crate::random::Random;

    #[test]
    fn numbers_in_a_row_are_spread_over_places_and_over_the_marks_that_tell_them_apart() {
        for start in [0, 1 << 48, (1 << 63) + (5 << 48)] {
            let hash = |number: u64| {
                let mut hasher = NumberHasher::default();
                hasher.write_u64(start + number);
                hasher.finish()
            };
            // A map takes the place from the low bits, and a mark from the high ones.
            let places: HashSet<u64> = (0..1024).map(|number| hash(number) % 1024).collect();
            assert_eq!(places.len(), 1024);
            let marks: HashSet<u64> = (0..1024).map(|number| hash(number) >> 57).collect();
            assert_eq!(marks.len(), 128);
        }
    }

    fn drawn() -> [u8; WIDE_SEED_BYTES] {
        let mut random = Random::new(1, 2);
        let mut seed = [0; WIDE_SEED_BYTES];
        seed.as_chunks_mut().0.iter_mut().for_each(|word| *word = random.bits().to_le_bytes());
        seed
    }

    #[test]
    fn wide_hashes_follow_the_documented_formula() {
        let seed = drawn();
        let number =
            |at: usize| u128::from_le_bytes(seed[at..at + 16].try_into().expect("sixteen bytes"));
        let [x0, x1] = [0, 16].map(|at| u128::from(KeyHasher::new(number(at)).hash(b"key")));
        let half = |at| {
            let product = number(at).wrapping_mul(x0);
            product.wrapping_add(number(at + 16).wrapping_mul(x1)).wrapping_add(number(at + 32))
        };
        let expected = half(32) >> 64 | half(80) >> 64 << 64;
        assert_eq!(WideHasher::new(&seed).hash(b"key"), expected);
    }

    #[test]
    fn wide_hashes_stay_what_is_on_disk() {
        // The table of `docs/formats/index.md`, reckoned by a program that was written from it.
        // With this seed the author's C has other hashes for 57, 64, 70, 98 and 1000 bytes.
        let expected: [(usize, u128); 13] = [
            (1, 0x5343_2e19_03ee_d9c4_6752_3d62_883b_a6db),
            (7, 0xdb48_c745_c442_c13f_6fee_6dbc_b9f6_95fa),
            (8, 0x0fe9_9f55_0ac0_762b_752a_e111_d721_fe52),
            (21, 0x1961_d548_bc2f_a315_a81b_8fff_76af_48b6),
            (22, 0x7e72_6c66_605a_544d_0f09_0336_a9e6_6e08),
            (49, 0xda70_6152_4334_2515_f7e8_da46_bcd2_a4bc),
            (50, 0x9bb6_0b60_b60b_60b5_0b60_b61c_b462_e315),
            (57, 0xdc84_eb51_b81e_84ea_1e84_ec37_16a6_0284),
            (64, 0xd67c_9ec0_e305_2749_0527_4a4b_5ee2_4573),
            (70, 0x8736_03d1_9f6d_3b08_4f1c_eaff_a027_273a),
            (98, 0xf264_14c5_7626_d787_7222_d3e7_a9e6_e5a1),
            (250, 0x7ac2_60ff_9e3c_db79_a644_e397_007d_e4bb),
            (1000, 0x5902_b568_1acd_8032_dc8f_420e_3e4d_2374),
        ];
        let mut seed = [0; WIDE_SEED_BYTES];
        (0..).zip(&mut seed).for_each(|(at, byte): (usize, _)| *byte = (at * 7 + 3) as u8);
        let hasher = WideHasher::new(&seed);
        for (bytes, expected) in expected {
            let key: Vec<u8> = (0..bytes).map(|at| (at * 31 + bytes) as u8).collect();
            assert_eq!(hasher.hash(&key), expected, "{bytes} bytes");
        }
    }

    #[test]
    fn every_seed_byte_counts_for_a_wide_hash() {
        let mut seed = drawn();
        let before = WideHasher::new(&seed).hash(b"some key");
        for at in 0..WIDE_SEED_BYTES {
            seed[at] ^= 0x88;
            // The lower half of a summand rarely carries into the half that is kept.
            let is_low = [64..72, 112..120].iter().any(|low| low.contains(&at));
            assert!(is_low || WideHasher::new(&seed).hash(b"some key") != before, "byte {at}");
            seed[at] ^= 0x88;
        }
    }

    #[test]
    fn few_bits_of_a_wide_hash_collide_like_coins() {
        // 4,096 keys have 8.4 million pairs; 16 bits make 128 of them collide, give or take 11.
        for shift in [0, 17, 48, 64, 100, 112] {
            let mut seen = vec![0_u32; 1 << 16];
            let hasher = WideHasher::new(&drawn());
            (0..4096_u32).for_each(|key| {
                seen[(hasher.hash(&key.to_le_bytes()) >> shift) as usize % (1 << 16)] += 1;
            });
            let pairs: u32 = seen.iter().map(|&count| count * count.saturating_sub(1) / 2).sum();
            assert!((73..=183).contains(&pairs), "{pairs} pairs from bit {shift}");
        }
    }

    #[test]
    fn seeds_give_different_functions() {
        let (a, b) = (KeyHasher::new(1 << 64), KeyHasher::new(2 << 64));
        assert_eq!(a.hash(b"key"), a.hash(b"key"));
        assert_ne!(a.hash(b"key"), b.hash(b"key"));
    }

    #[test]
    fn every_bit_varies_over_short_keys() {
        let hasher = KeyHasher::new(7);
        let (mut ones, mut zeros) = (0u64, 0u64);
        for key in 0u32..4096 {
            let hash = hasher.hash(&key.to_le_bytes());
            ones |= hash;
            zeros |= !hash;
        }
        assert_eq!((ones, zeros), (u64::MAX, u64::MAX));
    }
    /// Keys of all lengths up to `bytes` that differ from zeros in one byte, and zeros.
    fn near_zeros(bytes: usize) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = (0..=bytes).map(|len| vec![0; len]).collect();
        for len in 1..=bytes {
            for at in 0..len {
                for byte in [1, 2, 0x80, 0xff] {
                    let mut key = vec![0; len];
                    key[at] = byte;
                    keys.push(key);
                }
            }
        }
        keys
    }

    #[test]
    fn two_words_tell_keys_of_a_length_apart() {
        let keys = near_zeros(16);
        let seen: HashSet<_> = keys.iter().map(|key| (key.len(), words(key))).collect();
        assert_eq!(seen.len(), keys.len());
    }

    #[test]
    fn a_tables_hashes_of_up_to_two_words_follow_the_documented_formula() {
        let hasher = TableHasher::new(9);
        let [a, b] = hasher.addends;
        for len in 0..=16 {
            let key: Vec<u8> = (0..len).map(|at: u8| at.wrapping_mul(31) ^ 7).collect();
            let [x0, x1] = words(&key);
            let product = (a.wrapping_add(x1.into())).wrapping_mul(b.wrapping_add(x0.into()));
            let sum = product.wrapping_add(hasher.summands[usize::from(len)]);
            let top = (sum >> 64) as u64;
            let mixed = (top ^ top >> 32).wrapping_mul(GOLDEN);
            assert_eq!(hasher.hash(&key), mixed ^ mixed >> 29, "{len} bytes");
        }
        let long = [5; 17];
        assert_eq!(hasher.hash(&long), KeyHasher::new(9).hash(&long));
    }

    #[test]
    fn a_tables_hashes_differ_with_length_byte_and_seed() {
        let keys = near_zeros(40);
        for seed in [0, 1, 1 << 64, 1 << 127] {
            let hasher = TableHasher::new(seed);
            let seen: HashSet<_> = keys.iter().map(|key| hasher.hash(key)).collect();
            assert_eq!(seen.len(), keys.len());
        }
        let hash = |seed| TableHasher::new(seed).hash(b"key");
        let seen: HashSet<_> = (0..128).map(|bit| hash(1 << bit)).collect();
        assert_eq!(seen.len(), 128);
    }

    /// Numbers in a row, as words and as decimals, spread like coins over the places of 65,536: of
    /// 65,536 keys some 24,109 (give or take 83) leave a place empty, whichever bits say the place.
    #[test]
    fn keys_in_a_row_are_spread_over_a_table_like_coins() {
        let decimal = |number: u32| format!("key:{number:08}").into_bytes();
        let word = |number: u32| number.to_le_bytes().to_vec();
        let strided = |number: u32| (u64::from(number) << 24).to_be_bytes().to_vec();
        for seed in 0..8 {
            let hasher = TableHasher::new(seed);
            for key in [&decimal as &dyn Fn(u32) -> Vec<u8>, &word, &strided] {
                for shift in [0, 24, 48] {
                    let place = |number| hasher.hash(&key(number)) >> shift & 0xffff;
                    let used: HashSet<u64> = (0..1 << 16).map(place).collect();
                    let empty = (1 << 16) - used.len();
                    assert!((23_500..24_720).contains(&empty), "{empty} of seed {seed} at {shift}");
                }
            }
        }
    }
}

use base::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::{Key, index::Candidates};

fn named(key: &[u8]) -> Key<'_> {
    Key::new(key, 0, Candidates::default())
}

fn slot(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(u64::MAX)).collect()
}

fn layout(key: &[u8], value: &[u8]) -> Layout {
    Layout {
        key_len: key.len(),
        value_len: value.len(),
        client_flags: 0,
        expiry_ms: 0,
        stale: false,
        win_sent: false,
        in_parts: false,
    }
}

fn write(
    words: &[AtomicU64],
    layout: &Layout,
    key: &[u8],
    (token, epoch): (u64, u64),
    value: &[u8],
) {
    write_by(WordSink::new(words), layout, key, (token, epoch), value);
}

fn write_by(
    mut sink: WordSink<'_>,
    layout: &Layout,
    key: &[u8],
    (token, epoch): (u64, u64),
    value: &[u8],
) {
    layout.write_front(&mut sink, &named(key), token, epoch);
    sink.push_bytes(value);
    sink.finish();
}

#[test]
fn miri_what_is_written_is_read_at_every_alignment() {
    // miri takes 50 ms a shape.
    let (key_step, value_step, byte_step) = if cfg!(miri) { (4, 11, 4) } else { (1, 1, 1) };
    // Longer than any value that there is under miri.
    let long_lens = if cfg!(miri) { 0..0 } else { 60..83 };
    for key_len in (1..=14).step_by(key_step) {
        for value_len in (0..=34).step_by(value_step).chain(long_lens.clone()) {
            for fields in 0..4 {
                let key: Vec<u8> = (1..=key_len).collect();
                let value: Vec<u8> = (100..100 + value_len).collect();
                let mut layout = layout(&key, &value);
                layout.expiry_ms = if fields & 1 == 0 { 0 } else { 0x0102_0304_0506 };
                layout.client_flags = if fields & 2 == 0 { 0 } else { 0xa1b2_c3d4 };
                let epoch = u64::from(key_len);
                let words = slot(layout.bytes().div_ceil(8));
                write(&words, &layout, &key, (0x8877_6655_4433_2211, epoch), &value);

                let slot = Slot(&words);
                let header = slot.header();
                assert_eq!(header, layout.header(epoch));
                assert!(slot.holds(header) && slot.with_key(&named(&key)) == Some(header));
                let meta = slot.meta(header, true);
                assert_eq!(meta.token, 0x8877_6655_4433_2211);
                assert_eq!(meta.expiry_ms, layout.expiry_ms);
                assert_eq!(meta.client_flags, layout.client_flags);
                assert_eq!(meta.value_len as usize, value.len());
                assert_eq!(header.epoch(), u64::from(key_len) % EPOCHS);
                let mut read = vec![0; value.len()];
                slot.copy_exactly(header.value_at(), &mut read);
                assert_eq!(read, value);
                // What is short is also read without a branch on its length, where the block has as
                // much behind it.
                let with_slack: Vec<AtomicU64> = words.into_iter().chain(self::slot(8)).collect();
                let slot = Slot(&with_slack);
                let mut room = vec![0; value.len().max(SHORT_BYTES)];
                slot.copy(header.value_at(), value.len(), &mut room);
                assert_eq!(room[..value.len()], value);
                let short = slot.short_plain(&named(&key), named(&key).plain(epoch % EPOCHS));
                assert_eq!(short.is_some(), fields == 0 && value.len() <= SHORT_BYTES);
                if let Some(short) = short {
                    let mut read = Vec::new();
                    let meta = short.copy(true, &mut read);
                    assert_eq!((meta, read), (slot.meta(header, true), value));
                    let other = named(&key).plain((epoch + 1) % EPOCHS);
                    assert!(slot.short_plain(&named(&key), other).is_none(), "flushed");
                }
                let mut read = vec![0; key.len()];
                slot.copy_exactly(header.key_at(), &mut read);
                assert_eq!(read, key);
                for at in (0..key.len()).step_by(byte_step) {
                    let mut other = key.clone();
                    other[at] ^= 0x80;
                    assert!(
                        slot.with_key(&named(&other)).is_none(),
                        "key byte {at} is not compared"
                    );
                }
                assert_eq!(slot.with_key(&named(&key[1..])), None);
            }
        }
    }
}

#[test]
fn every_byte_of_a_key_counts_whatever_its_length() {
    for key_len in 1..=40 {
        let key: Vec<u8> = (1..=key_len).collect();
        let (layout, words) = (layout(&key, b"v"), slot(14));
        write(&words, &layout, &key, (5, 0), b"v");
        let slot = Slot(&words);
        let found = |key: &[u8]| {
            let key = named(key);
            let found = slot.with_key(&key).is_some();
            assert_eq!(slot.short_plain(&key, key.plain(0)).is_some(), found, "{key:?}");
            found
        };
        assert!(found(&key));
        for at in 0..key.len() {
            let mut other = key.clone();
            other[at] ^= 1;
            assert!(!found(&other), "byte {at} of {key_len}");
        }
    }
}

#[test]
fn a_head_keeps_its_key_and_its_pins_apart() {
    let key = b"a key of some length";
    let head = Layout { in_parts: true, value_len: 1 << 20, ..layout(key, b"") };
    let words = slot(head.bytes().div_ceil(8));
    let mut sink = WordSink::new(&words);
    head.write_front(&mut sink, &named(key), 7, 0);
    sink.push(1 << 20, 4);
    sink.push(9, 4);
    sink.finish();
    let slot = Slot(&words);
    let header = slot.header();
    assert!(header.in_parts() && header.has_expiry() && header.has_flags());
    assert_eq!(words[0].load(Ordering::Relaxed) >> 32, 0, "no pins before it is published");
    assert!(slot.with_key(&named(key)) == Some(header));
    assert_eq!(slot.meta(header, false).value_len, 1 << 20);
    assert_eq!(slot.number(header.value_at() + 4, 4), 9);
}

#[test]
fn whatever_was_in_a_slot_a_record_reads_as_it_was_written() {
    let lens = [(5, 1), (5, 63), (16, 64), (16, 100), (5, 4096), (1, 3), (4, 8), (16, 18), (29, 7)];
    for (key_len, value_len) in lens {
        let key: Vec<u8> = (1..=key_len).collect();
        let value: Vec<u8> = (0..value_len).map(|at| at as u8).collect();
        let layout = layout(&key, &value);
        let write_over = |words: &[AtomicU64], is_new| {
            let start = if is_new { WordSink::new } else { WordSink::over };
            write_by(start(words), &layout, &key, (7, 0), &value);
            let slot = Slot(words);
            let mut read = vec![0; value_len];
            slot.copy_exactly(layout.header(0).value_at(), &mut read);
            assert_eq!(read, value, "{value_len} bytes, is_new: {is_new}");
            assert_eq!(
                slot.with_key(&named(&key)),
                Some(layout.header(0)),
                "{key_len} bytes of key"
            );
            assert_eq!(slot.token(layout.header(0)), 7);
        };
        let words = || slot(layout.bytes().div_ceil(8));
        write_over(&words(), true);
        // The same key's: the same, and what differs in a single word of a group.
        for at in [0, value_len / 2, value_len - 1] {
            for is_new in [true, false] {
                let words = words();
                let mut before = value.clone();
                before[at] ^= u8::from(at > 0);
                write(&words, &layout, &key, (8, 0), &before);
                write_over(&words, is_new);
            }
        }
        // The same key's of another length and with other fields, in a slot of the same size.
        let other = Layout { value_len: 0, expiry_ms: 5, client_flags: 9, ..layout };
        if other.bytes() <= layout.bytes().next_multiple_of(8) {
            let words = words();
            write(&words, &other, &key, (8, 0), &[]);
            write_over(&words, false);
        }
    }
}

#[test]
fn a_patch_changes_its_bytes_only() {
    for at in 0..16 {
        for len in 1..=8 {
            let words = slot(3);
            patch(&words, at, len, 0);
            let mut bytes = [1; 24];
            Slot(&words).copy_exactly(0, &mut bytes);
            for (place, byte) in bytes.iter().enumerate() {
                let inside = (at..at + len).contains(&place);
                assert_eq!(*byte, if inside { 0 } else { 0xff }, "{at} {len} {place}");
            }
        }
    }
}

#[test]
fn a_torn_length_is_refused_before_anything_is_copied() {
    let words = slot(8);
    let header = Header(4 | 4097 << VALUE_LEN_SHIFT);
    assert!(!Slot(&words).holds(header));
    let header = Header(4 | 60 << VALUE_LEN_SHIFT);
    assert!(!Slot(&words).holds(header), "16 + 60 bytes do not fit 64");
    let header = Header(4 | 48 << VALUE_LEN_SHIFT);
    assert!(Slot(&words).holds(header));
}

//! Whatever a memcached client sends, the parser takes it off the input in order, and what it
//! finds keeps its promises.

use wire::memcached::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use wire::memcached::reply::{
    Facts, META_DEBUG_BYTES_MAX, META_LINE_BYTES_MAX, NUMBER_BYTES_MAX, Renewal, Status,
    VALUE_HEADER_BYTES_MAX, Writer,
};
use wire::memcached::{Keys, Meta, MetaKey, MetaStore, Request, Store};

use crate::memcached::{Event, Reader};

/// The longest of everything.
const FACTS: Facts = Facts {
    value_len: u32::MAX,
    client_flags: u32::MAX,
    token: u64::MAX,
    ttl_s: Some(u32::MAX),
    ttl_before_s: Some(u32::MAX),
    idle_s: u32::MAX,
    fetched: true,
};

/// Takes `data` apart and checks each request, and that replies to it fit their bounds.
///
/// # Panics
/// When a promise is broken.
pub fn body(data: &[u8]) {
    let mut reader = Reader::default();
    let taken = reader.take(data, |event| match event {
        Event::Request(request) => check_request(&request),
        Event::Keys(keys) => check_keys(keys),
        Event::Refused { reply, .. } => {
            assert!(reply.is_empty() || reply.ends_with(b"\r\n"), "{reply:?}");
        }
    });
    assert!(taken <= data.len());
}

fn check_request(request: &Request<'_>) {
    match *request {
        Request::Get(get) => {
            assert!(get.keys.rest_len() > 0);
            check_keys(get.keys);
        }
        Request::Store(Store { key, value_len, .. }) => {
            check_key(key);
            assert!(value_len <= VALUE_LEN_MAX);
        }
        Request::Delete { key, .. }
        | Request::Arithmetic { key, .. }
        | Request::Touch { key, .. } => check_key(key),
        Request::MetaGet(meta) => {
            check_meta(&meta);
            let renewal = Renewal { won: true, stale: true, taken: true };
            within(META_LINE_BYTES_MAX, |out| {
                out.meta_get_hit(&meta, &FACTS, renewal);
            });
            within(META_LINE_BYTES_MAX, |out| out.meta_get_miss(&meta));
        }
        Request::MetaStore(MetaStore { meta, value_len, .. }) => {
            check_meta(&meta);
            assert!(value_len <= VALUE_LEN_MAX);
            within(META_LINE_BYTES_MAX, |out| out.meta_store(Status::Done, &meta, &FACTS));
        }
        Request::MetaDelete(meta) => {
            check_meta(&meta);
            within(META_LINE_BYTES_MAX, |out| out.meta_delete(Status::NotFound, &meta));
        }
        Request::MetaArithmetic { meta, .. } => {
            check_meta(&meta);
            within(NUMBER_BYTES_MAX, |out| out.meta_arithmetic(&meta, u64::MAX, &FACTS));
        }
        Request::MetaDebug { key } => {
            check_meta_key(&key);
            let (class, bytes) = (u32::MAX, u64::MAX);
            within(META_DEBUG_BYTES_MAX, |out| out.meta_debug(&key, &FACTS, class, bytes));
        }
        _ => {}
    }
}

fn check_keys(mut keys: Keys<'_>) {
    let mut resumed = keys;
    while let Some(key) = keys.next() {
        check_key(key);
        let flags = u32::MAX;
        within(VALUE_HEADER_BYTES_MAX, |out| {
            out.value_header(key, flags, u32::MAX, Some(u64::MAX));
        });
        resumed.skip_to(keys.rest_len());
        assert_eq!(resumed, keys);
    }
}

fn check_key(key: &[u8]) {
    assert!((1..=KEY_LEN_MAX).contains(&key.len()));
    assert!(!key.contains(&b' ') && !key.contains(&b'\n'));
}

fn check_meta_key(key: &MetaKey<'_>) {
    let mut room = [0; KEY_LEN_MAX];
    assert!((1..=KEY_LEN_MAX).contains(&key.bytes(&mut room).len()));
}

fn check_meta(meta: &Meta<'_>) {
    check_meta_key(&meta.key);
    assert!(meta.tokens().all(|token| meta.flags.has(token[0])));
    assert_eq!(meta.vivify.is_some(), meta.flags.has(b'N'));
    assert_eq!(meta.compare.is_some(), meta.flags.has(b'C'));
}

/// Writes a reply into just the room that it may take.
fn within(bytes_max: usize, write: impl FnOnce(&mut Writer<'_>)) {
    write(&mut Writer::new(&mut vec![0; bytes_max]));
}

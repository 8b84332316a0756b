//! The commands that the model is tried with.

use proptest::prelude::*;

/// One command, with a key of few.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Set { key: u8, value: Value, flags: u32, ttl_s: u32, meta: bool },
    Add { key: u8, value: Value, meta: bool },
    Replace { key: u8, value: Value, ttl_s: u32, meta: bool },
    Join { key: u8, value: Value, front: bool, meta: bool, vivify: bool },
    Swap { key: u8, value: Value, off: i8, meta: bool, or_stale: bool },
    Get { keys: Vec<u8> },
    Gat { key: u8, ttl_s: u32 },
    MetaGet { key: u8, touch: Option<u32>, vivify: Option<u32>, renew: Option<u32>, peek: bool },
    Touch { key: u8, ttl_s: u32 },
    Delete { key: u8, meta: bool },
    Invalidate { key: u8, ttl_s: Option<u32>, empty: bool },
    Count { key: u8, up: bool, delta: u64, meta: bool, vivify: bool },
    Flush,
    Wait { ms: u64 },
}

/// A value: its length, and whether it is a number.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Number(u64),
    Bytes(usize),
}

impl Value {
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Number(number) => number.to_string().into_bytes(),
            Self::Bytes(len) => (0..*len).map(|at| b'a' + (at % 26) as u8).collect(),
        }
    }
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (0_u64..200).prop_map(Value::Number),
        1 => Just(Value::Number(u64::MAX)),
        3 => (0_usize..40).prop_map(Value::Bytes),
        1 => prop_oneof![Just(4_096), Just(4_097), Just(20_000)].prop_map(Value::Bytes),
    ]
}

pub(super) fn ops() -> impl Strategy<Value = Op> {
    let key = || 0_u8..4;
    let ttl = || prop_oneof![2 => Just(0_u32), 3 => 1_u32..20];
    let ttls = || prop::option::of(ttl());
    let meta = any::<bool>;
    prop_oneof![
        6 => (key(), values(), any::<u32>(), ttl(), meta()).prop_map(
            |(key, value, flags, ttl_s, meta)| Op::Set { key, value, flags, ttl_s, meta }),
        2 => (key(), values(), meta()).prop_map(|(key, value, meta)| Op::Add { key, value, meta }),
        2 => (key(), values(), ttl(), meta()).prop_map(
            |(key, value, ttl_s, meta)| Op::Replace { key, value, ttl_s, meta }),
        3 => (key(), values(), meta(), meta(), meta()).prop_map(
            |(key, value, front, meta, vivify)| Op::Join { key, value, front, meta, vivify }),
        4 => (key(), values(), -1_i8..2, meta(), meta()).prop_map(
            |(key, value, off, meta, or_stale)| Op::Swap { key, value, off, meta, or_stale }),
        4 => prop::collection::vec(key(), 1..6).prop_map(|keys| Op::Get { keys }),
        2 => (key(), ttl()).prop_map(|(key, ttl_s)| Op::Gat { key, ttl_s }),
        8 => (key(), ttls(), ttls(), ttls(), meta()).prop_map(
            |(key, touch, vivify, renew, peek)| Op::MetaGet { key, touch, vivify, renew, peek }),
        1 => (key(), ttl()).prop_map(|(key, ttl_s)| Op::Touch { key, ttl_s }),
        2 => (key(), meta()).prop_map(|(key, meta)| Op::Delete { key, meta }),
        3 => (key(), ttls(), meta()).prop_map(
            |(key, ttl_s, empty)| Op::Invalidate { key, ttl_s, empty }),
        6 => (key(), meta(), prop_oneof![0_u64..100, Just(u64::MAX)], meta(), meta()).prop_map(
            |(key, up, delta, meta, vivify)| Op::Count { key, up, delta, meta, vivify }),
        1 => Just(Op::Flush),
        3 => (1_u64..4_000).prop_map(|ms| Op::Wait { ms }),
    ]
}

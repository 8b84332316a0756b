//! fjall 3 with values apart from keys.

use std::io;

use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode,
    config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry},
};

use super::{
    BLOOM_BITS, CACHE_BYTES, Engine, KERNEL_HAS_ALL, Kind, MEMTABLE_BYTES, SORTED_PERCENT, Session,
    Setup,
};

pub(super) const FJALL: Kind = Kind {
    name: "fjall",
    is_subject: false,
    is_default: true,
    keeps_reads: false,
    at_risk: KERNEL_HAS_ALL,
    room_percent: SORTED_PERCENT,
    open,
};

struct Fjall {
    database: Database,
    records: Keyspace,
    is_safe: bool,
}

struct FjallSession<'a>(&'a Fjall);

fn open(setup: &Setup<'_>) -> io::Result<Box<dyn Engine>> {
    let database = Database::builder(setup.directory).cache_size(CACHE_BYTES).open();
    let database = database.map_err(failed)?;
    let policy = BloomConstructionPolicy::BitsPerKey(BLOOM_BITS);
    let options = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(MEMTABLE_BYTES)
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(policy)))
            .with_kv_separation(Some(KvSeparationOptions::default()))
    };
    let records = database.keyspace("records", options).map_err(failed)?;
    Ok(Box::new(Fjall { database, records, is_safe: setup.is_safe }))
}

impl Fjall {
    fn persist_if_safe(&self) -> io::Result<()> {
        if !self.is_safe {
            return Ok(());
        }
        self.database.persist(PersistMode::SyncData).map_err(failed)
    }
}

fn failed(error: fjall::Error) -> io::Error {
    io::Error::other(format!("fjall: {error}"))
}

impl Engine for Fjall {
    fn session(&self) -> io::Result<Box<dyn Session + '_>> {
        Ok(Box::new(FjallSession(self)))
    }

    fn flush(&self) -> io::Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(failed)
    }

    fn settings(&self) -> String {
        "values apart from keys, no compression".to_owned()
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

impl Session for FjallSession<'_> {
    fn put(&mut self, key: u32, value: &[u8]) -> io::Result<()> {
        self.0.records.insert(key.to_le_bytes(), value).map_err(failed)?;
        self.0.persist_if_safe()
    }

    fn get(&mut self, key: u32, out: &mut [u8]) -> io::Result<Option<usize>> {
        let value = self.0.records.get(key.to_le_bytes()).map_err(failed)?;
        Ok(value.map(|value| {
            let kept = value.len().min(out.len());
            out[..kept].copy_from_slice(&value[..kept]);
            value.len()
        }))
    }

    fn remove(&mut self, key: u32) -> io::Result<()> {
        self.0.records.remove(key.to_le_bytes()).map_err(failed)?;
        self.0.persist_if_safe()
    }
}

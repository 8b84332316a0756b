//! The tables of a server, as its threads share them.
//!
//! Thread safety: shared.

use base::sync::Arc;
use cache::Cache;
use log::plan::Buffer;
use store::Volatile;

use super::{Durable, Gauges};
use crate::{
    Error,
    config::{Config, DEFAULT_TABLE, KeyRange, TableConfig},
    memcached::durable::{Hands, Member},
};

/// What a table has its records in.
#[derive(Clone, Debug)]
pub(crate) enum Backing {
    /// Memory alone.
    Memory(Volatile),
    /// A log, and memory.
    Log(Durable),
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) name: String,
    /// What its keys begin with; nothing for the default table.
    pub(crate) prefix: Vec<u8>,
    pub(crate) cache: Cache,
    backing: Backing,
    gauges: Arc<Gauges>,
    /// The settings that it is made by.
    pub(crate) config: Config,
    /// Its keys, if they are integers.
    integers: Option<KeyRange>,
}

impl Served {
    /// The default table, of so many threads with one that is not a data thread.
    pub(crate) fn default(
        config: &Config,
        cache: &Cache,
        backing: Backing,
        threads: usize,
    ) -> Self {
        let gauges = match &backing {
            Backing::Log(durable) => Arc::clone(&durable.gauges),
            Backing::Memory(_) => Arc::new(Gauges::in_memory(threads)),
        };
        Self {
            name: DEFAULT_TABLE.to_owned(),
            prefix: Vec::new(),
            cache: cache.clone(),
            backing,
            gauges,
            config: config.clone(),
            integers: None,
        }
    }

    /// The same as another table.
    pub(crate) fn named(self, table: &TableConfig) -> Self {
        let prefix = table.prefix.clone().into_bytes();
        let integers = table.integers().map(|it| it.range);
        Self { name: table.name.clone(), prefix, integers, ..self }
    }

    /// Its log, if it has one.
    pub(crate) fn log(&self) -> Option<&Durable> {
        match &self.backing {
            Backing::Log(durable) => Some(durable),
            Backing::Memory(_) => None,
        }
    }

    pub(crate) fn gauges(&self) -> &Arc<Gauges> {
        &self.gauges
    }

    /// The access of a thread, which is given buffers to read into.
    ///
    /// # Errors
    /// When there are too many threads.
    pub(crate) fn member(
        &self,
        number: usize,
        buffers: impl Iterator<Item = Buffer>,
    ) -> Result<Member, Error> {
        let (hands, value_bytes_max) = match &self.backing {
            Backing::Memory(table) => {
                (Hands::Memory(Box::new(table.worker()?)), self.cache.value_size_max())
            }
            Backing::Log(durable) => {
                let mut worker = durable.store.worker(number)?;
                buffers.for_each(|buffer| worker.lend(buffer));
                (Hands::Log(Box::new(worker)), durable.value_bytes_max())
            }
        };
        let large_bytes_max = self.config.value_size_max.0;
        let member = Member::new(hands, &self.cache, large_bytes_max, value_bytes_max);
        Ok(member.with_integers(self.integers))
    }
}

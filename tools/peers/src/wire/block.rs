//! What is measured: blocks of cells that share servers and a load.

use std::time::Duration;

/// Cells with the same servers and the same load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) name: &'static str,
    /// Over Unix sockets, else over TCP on loopback.
    pub(crate) is_unix: bool,
    pub(crate) connections: &'static [u32],
    pub(crate) depths: &'static [u32],
    pub(crate) value_bytes: usize,
    /// As many as let all values fit every server's memory.
    pub(crate) keys: u32,
    /// Requests a second in an open loop; else the loop is closed.
    pub(crate) rate: Option<u32>,
}

/// All of them.
pub(crate) const BLOCKS: [Block; 5] = [
    Block {
        name: "tcp",
        is_unix: false,
        connections: &[16, 64],
        depths: &[1, 16],
        value_bytes: 32,
        keys: 500_000,
        rate: None,
    },
    Block {
        name: "unix",
        is_unix: true,
        connections: &[64],
        depths: &[1],
        value_bytes: 32,
        keys: 500_000,
        rate: None,
    },
    Block {
        name: "1k",
        is_unix: false,
        connections: &[16, 64],
        depths: &[1, 16],
        value_bytes: 1 << 10,
        keys: 200_000,
        rate: None,
    },
    Block {
        name: "100k",
        is_unix: false,
        connections: &[16],
        depths: &[1],
        value_bytes: 100 << 10,
        keys: 2_000,
        rate: None,
    },
    // Less than any server's limit on a core, so that latencies are not those of a queue. Where it
    // is more, the report shows requests that were not sent.
    Block {
        name: "rate",
        is_unix: false,
        connections: &[16, 64],
        depths: &[16],
        value_bytes: 32,
        keys: 500_000,
        rate: Some(40_000),
    },
];

/// Memory of each server in MiB: some 300 MiB of values, keys and what belongs to them, with room.
pub(super) const MEMORY_MIB: u64 = 1024;

impl Block {
    /// What a run of the block takes, without loading.
    pub(crate) fn estimate(&self, servers: usize, rounds: u32, round: Duration) -> Duration {
        let cells = self.connections.len() * self.depths.len();
        round * rounds * (servers * cells) as u32
    }
}

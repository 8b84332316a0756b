//! A file system that is full: the ring has what room there is, and the server goes on.

use std::path::Path;

use super::records::{KEYS, Records, count, serve_by};
use crate::harness::{rng::Rng, small_disk::on_small_disk};

/// The file system: less than the ring may take, and than is stored.
const SMALL: &str = "10m";

#[test]
fn a_full_disk_makes_a_smaller_ring() {
    on_small_disk(module_path!(), "a_full_disk_makes_a_smaller_ring", SMALL, fill);
}

fn fill(path: &Path) {
    let mut server = serve_by(&[], path, &[]);
    let mut conn = server.connect();
    let mut records = Records::default();
    for _ in 0..3 {
        records.store(&mut conn, 0..2 * KEYS);
        records.play(&mut conn, &mut Rng::new(5), 20);
    }
    let missed = records.check_all(&mut conn);
    assert!((KEYS / 2..2 * KEYS - 500).contains(&missed), "{missed} of {} are lost", 2 * KEYS);
    assert!(count(&mut conn, "table_hits_disk") > 500);
    assert_eq!(count(&mut conn, "log_read_only"), 0);
    server.assert_serves();
}

//! Counters, connections and prefixes.

use std::sync::atomic::Ordering;

use base::clock::Clock;

use super::{PREFIXES_MAX, PrefixCounts, PrefixTable, ServerStats, Settings};

#[test]
fn threads_are_summed_and_a_reset_starts_from_zero() {
    let stats = ServerStats::new(Settings::default(), Clock::manual(1000));
    let (first, second) = (stats.thread(), stats.thread());
    first.cmd_get.add(3);
    second.cmd_get.add(4);
    second.get_hits.add(1);
    assert_eq!((stats.totals().cmd_get, stats.totals().get_hits), (7, 1));
    stats.reset();
    assert_eq!((stats.totals().cmd_get, stats.totals().get_hits), (0, 0));
    first.cmd_get.add(2);
    assert_eq!(stats.totals().cmd_get, 2);
    assert_eq!(stats.thread_count(), 2);
}

#[test]
fn a_connection_is_listed_while_it_is_open() {
    let clock = Clock::manual(1000);
    let stats = ServerStats::new(Settings::default(), clock.clone());
    let first = stats.open("tcp:1".into(), "tcp:2".into());
    clock.advance_ms(500);
    let second = stats.open("unix:a".into(), "unix:b".into());
    stats.refuse();
    assert_eq!(stats.connection_counts(), (2, 2, 1));
    drop(first);
    assert_eq!(stats.connection_counts(), (1, 2, 1));
    let listed = stats.connections_after(0, 10);
    assert_eq!((listed.len(), listed[0].0), (1, 2));
    assert_eq!(listed[0].1.peer, "unix:a");
    assert_eq!(stats.connections_after(2, 10).len(), 0);
    assert_eq!(second.connection().last_command_ms.load(Ordering::Relaxed), 1500);
    stats.reset();
    assert_eq!(stats.connection_counts(), (1, 2, 0));
}

#[test]
fn only_the_change_to_waiting_is_a_pause() {
    let stats = ServerStats::new(Settings::default(), Clock::manual(0));
    assert_eq!(stats.accepting(), (true, 0));
    stats.set_accepting(false);
    stats.set_accepting(false);
    assert_eq!(stats.accepting(), (false, 1));
    stats.set_accepting(true);
    assert_eq!(stats.accepting(), (true, 1));
}

#[test]
fn prefixes_are_counted_only_while_enabled_and_only_with_a_delimiter() {
    let table = PrefixTable::new(None);
    table.count(b"user:1", |counts| counts.gets += 1);
    assert_eq!(table.counts_after(None, 10), []);
    table.enable(true);
    table.count(b"user:1", |counts| counts.gets += 1);
    table.count(b"user:2:3", |counts| counts.sets += 1);
    table.count(b"plain", |counts| counts.gets += 1);
    let user = PrefixCounts { gets: 1, sets: 1, ..PrefixCounts::default() };
    assert_eq!(table.counts_after(None, 10), [(b"user"[..].into(), user)]);
    table.clear();
    assert_eq!(table.counts_after(None, 10), []);
}

#[test]
fn prefixes_are_listed_in_parts_and_the_empty_one_is_the_first() {
    let table = PrefixTable::new(None);
    table.enable(true);
    for key in [&b"b:1"[..], b":1", b"a:1", b"a\0:1"] {
        table.count(key, |counts| counts.gets += 1);
    }
    let listed = |after, count_max| -> Vec<Vec<u8>> {
        let part = table.counts_after(after, count_max);
        part.into_iter().map(|(prefix, _)| prefix.into_vec()).collect()
    };
    assert_eq!(listed(None, 2), [&b""[..], b"a"]);
    assert_eq!(listed(Some(b""), 2), [&b"a"[..], b"a\0"]);
    assert_eq!(listed(Some(b"a"), 9), [&b"a\0"[..], b"b"]);
    assert_eq!(listed(Some(b"b"), 9), [b""; 0]);
}

#[test]
fn the_prefix_table_is_bounded() {
    let table = PrefixTable::new(None);
    table.enable(true);
    for number in 0..PREFIXES_MAX + 10 {
        table.count(format!("{number}:x").as_bytes(), |counts| counts.gets += 1);
    }
    assert_eq!(table.counts_after(None, usize::MAX).len(), PREFIXES_MAX);
    table.count(b"0:y", |counts| counts.gets += 1);
    let zero = table.counts_after(None, 1).pop();
    assert_eq!(zero.map(|(prefix, counts)| (prefix, counts.gets)), Some((b"0"[..].into(), 2)));
}

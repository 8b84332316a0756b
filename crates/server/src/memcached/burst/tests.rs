//! What is read of an input, and what is left.

use base::clock::Clock;
use cache::{Cache, CacheConfig};
use wire::memcached::Limits;

use super::{BURST_MAX, End, Plan};

fn planned(input: &str, requests_max: usize) -> (usize, End) {
    let clock = Clock::manual(1_700_000_000_000);
    let cache = Cache::new(CacheConfig::new(16 << 20), clock).expect("a small cache");
    let worker = cache.worker().expect("a place");
    let mut plan = Plan::default();
    let end = plan.read(input.as_bytes(), &Limits::default(), &worker, requests_max);
    (plan.requests().len(), end)
}

#[test]
fn nothing_is_read_behind_what_decides_how_it_is_read() {
    let parts = format!("get{}", " k".repeat(9000));
    for line in [
        "quit\r\n",
        "shutdown\r\n",
        "stats conns\r\n",
        "set k x 0 6\r\n",
        "set k 0 0 5000\r\n",
        "a HTTP/1.1\r\n",
        &parts,
    ] {
        let input = format!("version\r\n{line}mn\r\nmn\r\n");
        let input = if line == parts { input.replace("mn\r\n", "") } else { input };
        assert_eq!(planned(&input, BURST_MAX), (2, End::Pause), "{line:.20}");
    }
}

#[test]
fn a_burst_ends_when_it_is_full_or_the_input_does() {
    let many = "mn\r\n".repeat(BURST_MAX + 1);
    assert_eq!(planned(&many, BURST_MAX + 1), (BURST_MAX, End::Pause));
    assert_eq!(planned(&many, 3), (3, End::Pause));
    let all = (3, End::Incomplete { needed: None });
    assert_eq!(planned("mn\r\nmn\r\nmn\r\n", 3), all, "nothing is left");
    assert_eq!(planned("mn\r\nge", BURST_MAX), (1, End::Incomplete { needed: None }));
    let body = "mn\r\nset k 0 0 4096\r\nvvv";
    let needed = Some(body.len() - 3 + 4096 + 2);
    assert_eq!(planned(body, BURST_MAX), (1, End::Incomplete { needed }));
}

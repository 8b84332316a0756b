use std::collections::{BTreeMap, HashSet, VecDeque};

use base::random::Random;
use trace::{Builder, REQUESTS_MAX, Source, Trace};

use super::{Kind, Policy, Reference, arc::Arc, lru::Lru};

/// A trace of these keys.
fn trace(keys: impl IntoIterator<Item = u64>) -> Trace {
    let mut builder = Builder::new(REQUESTS_MAX);
    keys.into_iter().for_each(|key| builder.push(key).expect("few"));
    builder.finish("test")
}

fn made(text: &str) -> Trace {
    text.parse::<Source>().expect(text).load(1).expect("made")
}

fn kind(name: &str) -> Kind {
    name.parse().expect(name)
}

fn misses_of(policy: &mut dyn Policy, trace: &Trace) -> usize {
    trace.keys().iter().filter(|key| !policy.access(**key)).count()
}

fn misses(name: &str, capacity: usize, trace: &Trace) -> usize {
    misses_of(&mut *kind(name).units(capacity, trace), trace)
}

/// Which requests of a text, a letter each, a policy hits: `.` for a miss, `h` for a hit.
fn played(name: &str, capacity: usize, keys: &str) -> String {
    let keys = keys.replace(' ', "");
    let trace = trace(keys.bytes().map(u64::from));
    let mut policy = kind(name).units(capacity, &trace);
    trace.keys().iter().map(|key| if policy.access(*key) { 'h' } else { '.' }).collect()
}

#[test]
fn names_are_read_as_they_are_written() {
    for kind in Kind::all() {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let read = Kind::parse_list("s3fifo,htr").expect("a list");
    assert_eq!(read, [Kind::Reference(Reference::S3Fifo), Kind::default()]);
    let error = "clock".parse::<Kind>().expect_err("none of that name");
    assert!(error.starts_with("`clock` is no policy: there are htr, "), "{error}");
    assert!(Kind::parse_list("htr,,lru").is_err());
}

/// The published behaviour on a loop that does not fit: LRU, FIFO and the like never hit, the
/// optimum and LIRS keep a part of it.
#[test]
fn a_loop_is_lost_on_recency_and_kept_in_part_by_lirs_and_the_optimum() {
    const KEYS: usize = 1000;
    const ROUNDS: usize = 50;
    let trace = trace((0..ROUNDS * KEYS).map(|at| (at % KEYS) as u64));
    for name in ["lru", "fifo", "arc", "2q"] {
        assert_eq!(misses(name, 300, &trace), ROUNDS * KEYS, "{name}");
    }
    // 297 places keep their keys from the first round on; the other three never hit.
    assert_eq!(misses("lirs", 300, &trace), KEYS + (ROUNDS - 1) * (KEYS - 297));
    // The optimum hits C - 1 times in every K - 1 requests after the first round.
    let hits = ROUNDS * KEYS - misses("belady", 300, &trace);
    let expected = (ROUNDS - 1) * KEYS * 299 / (KEYS - 1);
    assert!(hits.abs_diff(expected) <= 300, "{hits} hits, about {expected}");
}

/// What every policy has in common, on any trace and at any size: no more hits than a cache of that
/// size can have, and all of them when everything fits.
#[test]
fn every_policy_holds_what_fits_and_no_more() {
    let traces = [
        made("zipf:keys=200,requests=5000,exponent=0.8"),
        made("scan:keys=100,requests=5000,length=30"),
        made("loop:keys=60,requests=1000"),
        trace([7; 100]),
    ];
    for trace in &traces {
        let footprint = trace.footprint() as usize;
        for kind in Kind::all() {
            let at = |capacity: usize| misses(&kind.to_string(), capacity, trace);
            for capacity in [1, 2, 3, 5, 10, 50] {
                let optimum = misses("belady", capacity, trace);
                assert!(at(capacity) >= optimum, "{kind} at {capacity} of {footprint}");
            }
            // With fixed shares a tenth of them has to be enough.
            assert_eq!(at(footprint * 10), footprint, "{kind} has room for everything");
        }
    }
}

/// The furthest next use goes: looked for again at every miss.
#[test]
fn the_optimum_is_what_a_plain_search_finds() {
    let mut random = Random::new(9, 0);
    for capacity in 1..8 {
        let keys: Vec<u64> = (0..400).map(|_| u64::from(random.below(20))).collect();
        let trace = trace(keys.iter().copied());
        let (mut held, mut missed) = (HashSet::new(), 0);
        for (at, key) in keys.iter().enumerate() {
            if held.contains(key) {
                continue;
            }
            missed += 1;
            if held.len() == capacity {
                let next_use = |held: &u64| {
                    keys[at..].iter().position(|key| key == held).unwrap_or(usize::MAX)
                };
                let victim = *held.iter().max_by_key(|held| next_use(held)).expect("full");
                held.remove(&victim);
            }
            held.insert(*key);
        }
        assert_eq!(misses("belady", capacity, &trace), missed, "{capacity} places");
    }
}

#[test]
fn lru_is_what_a_plain_list_does() {
    let trace = made("zipf:keys=300,requests=5000,exponent=0.7");
    for capacity in [1, 2, 30, 299, 300] {
        let mut list: VecDeque<u32> = VecDeque::new();
        let mut missed = 0;
        for key in trace.keys() {
            match list.iter().position(|held| held == key) {
                Some(at) => drop(list.remove(at)),
                None => missed += 1,
            }
            list.push_back(*key);
            if list.len() > capacity {
                list.pop_front();
            }
        }
        assert_eq!(misses_of(&mut Lru::new(capacity, trace.footprint()), &trace), missed);
    }
}

/// The product's own LRU and ARC, where keys are counted, miss exactly what these do.
#[test]
fn the_products_lru_and_arc_miss_what_the_references_miss() {
    let mut traces = vec![
        made("zipf:keys=2000,requests=40000,exponent=0.9"),
        made("scan:keys=1000,requests=40000,length=500"),
        made("drift:keys=1000,requests=40000,period=10000"),
        made("loop:keys=700,requests=20000"),
    ];
    let mut random = Random::new(4, 0);
    traces.push(trace((0..20_000).map(|_| u64::from(random.below(400)))));
    for trace in &traces {
        for capacity in [1, 2, 7, 50, 300, 650] {
            let keys = trace.footprint();
            let lru = misses_of(&mut Lru::new(capacity, keys), trace);
            let arc = misses_of(&mut Arc::new(capacity, keys), trace);
            let names = (misses("lru", capacity, trace), misses("arc", capacity, trace));
            assert_eq!(names, (lru, arc), "{} at {capacity}", trace.name());
        }
    }
}

/// A plain ARC, in the words of its figure 4, with vectors whose last element is the newest.
#[test]
fn arc_is_what_its_figure_says() {
    let trace = made("drift:keys=60,requests=6000,exponent=0.6,period=3000");
    for capacity in [1, 2, 5, 20, 40] {
        let c = capacity as f64;
        let (mut t1, mut t2, mut b1, mut b2) = (vec![], vec![], vec![], vec![]);
        let (mut p, mut missed) = (0.0_f64, 0);
        for &x in trace.keys() {
            let take = |list: &mut Vec<u32>| {
                list.iter().position(|key| *key == x).map(|at| list.remove(at)).is_some()
            };
            if take(&mut t1) || take(&mut t2) {
                t2.push(x);
                continue;
            }
            missed += 1;
            let (in_b1, in_b2) = (b1.contains(&x), b2.contains(&x));
            if in_b1 {
                p = (p + (b2.len() as f64 / b1.len() as f64).max(1.0)).min(c);
            } else if in_b2 {
                p = (p - (b1.len() as f64 / b2.len() as f64).max(1.0)).max(0.0);
            }
            let mut replaces = in_b1 || in_b2;
            if !replaces {
                if t1.len() + b1.len() == capacity {
                    if t1.len() < capacity {
                        b1.remove(0);
                        replaces = true;
                    } else {
                        t1.remove(0);
                    }
                } else if t1.len() + t2.len() + b1.len() + b2.len() >= capacity {
                    if t1.len() + t2.len() + b1.len() + b2.len() == 2 * capacity {
                        b2.remove(0);
                    }
                    replaces = true;
                }
            }
            if replaces {
                let len = t1.len() as f64;
                if !t1.is_empty() && ((in_b2 && len == p) || len > p) {
                    b1.push(t1.remove(0));
                } else if !t2.is_empty() {
                    b2.push(t2.remove(0));
                }
            }
            if take(&mut b1) || take(&mut b2) {
                t2.push(x);
            } else {
                t1.push(x);
            }
        }
        let found = misses_of(&mut Arc::new(capacity, trace.footprint()), &trace);
        assert_eq!(found, missed, "{capacity} places");
    }
}

/// Ten places, one of them small. A key leaves the small queue for the ghost unless it was hit
/// twice in it; what the ghost knows enters the main queue.
#[test]
fn s3fifo_by_hand() {
    // `a` is hit twice while it is small and survives; `b` once and does not.
    assert_eq!(
        played("s3fifo", 10, "aaabb cdefghijklmn a b"),
        ".hh.h ............ h .".replace(' ', "")
    );
    // `b` comes back while the ghost knows it, and stays although only keys that are new come.
    assert_eq!(
        played("s3fifo", 10, "bcdefghijkl b mnopqrstuvw b"),
        "........... . ........... h".replace(' ', "")
    );
}

/// Eight places: two for keys that came once, the ghost remembers four.
#[test]
fn two_queues_by_hand() {
    // Hits on keys that came once do not move them: `a` goes first although it was used last.
    assert_eq!(played("2q", 8, "abcdefgh aa i a"), "........ hh . .".replace(' ', ""));
    // Having left, and having been remembered, it is now held against whatever comes once.
    assert_eq!(
        played("2q", 8, "abcdefghi a jklmnopqrstu a"),
        "......... . ............ h".replace(' ', "")
    );
    // The ghost holds four: the fifth key that leaves makes it forget the first.
    assert_eq!(
        played("2q", 8, "abcdefgh ijklm a nopqrstu a"),
        "........ ..... . ........ .".replace(' ', "")
    );
}

/// A key enters the main part only if it came more often than who has to leave.
#[test]
fn w_tiny_lfu_admits_by_frequency() {
    // Four places: a window of one, three in the main part, which `a`, `b` and `c` fill.
    let start = "aaabbbcccd";
    let mut counts = BTreeMap::new();
    for tail in ["efghijk abc", "eeee f e"] {
        counts.insert(tail, played("wtinylfu", 4, &format!("{start}{tail}")));
    }
    assert_eq!(counts["efghijk abc"], ".hh.hh.hh. ....... hhh".replace(' ', ""));
    // `e` comes four times in the window, more often than the oldest key of the main part.
    assert_eq!(counts["eeee f e"], ".hh.hh.hh. .hhh . h".replace(' ', ""));
}

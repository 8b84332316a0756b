//! Random commands against a simple model of memcached.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Client, START_MS, Server};

mod ops;

use ops::Op;

/// A record of the model.
#[derive(Clone, Debug, Default)]
struct Record {
    value: Vec<u8>,
    flags: u32,
    expiry_ms: Option<u64>,
    stale: bool,
    taken: bool,
    fetched: bool,
}

/// The model: what the records should be, and the time.
#[derive(Default)]
struct Model {
    records: BTreeMap<u8, Record>,
    now_ms: u64,
}

impl Model {
    fn get(&mut self, key: u8) -> Option<&mut Record> {
        let now_ms = self.now_ms;
        self.records.get_mut(&key).filter(|record| record.expiry_ms.is_none_or(|at| at > now_ms))
    }

    fn expiry(&self, ttl_s: u32) -> Option<u64> {
        (ttl_s > 0).then(|| self.now_ms + u64::from(ttl_s) * 1000)
    }

    fn ttl(&self, record: &Record) -> Option<u64> {
        record.expiry_ms.map(|at| (at - self.now_ms).div_ceil(1000))
    }

    fn put(&mut self, key: u8, value: Vec<u8>, flags: u32, ttl_s: u32) {
        let expiry_ms = self.expiry(ttl_s);
        self.records.insert(key, Record { value, flags, expiry_ms, ..Record::default() });
    }
}

struct Test {
    server: Server,
    client: Client,
    model: Model,
}

impl Test {
    fn say(&mut self, line: &str, body: Option<&[u8]>) -> String {
        let mut request = [line.as_bytes(), b"\r\n"].concat();
        if let Some(body) = body {
            request.extend([body, b"\r\n"].concat());
        }
        let reply = self.server.send(&mut self.client, &request);
        String::from_utf8(reply).expect("text").replace("\r\n", "\n")
    }

    /// Sends, and compares the reply; of long values only the beginnings are shown.
    fn expect(&mut self, line: &str, body: Option<&[u8]>, expected: &str) {
        let reply = self.say(line, body);
        let start = |text: &str| text.chars().take(200).collect::<String>();
        assert!(reply == expected, "{line}\n{}\n{}", start(&reply), start(expected));
    }

    /// Stores with a text verb or the mode of `ms` that is the same; expects a text word.
    fn store(
        &mut self,
        meta: bool,
        verb: (&str, &str),
        key: u8,
        rest: (&str, &str),
        value: &[u8],
        expected: &str,
    ) {
        let (line, expected) = if meta {
            let word = match expected {
                "STORED" => "HD",
                "NOT_STORED" => "NS",
                "EXISTS" => "EX",
                _ => "NF",
            };
            (format!("ms k{key} {} {} {}", value.len(), verb.1, rest.1), word)
        } else {
            let (flags_ttl, after) = rest.0.split_once('|').unwrap_or((rest.0, ""));
            (format!("{} k{key} {flags_ttl} {} {after}", verb.0, value.len()), expected)
        };
        self.expect(&line, Some(value), &format!("{expected}\n"));
    }

    fn token(&mut self, key: u8) -> u64 {
        let reply = self.say(&format!("mg k{key} c u"), None);
        let token =
            |reply: &str| reply.split([' ', '\n']).find_map(|w| w.strip_prefix('c')?.parse().ok());
        if reply.contains(" W") {
            self.model.get(key).expect("a record").taken = true;
        }
        token(&reply).unwrap_or(1)
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Set { .. } | Op::Add { .. } | Op::Replace { .. } => self.put(op),
            Op::Join { key, value, front, meta, vivify } => {
                self.join(*key, &value.bytes(), *front, *meta, *vivify)
            }
            Op::Swap { key, value, off, meta, or_stale } => {
                self.swap(*key, value.bytes(), *off, *meta, *or_stale)
            }
            Op::Get { keys } => {
                let mut expected = String::new();
                let line: String = keys.iter().map(|key| format!(" k{key}")).collect();
                for key in keys {
                    expected += &self.value_line(*key);
                }
                self.expect(&format!("get{line}"), None, &(expected + "END\n"));
            }
            Op::Gat { key, ttl_s } => {
                let expected = self.value_line(*key) + "END\n";
                let expiry_ms = self.model.expiry(*ttl_s);
                if let Some(record) = self.model.get(*key) {
                    record.expiry_ms = expiry_ms;
                }
                self.expect(&format!("gat {ttl_s} k{key}"), None, &expected);
            }
            Op::MetaGet { key, touch, vivify, renew, peek } => {
                self.meta_get(*key, *touch, *vivify, *renew, *peek)
            }
            Op::Touch { key, ttl_s } => {
                let expiry_ms = self.model.expiry(*ttl_s);
                let found = self.model.get(*key).map(|record| {
                    record.expiry_ms = expiry_ms;
                    record.fetched = true;
                });
                let expected = if found.is_some() { "TOUCHED\n" } else { "NOT_FOUND\n" };
                self.expect(&format!("touch k{key} {ttl_s}"), None, expected);
            }
            Op::Delete { key, meta } => {
                let there = self.model.get(*key).is_some();
                self.model.records.remove(key);
                let (line, words) = if *meta {
                    ("md", ["NF\n", "HD\n"])
                } else {
                    ("delete", ["NOT_FOUND\n", "DELETED\n"])
                };
                self.expect(&format!("{line} k{key}"), None, words[usize::from(there)]);
            }
            Op::Invalidate { key, ttl_s, empty } => self.invalidate(*key, *ttl_s, *empty),
            Op::Count { key, up, delta, meta, vivify } => {
                self.count(*key, *up, *delta, *meta, *vivify)
            }
            Op::Flush => {
                self.model.records.clear();
                self.expect("flush_all", None, "OK\n");
            }
            Op::Wait { ms } => {
                self.server.advance(*ms);
                self.model.now_ms += ms;
            }
        }
    }

    fn put(&mut self, op: &Op) {
        match op {
            Op::Set { key, value, flags, ttl_s, meta } => {
                let value = value.bytes();
                let rest = (&*format!("{flags} {ttl_s}"), &*format!("F{flags} T{ttl_s}"));
                self.store(*meta, ("set", "MS"), *key, rest, &value, "STORED");
                self.model.put(*key, value, *flags, *ttl_s);
            }
            Op::Add { key, value, meta } => {
                let value = value.bytes();
                let there = self.model.get(*key).is_some();
                let expected = if there { "NOT_STORED" } else { "STORED" };
                self.store(*meta, ("add", "ME"), *key, ("7 0", "F7"), &value, expected);
                if !there {
                    self.model.put(*key, value, 7, 0);
                }
            }
            Op::Replace { key, value, ttl_s, meta } => {
                let value = value.bytes();
                let there = self.model.get(*key).is_some();
                let expected = if there { "STORED" } else { "NOT_STORED" };
                let rest = (&*format!("8 {ttl_s}"), &*format!("F8 T{ttl_s}"));
                self.store(*meta, ("replace", "MR"), *key, rest, &value, expected);
                if there {
                    self.model.put(*key, value, 8, *ttl_s);
                }
            }
            _ => unreachable!("only what puts"),
        }
    }

    fn value_line(&mut self, key: u8) -> String {
        let Some(record) = self.model.get(key) else { return String::new() };
        record.fetched = true;
        let value = String::from_utf8(record.value.clone()).expect("text");
        format!("VALUE k{key} {} {}\n{value}\n", record.flags, value.len())
    }

    fn join(&mut self, key: u8, value: &[u8], front: bool, meta: bool, vivify: bool) {
        let there = self.model.get(key).is_some();
        let creates = meta && vivify && !there;
        let verb = if front { ("prepend", "MP") } else { ("append", "MA") };
        let rest = ("9 9", if vivify { "F9 N0" } else { "F9 T9" });
        let expected = if there || creates { "STORED" } else { "NOT_STORED" };
        self.store(meta, verb, key, rest, value, expected);
        if creates {
            self.model.put(key, value.to_vec(), 9, 0);
        } else if let Some(record) = self.model.get(key) {
            let joined = if front {
                [value, &record.value].concat()
            } else {
                [&record.value, value].concat()
            };
            let Record { flags, expiry_ms, .. } = *record;
            *record = Record { value: joined, flags, expiry_ms, ..Record::default() };
        }
    }

    fn swap(&mut self, key: u8, value: Vec<u8>, off: i8, meta: bool, or_stale: bool) {
        let token = self.token(key).wrapping_add_signed(off.into());
        let there = self.model.get(key).is_some();
        let lets_in = off == 0 || (off < 0 && meta && or_stale && token != 0);
        let expected = if !there {
            "NOT_FOUND"
        } else if lets_in {
            "STORED"
        } else {
            "EXISTS"
        };
        let flag = if or_stale { "I" } else { "" };
        let rest = (&*format!("4 0|{token}"), &*format!("F4 C{token} {flag}"));
        self.store(meta, ("cas", ""), key, rest, &value, expected);
        if let Some(record) = self.model.get(key).filter(|_| lets_in) {
            let Record { expiry_ms, taken, .. } = *record;
            *record = Record { value, flags: 4, ..Record::default() };
            if off < 0 {
                (record.expiry_ms, record.taken, record.stale) = (expiry_ms, taken, true);
            }
        }
    }

    fn meta_get(
        &mut self,
        key: u8,
        touch: Option<u32>,
        vivify: Option<u32>,
        renew: Option<u32>,
        peek: bool,
    ) {
        let option = |letter: char, arg: Option<u32>| {
            arg.map(|arg| format!(" {letter}{arg}")).unwrap_or_default()
        };
        let (t, n, r) = (option('T', touch), option('N', vivify), option('R', renew));
        let line = format!("mg k{key} v f s h{}{r}{t}{n} t", if peek { " u" } else { "" });
        let now_ms = self.model.now_ms;
        let new_expiry = touch.map(|ttl_s| self.model.expiry(ttl_s));
        let created_expiry = vivify.map(|ttl_s| self.model.expiry(ttl_s));
        if self.model.get(key).is_none() {
            let Some(expiry_ms) = created_expiry else {
                self.expect(&line, None, "EN\n");
                return;
            };
            let record = Record { expiry_ms, taken: true, fetched: !peek, ..Record::default() };
            let ttl = self.model.ttl(&record).map_or("-1".to_owned(), |ttl| ttl.to_string());
            self.model.records.insert(key, record);
            self.expect(&line, None, &format!("VA 0 f0 s0 h0 t{ttl} W\n\n"));
            return;
        }
        let record = self.model.get(key).expect("checked");
        let left = |expiry_ms: Option<u64>| expiry_ms.map(|at| (at - now_ms).div_ceil(1000));
        let due = renew
            .is_some_and(|renew| left(record.expiry_ms).is_some_and(|left| left < renew.into()));
        let won = !record.taken && (due || record.stale);
        if let Some(expiry_ms) = new_expiry {
            record.expiry_ms = expiry_ms;
        }
        let mut expected = format!(
            "VA {0} f{1} s{0} h{2}",
            record.value.len(),
            record.flags,
            u8::from(record.fetched)
        );
        expected += &left(record.expiry_ms).map_or(" t-1".to_owned(), |left| format!(" t{left}"));
        for (mark, shown) in [(" Z", record.taken), (" X", record.stale), (" W", won)] {
            expected += if shown { mark } else { "" };
        }
        expected += &format!("\n{}\n", String::from_utf8(record.value.clone()).expect("text"));
        record.taken |= won;
        record.fetched |= !peek;
        self.expect(&line, None, &expected);
    }

    fn invalidate(&mut self, key: u8, ttl_s: Option<u32>, empty: bool) {
        let expiry_ms = ttl_s.map(|ttl_s| self.model.expiry(ttl_s));
        let found = self.model.get(key).map(|record| {
            if empty {
                *record = Record { expiry_ms: expiry_ms.flatten(), ..Record::default() };
            } else {
                record.expiry_ms = expiry_ms.unwrap_or(record.expiry_ms);
            }
            record.stale = true;
            record.taken = false;
        });
        let ttl = ttl_s.map(|ttl_s| format!(" T{ttl_s}")).unwrap_or_default();
        let line = format!("md k{key} I{ttl}{}", if empty { " x" } else { "" });
        let expected = if found.is_some() { "HD\n" } else { "NF\n" };
        self.expect(&line, None, expected);
    }

    fn count(&mut self, key: u8, up: bool, delta: u64, meta: bool, vivify: bool) {
        let line = match (meta, up) {
            (false, true) => format!("incr k{key} {delta}"),
            (false, false) => format!("decr k{key} {delta}"),
            (true, _) => {
                let (mode, create) =
                    (if up { "I" } else { "D" }, if vivify { " N9 J55" } else { "" });
                format!("ma k{key} M{mode} D{delta}{create} v")
            }
        };
        let reply = |number: u64| match meta {
            true => format!("VA {}\n{number}\n", number.to_string().len()),
            false => format!("{number}\n"),
        };
        let expected = match self.model.get(key) {
            None if meta && vivify => {
                self.model.put(key, b"55".to_vec(), 0, 9);
                reply(55)
            }
            None => {
                if meta {
                    "NF\n".into()
                } else {
                    "NOT_FOUND\n".into()
                }
            }
            Some(record) => {
                let text = std::str::from_utf8(&record.value).expect("text");
                let text = text.split(' ').next().unwrap_or_default();
                match text.parse::<u64>().ok().filter(|_| record.value.len() <= 4_096) {
                    None => "CLIENT_ERROR cannot increment or decrement non-numeric value\n".into(),
                    Some(number) => {
                        let number = if up {
                            number.wrapping_add(delta)
                        } else {
                            number.saturating_sub(delta)
                        };
                        let mut value = number.to_string().into_bytes();
                        if value.len() > record.value.len() {
                            (record.stale, record.taken, record.fetched) = (false, false, false);
                        } else {
                            value.resize(record.value.len(), b' ');
                        }
                        record.value = value;
                        reply(number)
                    }
                }
            }
        };
        self.expect(&line, None, &expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn replies_are_those_of_the_model(ops in prop::collection::vec(ops::ops(), 1..120)) {
        let server = Server::new();
        let client = server.client();
        let model = Model { now_ms: START_MS, ..Model::default() };
        let mut test = Test { server, client, model };
        for op in &ops {
            test.run(op);
        }
    }
}

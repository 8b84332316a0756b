//! How often an import lists the keys of its source: of one whose lists are written beforehand.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::servers::{PATIENCE, has_disk, is_durable, on_kelvin, spills};
use crate::harness::log_directory::settle;

/// Lists without anything new after which an import ends.
const IDLE_LISTS: usize = 4;

/// A server that answers what an import asks for, as a memcached 1.6.18.
#[derive(Debug)]
struct Source {
    /// The keys of each list. Those of the last one are in every later one.
    lists: Vec<Vec<String>>,
    /// Lists so far.
    listed: AtomicUsize,
    value_bytes: usize,
}

impl Source {
    /// Starts one. Its threads end with the connections, and the one that accepts with the test.
    fn start(lists: &[&[&str]], value_bytes: usize) -> (Arc<Self>, SocketAddr) {
        let own = |keys: &&[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let lists = lists.iter().map(own).collect();
        let source = Arc::new(Self { lists, listed: AtomicUsize::new(0), value_bytes });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a port");
        let address = listener.local_addr().expect("it is bound");
        let served = Arc::clone(&source);
        thread::spawn(move || {
            for conn in listener.incoming().flatten() {
                let source = Arc::clone(&served);
                // A connection that fails fails the import, too.
                thread::spawn(move || source.serve(&conn).unwrap_or_default());
            }
        });
        (source, address)
    }

    fn serve(&self, mut conn: &TcpStream) -> io::Result<()> {
        conn.set_read_timeout(Some(PATIENCE))?;
        for request in BufReader::new(conn).lines() {
            let request = request?;
            let reply = match request.split_ascii_whitespace().next() {
                Some("version") => "VERSION 1.6.18\r\n".to_owned(),
                Some("stats") => "STAT curr_items 1\r\nEND\r\n".to_owned(),
                Some("lru_crawler") => self.list(),
                Some("mg") => {
                    let value = "v".repeat(self.value_bytes);
                    format!("VA {} f0 t-1 c1\r\n{value}\r\n", self.value_bytes)
                }
                _ => "ERROR\r\n".to_owned(),
            };
            conn.write_all(reply.as_bytes())?;
        }
        Ok(())
    }

    fn list(&self) -> String {
        let number = self.listed.fetch_add(1, Ordering::Relaxed);
        let keys = self.lists.get(number).or(self.lists.last()).expect("it has lists");
        let lines = keys.iter().map(|key| format!("key={key} exp=-1 la=0 cas=1 fetch=no\r\n"));
        lines.collect::<String>() + "END\r\n"
    }

    /// Lists so far.
    fn listed(&self) -> usize {
        self.listed.load(Ordering::Relaxed)
    }
}

/// Runs `kelvin import`: whether it succeeded, and what it said.
fn import(source: SocketAddr, target: SocketAddr) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelvin"));
    command.args(["import", &source.to_string(), "--into", &target.to_string(), "--quiet"]);
    let output = command.output().expect("kelvin runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_key_that_is_left_out_three_times_is_copied() {
    let both: &[&str] = &["a", "b"];
    let lists = [&["a"], &["a"], &["a"], &["a"], both, &["a"]];
    let (source, address) = Source::start(&lists, 1);
    on_kelvin(&[], |target| {
        let (succeeded, said) = import(address, target.tcp());
        assert!(succeeded && said.starts_with("2 records: 2 copied, 0 were there"), "{said}");
        target.ask(b"mg a v\r\nmg b v\r\n", b"VA 1\r\nv\r\nVA 1\r\nv\r\n");
        assert_eq!(source.listed(), 5 + IDLE_LISTS, "the lists after the one that had it are idle");
    });
}

#[test]
fn where_clients_go_on_writing_it_ends_and_says_so() {
    let keys: Vec<String> = (0..20).map(|number| format!("key{number}")).collect();
    let keys: Vec<[&str; 1]> = keys.iter().map(|key| [key.as_str()]).collect();
    let lists: Vec<&[&str]> = keys.iter().map(|key| &key[..]).collect();
    let (source, address) = Source::start(&lists, 1);
    on_kelvin(&[], |target| {
        let (succeeded, said) = import(address, target.tcp());
        assert!(succeeded && said.starts_with("16 records: 16 copied"), "{said}");
        assert!(said.contains("clients go on writing to it"), "{said}");
        assert_eq!(source.listed(), 16);
    });
}

#[test]
fn a_target_whose_disk_has_what_memory_has_no_room_for_is_given_all() {
    if !has_disk("`kelvin import` fills such a table") {
        return;
    }
    let keys: Vec<String> = (0..200).map(|number| format!("key{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (_, address) = Source::start(&[&keys], 100_000);
    on_kelvin(&["-m", "4"], |target| {
        let (succeeded, said) = import(address, target.tcp());
        // What did not get to a ring in time is copied again.
        let is_told = spills() || said.starts_with("200 records: 200 copied");
        assert!(succeeded && is_told, "{said}");
        let mut conn = target.connect();
        for key in &keys {
            if spills() {
                // What is read goes to memory, and what leaves it for that has to be on the disk
                // before more does, or is lost.
                settle(&mut conn);
            }
            conn.ask(format!("mg {key} s\r\n").as_bytes(), b"HD s100000\r\n");
        }
    });
}

#[test]
fn a_target_that_evicts_is_not_given_more() {
    if is_durable("Nothing is evicted") {
        return;
    }
    // Twice as much as memory, or the ring, has room for.
    let (count, ring): (_, &[&str]) =
        if spills() { (320, &["-o", "spill_size=16MiB"]) } else { (100, &[]) };
    let keys: Vec<String> = (0..count).map(|number| format!("key{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (source, address) = Source::start(&[&keys], 100_000);
    on_kelvin(&[&["-m", "4"], ring].concat(), |target| {
        let (succeeded, said) = import(address, target.tcp());
        assert!(!succeeded && said.contains("has too little room: it evicted"), "{said}");
        if !spills() {
            assert!(said.starts_with(&format!("{count} records: {count} copied")), "{said}");
            assert_eq!(source.listed(), 1, "the second list would be copied anew");
        }
    });
}

#[test]
fn what_was_deleted_from_the_target_comes_back_and_what_was_written_stays() {
    let (_, address) = Source::start(&[&["a", "b"]], 1);
    on_kelvin(&[], |target| {
        let (succeeded, said) = import(address, target.tcp());
        assert!(succeeded, "{said}");
        target.ask(b"md a\r\nms b 5\r\nnewer\r\n", b"HD\r\nHD\r\n");
        let (succeeded, said) = import(address, target.tcp());
        assert!(succeeded && said.starts_with("2 records: 1 copied, 1 were there"), "{said}");
        target.ask(b"mg a v\r\nmg b v\r\n", b"VA 1\r\nv\r\nVA 5\r\nnewer\r\n");
    });
}

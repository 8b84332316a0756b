//! Lists of keys.

use cache::CacheConfig;
use reactor::Next;

use super::{START_MS, Server, ask};
use crate::{memcached::TURN_COMMANDS_MAX, stats::Settings};

const START_S: u64 = START_MS / 1000;

fn server() -> Server {
    let settings = Settings { dumps_allowed: true, ..Settings::default() };
    Server::with(CacheConfig::new(32 << 20), settings)
}

fn sorted(reply: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = reply.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn each_form_lists_all_that_lives() {
    let mut server = server();
    ask(&mut server, &["set a%b 5 0 2", "hi", "set foo 7 100 3", "abc", "ms /wA= 2 b", "xx"]);
    ask(&mut server, &["set gone 0 1 0", ""]);
    server.advance(2_500);
    ask(&mut server, &["get foo"]);
    let (now, then) = (START_S, START_S + 100);
    let reply = ask(&mut server, &["lru_crawler metadump all"]);
    assert_eq!(
        sorted(&reply),
        [
            "END".to_owned(),
            "OK".to_owned(),
            format!("key=%FF%00 exp=-1 la={now} cas=3 fetch=no cls=1 size=4 flags=0 "),
            format!("key=a%25b exp=-1 la={now} cas=1 fetch=no cls=1 size=5 flags=5 "),
            format!("key=foo exp={then} la={now} cas=2 fetch=yes cls=1 size=6 flags=7 "),
        ]
    );
    assert!(reply.starts_with("OK\nkey=") && reply.ends_with(" \nEND\n"));
    for classes in ["hash", "1", "63,1", ",1,"] {
        assert_eq!(ask(&mut server, &[&format!("lru_crawler metadump {classes}")]), reply);
    }
    let reply = ask(&mut server, &["lru_crawler mgdump all"]);
    assert_eq!(sorted(&reply), ["EN", "OK", "mg /wA= b", "mg a%b", "mg foo"]);
    let reply = ask(&mut server, &["stats cachedump 1 0"]);
    let foo = format!("ITEM foo [3 b; {then} s]");
    assert_eq!(sorted(&reply), ["END", "ITEM a%b [2 b; 0 s]", &foo]);
    assert_eq!(ask(&mut server, &["stats cachedump 1 1"]).lines().count(), 2);
}

#[test]
fn what_is_not_there_is_not_listed() {
    let mut server = server();
    ask(&mut server, &["set a 0 0 1", "x"]);
    let reply = ask(&mut server, &["mn", "lru_crawler metadump 2", "mn"]);
    assert_eq!(reply, "MN\nOK\nEND\nMN\n");
    assert_eq!(ask(&mut server, &["lru_crawler mgdump 2,3"]), "OK\nEN\n");
    let reply = ask(&mut server, &["mg a", "lru_crawler mgdump all", "lru_crawler metadump 2"]);
    let refused = "ERROR cannot pipeline other commands before";
    assert_eq!(reply, format!("HD\n{refused} mgdump\n{refused} metadump\n"));
    assert_eq!(ask(&mut server, &["stats cachedump 2 0"]), "END\n");
    let reply = ask(&mut server, &["lru_crawler metadump noreply", "lru_crawler mgdump 64"]);
    assert_eq!(reply, "BADCLASS invalid class id\n");
    let reply = ask(&mut server, &["lru_crawler metadump 1,x"]);
    assert_eq!(reply, "BADCLASS invalid class id\n");
    let reply = ask(&mut server, &["lru_crawler metadump ,"]);
    assert_eq!(reply, "NOTSTARTED no items to crawl\n");
}

#[test]
fn the_crawler_can_be_switched_off() {
    let mut server = server();
    let reply = ask(
        &mut server,
        &[
            "lru_crawler enable",
            "lru_crawler disable",
            "lru_crawler disable",
            "lru_crawler crawl 1",
            "lru_crawler metadump all",
            "lru_crawler enable",
            "lru_crawler crawl hash",
        ],
    );
    let disabled = "CLIENT_ERROR lru crawler disabled\n";
    assert_eq!(
        reply,
        format!(
            "ERROR failed to start lru crawler thread\nOK\n\
             ERROR failed to stop lru crawler thread\n{disabled}{disabled}OK\n\
             ERROR an unknown error happened\n"
        )
    );
}

#[test]
fn a_dump_takes_turns_and_waits_for_its_reader() {
    let mut server = server();
    let total = 3_000;
    for number in 0..total {
        ask(&mut server, &[&format!("set key-{number:08} 0 0 1"), "x"]);
    }
    let mut client = server.client();
    client.connection.input.feed(b"lru_crawler metadump all\r\nmn\r\n", &server.pool);
    let mut heard = Vec::new();
    let (mut turns, mut most) = (0, 0);
    loop {
        server.context.worker().quiesce();
        let reactor::Connection { session, input, output, .. } = &mut client.connection;
        let next = session.serve(&mut server.context, input, output);
        // Another one must wait until this one is done.
        if next != Next::Read {
            let busy = "BUSY currently processing crawler request\n";
            assert_eq!(ask(&mut server, &["lru_crawler mgdump all"]), busy);
            assert_eq!(ask(&mut server, &["stats cachedump 1 5"]), busy);
        }
        let before = heard.len();
        let mut chain = client.connection.output.launch();
        heard.extend(chain.take_bytes());
        client.connection.output.landed(chain);
        most = most.max(heard[before..].iter().filter(|&&byte| byte == b'\n').count());
        turns += 1;
        if next == Next::Read {
            break;
        }
    }
    let heard = String::from_utf8(heard).expect("text");
    assert!(heard.ends_with("END\r\nMN\r\n"));
    let mut keys: Vec<&str> = heard.lines().filter(|line| line.starts_with("key=")).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), total);
    assert!(turns >= total / TURN_COMMANDS_MAX && most <= 2 * TURN_COMMANDS_MAX, "{turns} {most}");
    assert!(ask(&mut server, &["lru_crawler mgdump all"]).starts_with("OK\nmg "));
}

#[test]
fn a_dump_that_lost_its_place_does_not_look_complete() {
    let mut server = server();
    for number in 0..2_000 {
        ask(&mut server, &[&format!("set key-{number:08} 0 0 1"), "x"]);
    }
    let mut client = server.client();
    client.connection.input.feed(b"lru_crawler metadump all\r\n", &server.pool);
    server.context.worker().quiesce();
    let reactor::Connection { session, input, output, .. } = &mut client.connection;
    assert_eq!(session.serve(&mut server.context, input, output), Next::Yield);
    server.advance(30_000);
    assert!(ask(&mut server, &["lru_crawler mgdump all"]).ends_with("\nEN\n"));
    let (rest, next) = server.run(&mut client);
    assert_eq!(next, Next::Finish);
    assert!(!String::from_utf8(rest).expect("text").contains("END"));
}

//! Plays a script against a server.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::harness::conn::{Conn, cut};
use crate::harness::log_directory::crowd_out;
use crate::harness::rng::Rng;
use crate::harness::server::{Io, Server, Table};
use crate::harness::under_test;
use crate::masked::{Tokens, masked};
use crate::recording::{Recording, Reply};
use crate::script::{Burst, Script, Step};

/// Silence that ends a reply whose length is not known. The slowest replies of memcached come from
/// its crawler thread, within milliseconds.
const QUIET: Duration = Duration::from_millis(150);
/// What is sent behind a burst whose reply is not known, and what is said to it.
const META_NOOP: &[u8] = b"mn\r\n";
const META_NOOP_REPLY: &[u8] = b"MN\r\n";
/// Bursts until memory has nothing of a table that spills again; not the same ones on each driver.
const CROWDED_AFTER: usize = 6;
/// A burst is cut into at most this many packets: more tells nothing new and costs time.
const PIECES_MAX: usize = 12;

/// Plays a script and records what comes. Both connections of a script start with the first use.
pub(crate) fn record(script: &Script, server: &Server) -> Recording {
    let mut player = Player::new(server, false);
    let mut recording = Recording::default();
    player.play(script, |conn, burst, request, tokens| {
        conn.send(request);
        let (bytes, closed) = conn.read_until_quiet(QUIET);
        let bytes = masked(&bytes, burst.names_only, tokens);
        recording.replies.push(Reply { bytes, closed });
    });
    recording.order = player.tokens.order();
    recording
}

/// How a replay reaches the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) io: Io,
    /// Over the Unix socket.
    pub(crate) unix: bool,
    /// Where its records are.
    pub(crate) table: Table,
    /// Cuts the bursts into packets.
    pub(crate) cut_seed: Option<u64>,
}

impl Way {
    /// Whether memory is to have nothing of the records, before a burst that so many follow.
    fn is_crowded(self, bursts_left: usize) -> bool {
        self.table == Table::Spill && (bursts_left + self.io as usize).is_multiple_of(CROWDED_AFTER)
    }
}

/// Plays a script and compares with what memcached said, or with the row of the table of
/// differences. Returns what does not fit. The bursts of lines that are `is_aside` are sent and not
/// compared.
pub(crate) fn replay(
    script: &Script,
    recorded: &Recording,
    server: &Server,
    way: Way,
    is_aside: impl Fn(usize) -> bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut replies = recorded.replies.iter();
    let mut player = Player::new(server, way.unix);
    let mut cutter = way.cut_seed.map(Rng::new);
    player.play(script, |conn, burst, request, tokens| {
        let Some(reply) = replies.next() else {
            return problems.push(format!("line {}: not recorded", burst.line));
        };
        if way.is_crowded(replies.len()) {
            crowd_out(server);
        }
        if is_aside(burst.line) {
            // Where its reply ends is told by the one to what follows it.
            let request = [request, META_NOOP].concat();
            let (got, _) = conn.exchange(&[&request], |got| got.ends_with(META_NOOP_REPLY));
            masked(&got, burst.names_only, tokens);
            return;
        }
        let difference = burst.difference.as_ref().filter(|_| under_test().is_none());
        let expected = match difference {
            Some((id, bytes)) if *bytes == reply.bytes && !reply.closed => {
                return problems.push(format!("line {}: {id} is no difference", burst.line));
            }
            Some((_, bytes)) => Reply { bytes: bytes.clone(), closed: false },
            None => reply.clone(),
        };
        let pieces = match &mut cutter {
            Some(rng) => cut(request, rng, PIECES_MAX),
            None => vec![request],
        };
        let view = |got: &[u8]| masked(got, burst.names_only, &mut tokens.clone());
        let (mut got, mut closed) = conn.exchange(&pieces, |got| {
            !expected.closed
                && (fits(&view(got), &expected, burst)
                    || differs(&view(lines(got)), &expected, burst))
        });
        if !closed && !fits(&view(&got), &expected, burst) {
            let (rest, then_closed) = conn.read_until_quiet(QUIET);
            got.extend(rest);
            closed = then_closed;
        }
        let got = Reply { bytes: masked(&got, burst.names_only, tokens), closed };
        if !fits(&got.bytes, &expected, burst) || got.closed != expected.closed {
            problems.push(format!(
                "line {}: {}\nexpected\n{expected}got\n{got}",
                burst.line,
                burst.heading()
            ));
        }
    });
    for (name, conn) in &mut player.conns {
        let mut rest = Vec::new();
        conn.read_once(&mut rest, Duration::from_millis(20));
        if !rest.is_empty() {
            problems.push(format!("{name}: then came {}", rest.escape_ascii()));
        }
    }
    if recorded.order != player.tokens.order() {
        let (expected, got) = (&recorded.order, player.tokens.order());
        problems.push(format!("the tokens are ordered {got:?}, memcached's {expected:?}"));
    }
    problems
}

/// The part of a reply that ends with a whole line: masks are certain in it.
fn lines(got: &[u8]) -> &[u8] {
    let end = got.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    &got[..end]
}

/// Whether a masked reply cannot become the expected one any more.
fn differs(got: &[u8], expected: &Reply, burst: &Burst) -> bool {
    !burst.names_only && !expected.bytes.starts_with(got)
}

/// Whether a masked reply is the expected one. Of names, the server may have more.
fn fits(got: &[u8], expected: &Reply, burst: &Burst) -> bool {
    if !burst.names_only {
        return got == expected.bytes;
    }
    let got: Vec<&[u8]> = got.split(|&b| b == b'\n').collect();
    expected.bytes.split(|&b| b == b'\n').all(|name| got.contains(&name))
}

impl Burst {
    /// The start of what is sent, for people.
    pub(crate) fn heading(&self) -> String {
        let mut bytes = Vec::new();
        for piece in &self.send {
            match piece {
                crate::script::Piece::Bytes(b) => bytes.extend(b),
                crate::script::Piece::Token(n, plus) => {
                    bytes.extend(format!("<cas{n}{plus:+}>").replace("+0", "").bytes());
                }
                crate::script::Piece::Now(plus) => bytes.extend(format!("<now{plus:+}>").bytes()),
            }
        }
        let text = bytes.escape_ascii().to_string().replace("\\r\\n", " / ");
        text.trim_end_matches(" / ").chars().take(90).collect()
    }
}

struct Player<'a> {
    server: &'a Server,
    conns: BTreeMap<String, Conn>,
    tokens: Tokens,
    unix: bool,
}

impl<'a> Player<'a> {
    fn new(server: &'a Server, unix: bool) -> Self {
        Player { server, conns: BTreeMap::new(), tokens: Tokens::default(), unix }
    }

    fn play(
        &mut self,
        script: &Script,
        mut burst_played: impl FnMut(&mut Conn, &Burst, &[u8], &mut Tokens),
    ) {
        let mut current = "a".to_owned();
        for step in &script.steps {
            match step {
                Step::Wait(time) => std::thread::sleep(*time),
                Step::Use(name) => current.clone_from(name),
                Step::Burst(burst) => {
                    let (server, unix) = (self.server, self.unix);
                    let connect = || if unix { server.connect_unix() } else { server.connect() };
                    let conn = self.conns.entry(current.clone()).or_insert_with(connect);
                    let request = burst.bytes(&self.tokens.seen);
                    self.tokens.note_chosen(&request);
                    burst_played(conn, burst, &request, &mut self.tokens);
                }
            }
        }
    }
}

//! Requests that are about no key.

use wire::memcached::{
    DumpFormat, Request, Stats, Subject,
    binary::{self, Frame, Status},
    lines,
};

use super::desk::Desk;
use crate::memcached::{
    admin::{VERBOSITY_MAX, crawl, memory_limit, reassign, shutdown, switch_crawler},
    binary::{
        put_lines,
        replies::{put_status, put_value},
    },
    reports::{self, List},
};

/// What is to be done about one.
pub(super) enum Order {
    /// To send this in its turn.
    Reply(Vec<u8>),
    /// To send a report, part by part.
    List(List),
    /// To end the connection when all is answered.
    Finish,
}

/// A text request that is about no key. `client`: the number of the connection.
pub(super) fn text(desk: &Desk, client: u64, request: &Request<'_>) -> Order {
    let (reply, noreply): (&[u8], bool) = match *request {
        Request::MetaNoop => (lines::META_NOOP, false),
        Request::Version => {
            let version = [b"VERSION ", reports::VERSION.as_bytes(), lines::LINE_END].concat();
            return Order::Reply(version);
        }
        Request::Verbosity { level, noreply } => {
            desk.server.set_verbosity(level.min(VERBOSITY_MAX).into());
            (lines::OK, noreply)
        }
        Request::Watch { .. } => (lines::WATCH_NOT_ALLOWED, false),
        Request::Dump { noreply, .. } if !desk.server.crawler_enabled() => {
            (lines::CRAWLER_DISABLED, noreply)
        }
        // Memory alone would be listed.
        Request::Dump { format: DumpFormat::Metadump, noreply, .. } => {
            (lines::METADUMP_NOT_ALLOWED, noreply)
        }
        Request::Dump { format: DumpFormat::Mgdump, noreply, .. } => {
            (lines::MGDUMP_NOT_ALLOWED, noreply)
        }
        Request::MemoryLimit { mebibytes, noreply } => {
            (memory_limit(&desk.server, &desk.cache, u64::from(mebibytes) << 20), noreply)
        }
        Request::Crawl { classes, noreply } => (crawl(&desk.server, classes), noreply),
        Request::Tune { subject: Subject::SlabsReassign { from, to }, noreply } => {
            (reassign(&desk.cache, from, to), noreply)
        }
        Request::Tune { subject: Subject::CrawlerSwitch { on }, noreply } => {
            (switch_crawler(&desk.server, on), noreply)
        }
        Request::Tune { noreply, .. } => (lines::OK, noreply),
        Request::Shutdown { mode, noreply } => match shutdown(&desk.server, &*desk.control, mode) {
            None => return Order::Finish,
            Some(reply) => (reply, noreply),
        },
        Request::Stats(stats) => return report(desk, client, stats),
        Request::Quit => return Order::Finish,
        _ => (lines::ERROR, false),
    };
    Order::Reply(if noreply { Vec::new() } else { reply.to_vec() })
}

fn report(desk: &Desk, client: u64, stats: Stats) -> Order {
    let (server, cache) = (&*desk.server, &desk.cache);
    Order::Reply(match stats {
        Stats::General => reports::general(server, cache),
        Stats::Settings => reports::settings(server),
        Stats::Items => reports::items(server, cache),
        Stats::Slabs => reports::slabs(server, cache),
        Stats::Sizes => reports::sizes(),
        Stats::Extstore => reports::extstore(),
        Stats::Connections => return Order::List(List::connections(client)),
        Stats::Tables => return Order::List(List::tables()),
        Stats::DetailDump => return Order::List(List::prefixes()),
        Stats::DetailEnable { on } => {
            server.prefixes().enable(on);
            lines::OK.to_vec()
        }
        Stats::Reset => {
            server.reset();
            lines::RESET.to_vec()
        }
        Stats::CacheDump { .. } => lines::CACHEDUMP_NOT_ALLOWED.to_vec(),
    })
}

/// A request of the binary protocol that is about no key, logins aside.
pub(super) fn frame(desk: &Desk, request: &binary::Request<'_>) -> Order {
    let frame = request.frame;
    let mut reply = Vec::new();
    let status = match request.command {
        binary::Command::Noop => Status::Ok,
        binary::Command::Version => {
            put_value(frame, Status::Ok, reports::VERSION.as_bytes(), &mut reply);
            return Order::Reply(reply);
        }
        binary::Command::Stat { name } => return statistics(desk, frame, name),
        _ => Status::UnknownCommand,
    };
    put_status(frame, status, request.quiet, &mut reply);
    Order::Reply(reply)
}

fn statistics(desk: &Desk, frame: Frame, name: &[u8]) -> Order {
    let (server, cache) = (&*desk.server, &desk.cache);
    let detail = name.strip_prefix(b"detail");
    let report = match name {
        b"" => reports::general(server, cache),
        b"items" => reports::items(server, cache),
        b"slabs" => reports::slabs(server, cache),
        b"sizes" => reports::sizes(),
        b"tables" => return Order::List(List::tables()),
        _ if name.starts_with(b"settings") => reports::settings(server),
        _ if name.starts_with(b"reset") => {
            server.reset();
            Vec::new()
        }
        _ if detail.is_some_and(|order| order.starts_with(b" dump")) => {
            return Order::List(List::prefixes());
        }
        _ if detail.is_some_and(|order| order.starts_with(b" on")) => {
            server.prefixes().enable(true);
            Vec::new()
        }
        _ if detail.is_some_and(|order| order.starts_with(b" off")) => {
            server.prefixes().enable(false);
            Vec::new()
        }
        _ => {
            let mut reply = Vec::new();
            put_status(frame, Status::NotFound, false, &mut reply);
            return Order::Reply(reply);
        }
    };
    let mut reply = Vec::new();
    put_lines(frame, &report, &mut reply);
    put_value(frame, Status::Ok, &[], &mut reply);
    Order::Reply(reply)
}

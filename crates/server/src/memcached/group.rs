//! The connections of one turn, served in groups.
//!
//! A group is as many connections in a row as have [`BURST_MAX`] requests together. First the
//! requests of all of them are read and hashed, and memory is asked for the buckets of each key;
//! then it is asked for the records that these lead to, and then the requests are executed,
//! connection by connection. So many connections with one request each gain as much as one with
//! many.
//!
//! Invariants:
//! 1. What was planned is keys and arguments, never what a look into the cache found: a request
//!    sees what those before it in the turn have done, whoever sent them.
//! 2. A connection is served once in a turn, within the bounds of a turn, and what is behind the
//!    requests that its group had room for is served after the group.

use arrayvec::ArrayVec;
use reactor::{Burst, Connection};

use super::{
    burst::{BURST_MAX, End, Plan},
    context::Context,
    large::LargeValue,
    record::Replies,
    session::{Begun, Session},
};

/// A connection whose requests have been planned.
struct Member<'c> {
    session: &'c mut Session,
    input: &'c [u8],
    replies: &'c mut Replies,
    /// Its requests end here in the plan; those of the member before it end where they start.
    planned: usize,
    /// What the input holds behind them; `None` for one that has something else to do first.
    end: Option<End>,
}

/// Serves all connections of a turn that has begun at `now_ms` on the cache's clock.
pub fn serve_all(context: &mut Context, burst: &mut Burst<Session, LargeValue>, now_ms: u64) {
    context.begin_group(now_ms);
    let mut begun = ArrayVec::new();
    let mut rest = burst;
    while !rest.is_empty() {
        begin_group(context, rest, &mut begun);
        let (group, others) = rest.split_at_mut(begun.len());
        for (connection, begun) in group.iter_mut().zip(begun.drain(..)) {
            let id = connection.id();
            let Connection { session, input, output, next, .. } = &mut **connection;
            *next = match begun {
                Some(begun) => session.go_on(context, input, output, begun),
                None => session.serve(context, input, output),
            };
            session.settle(id);
        }
        rest = others;
    }
    context.log_evictions();
}

/// Plans the requests of the first connections together and executes them. Adds to `begun` what
/// came of each connection, `None` for one that has something else to do first.
fn begin_group(
    context: &mut Context,
    connections: &mut Burst<Session, LargeValue>,
    begun: &mut ArrayVec<Option<Begun>, BURST_MAX>,
) {
    let mut plan = Plan::default();
    let mut members = ArrayVec::<Member<'_>, BURST_MAX>::new();
    for connection in connections {
        if plan.is_full() || members.is_full() {
            break;
        }
        let Connection { session, input, output: replies, .. } = &mut **connection;
        let input = input.bytes();
        let end = session.plan(&mut plan, context, input, context.turn_commands_max);
        members.push(Member { session, input, replies, planned: plan.requests().len(), end });
    }
    plan.prefetch(&context.worker);
    let mut start = 0;
    for member in &mut members {
        let requests = &plan.requests()[start..member.planned];
        start = member.planned;
        let Member { session, input, replies, end, .. } = member;
        begun.push(end.map(|end| session.begin(context, input, replies, requests, end)));
    }
}

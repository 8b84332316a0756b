//! The commands of the binary protocol. What they do is what the text commands do; what differs is
//! how it is asked for and answered.

mod keyed;
mod login;
pub(super) mod replies;
mod report;
mod storage;

pub(super) use keyed::{count_reply, terms as count_terms};
pub(super) use login::{Login, is_open_to_strangers, log_in, mechanisms, refuse_stranger};
pub(super) use report::{put_lines, put_part, put_sizes};
pub(super) use storage::{reply as store_reply, terms as store_terms};

use cache::Key;
use wire::memcached::binary::{Command, Refusal, Request, Status};

use super::{
    admin::{self, Then},
    context::Context,
    dialect::Standing,
    execute::Done,
    record::Replies,
    reports,
};
use replies::{put_status, put_value};

/// Executes a request that has no value. `known` is its key if it was hashed before.
pub(super) fn execute(
    context: &mut Context,
    request: &Request<'_>,
    known: Option<Key<'_>>,
    standing: &mut Standing,
    replies: &mut Replies,
) -> Done {
    let Request { frame, quiet, command } = *request;
    let status = match command {
        Command::Get(get) => {
            let key = known.unwrap_or_else(|| context.key(get.key));
            if !keyed::get(context, key, request, &get, replies) {
                return Done::Busy;
            }
            return Done::Yes(Then::Continue);
        }
        Command::Touch { key, expiry } => {
            let key = known.unwrap_or_else(|| context.key(key));
            keyed::touch(context, key, frame, expiry, replies);
            return Done::Yes(Then::Continue);
        }
        Command::Arithmetic { key, .. } => {
            let key = known.unwrap_or_else(|| context.key(key));
            keyed::count(context, key, request, replies);
            return Done::Yes(Then::Continue);
        }
        Command::Delete { key, token } => {
            let key = known.unwrap_or_else(|| context.key(key));
            keyed::delete(context, key, token)
        }
        Command::Flush { at } if admin::flush_all(context, at) => Status::Ok,
        Command::Flush { .. } => Status::Unauthenticated,
        Command::Noop => Status::Ok,
        Command::Quit => {
            put_status(frame, Status::Ok, quiet, replies);
            return Done::Yes(Then::Finish);
        }
        Command::Version => {
            put_value(frame, Status::Ok, reports::VERSION.as_bytes(), replies);
            return Done::Yes(Then::Continue);
        }
        Command::Stat { name } => return Done::Yes(report::report(context, frame, name, replies)),
        Command::Mechanisms => {
            login::mechanisms(&context.access, standing, frame, replies);
            return Done::Yes(Then::Continue);
        }
        Command::Login { mechanism, message, begins } => {
            let login = login::Login { mechanism, message, begins };
            login::log_in((&context.access, &context.counters), standing, &login, frame, replies);
            return Done::Yes(Then::Continue);
        }
        _ => Status::UnknownCommand,
    };
    put_status(frame, status, quiet, replies);
    Done::Yes(Then::Continue)
}

/// Answers a request that cannot be.
pub(super) fn refuse(context: &Context, refusal: &Refusal, replies: &mut Replies) {
    // Without users there are no commands to log in by, however malformed.
    let is_login = is_open_to_strangers(refusal.frame.opcode) && context.access.users.is_none();
    let unknown = is_login && refusal.swallow.is_some();
    let status = if unknown { Status::UnknownCommand } else { refusal.status };
    put_status(refusal.frame, status, false, replies);
}

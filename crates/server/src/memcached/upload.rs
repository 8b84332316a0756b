//! A long value on its way into the cache, piece by piece.
//!
//! What has arrived lies in the cache's memory already, which bounds it; the connection holds only
//! the command's line, or what its frame has before the value, which is read again when the value
//! is complete.

use cache::{StoreError, Upload};
use wire::memcached::{
    Limits, Step, binary,
    body::{Inflow, InflowState},
    limits::LINE_PROBE_BYTES,
    parse,
};

use super::{command::StoreCommand, context::Context, record::Replies};

/// Longest line that is kept for a value that is still arriving: what a connection costs beside its
/// buffers. Key and flags of the longest command that means something take 1 KiB.
pub(super) const LINE_KEPT_BYTES_MAX: usize = LINE_PROBE_BYTES;

/// A command whose value is still arriving.
#[derive(Debug)]
pub(super) struct Receiving {
    line: Box<[u8]>,
    inflow: Inflow,
    upload: Upload,
}

/// What follows a piece.
#[derive(Debug)]
pub(super) enum Then {
    /// More pieces.
    More(Box<Receiving>),
    /// This many bytes to be dropped, and then the next request.
    Swallow(u64),
}

/// Begins with the command that `line` is, of which no byte of the value has been taken. If the
/// value cannot be stored, the command fails at once, and says so; memcached, which fails at once,
/// too, says so when it has dropped the value.
pub(super) fn begin(
    context: &mut Context,
    line: &[u8],
    command: &StoreCommand<'_>,
    replies: &mut Replies,
) -> Then {
    let inflow = command.inflow();
    let upload = context.worker.upload(command.value_len() as usize).and_then(|upload| {
        let is_long = line.len() > LINE_KEPT_BYTES_MAX;
        if is_long { Err(StoreError::OutOfMemory { len: line.len() }) } else { Ok(upload) }
    });
    match upload {
        Ok(upload) => Then::More(Box::new(Receiving { line: line.into(), inflow, upload })),
        Err(error) => {
            command.refuse(context, error, replies);
            Then::Swallow(inflow.left())
        }
    }
}

/// Takes what `input` has of the value. Returns how many bytes that was, and what follows.
pub(super) fn receive(
    context: &mut Context,
    mut receiving: Box<Receiving>,
    input: &[u8],
    replies: &mut Replies,
) -> (usize, Then) {
    let piece = receiving.inflow.take(input);
    let limits = context.limits;
    if let Err(error) = push(&mut receiving.upload, context, piece.value) {
        command_of(&receiving.line, &limits).refuse(context, error, replies);
        return (piece.consumed, Then::Swallow(receiving.inflow.left()));
    }
    let then = match piece.state {
        InflowState::Open => Then::More(receiving),
        InflowState::Complete => {
            let Receiving { line, upload, .. } = *receiving;
            command_of(&line, &limits).store_upload(context, upload, replies);
            Then::Swallow(0)
        }
        InflowState::Malformed => {
            command_of(&receiving.line, &limits).refuse_data(context, replies);
            Then::Swallow(0)
        }
    };
    (piece.consumed, then)
}

fn push(upload: &mut Upload, context: &mut Context, mut value: &[u8]) -> Result<(), StoreError> {
    while !value.is_empty() {
        let taken = upload.push(&mut context.worker, value)?;
        assert!(taken > 0, "an upload takes what it misses");
        value = &value[taken..];
    }
    Ok(())
}

fn command_of<'l>(line: &'l [u8], limits: &Limits) -> StoreCommand<'l> {
    if line.first() == Some(&binary::MAGIC_REQUEST) {
        match binary::parse(line) {
            binary::Step::Request { request, .. } => StoreCommand::of_binary(&request),
            _ => None,
        }
    } else {
        match parse(line, limits) {
            Step::Request { request, .. } => StoreCommand::of(&request),
            _ => None,
        }
    }
    .expect("invariant: the line was such a command before")
}

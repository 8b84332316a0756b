//! Non-blocking receiving and sending, as both drivers do it.

use std::{io::IoSlice, os::fd::BorrowedFd};

use rustix::{
    io::{Errno, retry_on_intr},
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg},
};

use crate::{
    output::{Chain, External, Gather},
    pool::Buffer,
};

/// Slices per call: 4 MiB of a value in pieces of 64 KiB, more than a socket takes at a time, and
/// 1 KiB of stack. The system's own limit is 1024.
const SLICES_PER_SEND: usize = 64;

/// Calls per turn for one connection, so that a fast reader of a huge value does not keep others
/// waiting: 16 MiB, some 2 ms.
const SENDS_PER_TURN: usize = 4;

/// Receives once into the room of `buffer`, which is not full. Returns how many bytes came, 0 at
/// the end, and whether they filled the room.
pub(crate) fn pull(socket: BorrowedFd<'_>, buffer: &mut Buffer) -> Result<(usize, bool), Errno> {
    let room = buffer.room();
    let space = room.len();
    let (count, _) = retry_on_intr(|| recv(socket, &mut *room, RecvFlags::empty()))?;
    buffer.commit(count);
    Ok((count, count == space))
}

/// Sends as much of a chain as the socket takes and a turn allows. Returns whether the socket may
/// take more.
pub(crate) fn push<E: External>(
    socket: BorrowedFd<'_>,
    chain: &mut Chain<E>,
) -> Result<bool, Errno> {
    for _ in 0..SENDS_PER_TURN {
        let (sent, bytes) = match chain.one_slice() {
            Some(slice) => {
                let sent = retry_on_intr(|| send(socket, slice, SendFlags::NOSIGNAL));
                (sent, slice.len())
            }
            None => push_slices(socket, chain),
        };
        let room_left = match sent {
            Ok(sent) => {
                chain.advance(sent);
                sent == bytes
            }
            Err(Errno::AGAIN) => false,
            Err(error) => return Err(error),
        };
        if !room_left || chain.is_empty() {
            return Ok(room_left);
        }
    }
    Ok(true)
}

/// Sends many slices by one call. Returns how many bytes they have, too.
fn push_slices<E: External>(
    socket: BorrowedFd<'_>,
    chain: &Chain<E>,
) -> (Result<usize, Errno>, usize) {
    let mut slices = [IoSlice::new(&[]); SLICES_PER_SEND];
    let mut gather = Gather::new(&mut slices);
    chain.gather(&mut gather);
    let (count, bytes) = (gather.count(), gather.bytes());
    let mut control = SendAncillaryBuffer::default();
    let sent =
        retry_on_intr(|| sendmsg(socket, &slices[..count], &mut control, SendFlags::NOSIGNAL));
    (sent, bytes)
}

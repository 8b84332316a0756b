//! What a memcached client asks for does not depend on how its bytes are cut into packets.

use wire::memcached::limits::LINE_PROBE_BYTES;
use wire::memcached::{Get, Keys, Request, Then};

use crate::memcached::{Event, Reader};

/// Cuts the input behind its first bytes, which say where, and compares what is read from the
/// pieces with what is read from the whole, up to the end of the last line.
///
/// # Panics
/// When they differ.
pub fn body(data: &[u8]) {
    let Some((head, input)) = data.split_first_chunk::<4>() else { return };
    let Some(end) = input.iter().rposition(|&byte| byte == b'\n') else { return };
    let input = &input[..=end];
    let mut cuts: Vec<usize> = head.map(|byte| usize::from(byte) * input.len() / 256).into();
    cuts.push(input.len());
    cuts.sort_unstable();
    let (Some(whole), Some(pieces)) = (read(input, &[input.len()]), read(input, &cuts)) else {
        return;
    };
    assert_eq!(whole, pieces);
}

/// What is read if the input comes up to one of `ends` after the other, and how far.
///
/// `None` if a line beyond [`LINE_PROBE_BYTES`] is refused: whether that closes the connection
/// may depend on whether its end came with it, as it does in memcached.
fn read<'a>(input: &'a [u8], ends: &[usize]) -> Option<(Vec<Read<'a>>, usize)> {
    let mut reader = Reader::default();
    let (mut seen, mut start, mut overlong) = (Vec::new(), 0, false);
    for &end in ends {
        start += reader.take(&input[start..end], |event| match event {
            Event::Request(Request::Get(get)) => {
                seen.push(Read::Get(Get { keys: Keys::default(), complete: true, ..get }));
                seen.extend(get.keys.map(Read::Key));
            }
            Event::Request(request) => seen.push(Read::Request(request)),
            Event::Keys(keys) => seen.extend(keys.map(Read::Key)),
            Event::Refused { reply, line_len, then } => {
                overlong |= line_len > LINE_PROBE_BYTES;
                seen.push(Read::Refused { reply, then });
            }
        });
        if reader.closed {
            break;
        }
    }
    (!overlong).then_some((seen, start))
}

/// An event, with each retrieval taken apart.
#[derive(Debug, PartialEq, Eq)]
enum Read<'a> {
    Get(Get<'a>),
    Key(&'a [u8]),
    Request(Request<'a>),
    Refused { reply: &'static [u8], then: Then },
}

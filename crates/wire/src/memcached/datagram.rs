//! The frame that every datagram begins with, in UDP: all numbers in network order.
//!
//! ```text
//!        0         1         2         3
//!    0 | request, chosen by the client     | sequence number of this datagram |
//!    4 | datagrams of the message          | 0                                |
//!    8 | a part of the message: requests or replies, of text or binary protocol
//! ```
//!
//! A message to the server is one datagram; one of several is dropped. A message from it may take
//! several, which a client puts in order. The rules are those of memcached 1.6.45.

/// Bytes of a frame.
pub const FRAME_BYTES: usize = 8;

/// Longest datagram that is sent: it fits an Ethernet frame with what comes before it.
pub const DATAGRAM_BYTES_MAX: usize = 1400;

/// Most bytes of a message in one datagram.
pub const PART_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - FRAME_BYTES;

/// Longest message to a client: as many datagrams as there are numbers for.
pub const MESSAGE_BYTES_MAX: usize = PART_BYTES_MAX * u16::MAX as usize;

/// The client's number and the message of a datagram; `None` if there is none, or only a part.
pub fn read(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (frame, message) = datagram.split_first_chunk::<FRAME_BYTES>()?;
    let [r0, r1, _, _, t0, t1, _, _] = *frame;
    let is_whole = u16::from_be_bytes([t0, t1]) == 1 && !message.is_empty();
    is_whole.then_some((u16::from_be_bytes([r0, r1]), message))
}

/// The datagrams of a message, in order: the frame of each, and its part.
///
/// # Panics
///
/// If the message is longer than [`MESSAGE_BYTES_MAX`].
pub fn parts(request: u16, message: &[u8]) -> impl Iterator<Item = ([u8; FRAME_BYTES], &[u8])> {
    let total = message.len().div_ceil(PART_BYTES_MAX);
    let total = u16::try_from(total).expect("invariant: the message is not too long");
    (0..total).zip(message.chunks(PART_BYTES_MAX)).map(move |(sequence, part)| {
        let [r0, r1] = request.to_be_bytes();
        let [s0, s1] = sequence.to_be_bytes();
        let [t0, t1] = total.to_be_bytes();
        ([r0, r1, s0, s1, t0, t1, 0, 0], part)
    })
}

#[cfg(test)]
mod tests {
    use super::{DATAGRAM_BYTES_MAX, FRAME_BYTES, PART_BYTES_MAX, parts, read};

    #[test]
    fn a_message_to_the_server_is_one_datagram() {
        let whole = b"\x12\x34\0\x07\0\x01\0\x09get a\r\n";
        assert_eq!(read(whole), Some((0x1234, &b"get a\r\n"[..])));
        for wrong in
            [&b""[..], &whole[..7], &whole[..8], b"\0\0\0\0\0\x02\0\0x", b"\0\0\0\0\x01\x01\0\0x"]
        {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_message_from_it_is_cut_into_datagrams() {
        let message: Vec<u8> = (0..PART_BYTES_MAX * 2 + 1).map(|byte| byte as u8).collect();
        let cut: Vec<_> = parts(0xabcd, &message).collect();
        let frames: Vec<_> = cut.iter().map(|(frame, _)| *frame).collect();
        let expected = [0, 1, 2].map(|sequence| [0xab, 0xcd, 0, sequence, 0, 3, 0, 0]);
        assert_eq!(frames, expected);
        assert_eq!(cut.iter().map(|(_, part)| *part).collect::<Vec<_>>().concat(), message);
        assert_eq!(cut[0].1.len() + FRAME_BYTES, DATAGRAM_BYTES_MAX);
        assert_eq!(parts(1, &message[..PART_BYTES_MAX]).count(), 1);
        assert_eq!(parts(1, b"").count(), 0);
    }
}

//! The kernel's messages: what of a request is read, and how replies are laid out.
//!
//! Source: `linux/fuse.h`, version 7.31 of the protocol, in the machine's byte order. Only what a
//! flat directory of plain files needs.

/// The protocol's numbers for requests.
pub(super) mod opcode {
    pub(in crate::fuse) const LOOKUP: u32 = 1;
    pub(in crate::fuse) const FORGET: u32 = 2;
    pub(in crate::fuse) const GETATTR: u32 = 3;
    pub(in crate::fuse) const SETATTR: u32 = 4;
    pub(in crate::fuse) const UNLINK: u32 = 10;
    pub(in crate::fuse) const RENAME: u32 = 12;
    pub(in crate::fuse) const OPEN: u32 = 14;
    pub(in crate::fuse) const READ: u32 = 15;
    pub(in crate::fuse) const WRITE: u32 = 16;
    pub(in crate::fuse) const STATFS: u32 = 17;
    pub(in crate::fuse) const RELEASE: u32 = 18;
    pub(in crate::fuse) const FSYNC: u32 = 20;
    pub(in crate::fuse) const FLUSH: u32 = 25;
    pub(in crate::fuse) const INIT: u32 = 26;
    pub(in crate::fuse) const OPENDIR: u32 = 27;
    pub(in crate::fuse) const READDIR: u32 = 28;
    pub(in crate::fuse) const RELEASEDIR: u32 = 29;
    pub(in crate::fuse) const FSYNCDIR: u32 = 30;
    pub(in crate::fuse) const ACCESS: u32 = 34;
    pub(in crate::fuse) const CREATE: u32 = 35;
    pub(in crate::fuse) const INTERRUPT: u32 = 36;
    pub(in crate::fuse) const DESTROY: u32 = 38;
    pub(in crate::fuse) const BATCH_FORGET: u32 = 42;
    pub(in crate::fuse) const FALLOCATE: u32 = 43;
    pub(in crate::fuse) const RENAME2: u32 = 45;
}

/// Bytes of the header before each request.
const REQUEST_HEADER_BYTES: usize = 40;

/// Bytes of the header before each reply.
const REPLY_HEADER_BYTES: u32 = 16;

/// The root directory's node.
pub(super) const ROOT: u64 = 1;

/// The largest write that the kernel may send at once.
pub(super) const WRITE_BYTES_MAX: u32 = 1 << 20;

/// A buffer for any request: the header, the write's own fields, its bytes, and a page to spare.
pub(super) const REQUEST_BYTES_MAX: usize = WRITE_BYTES_MAX as usize + 8192;

/// A request as the kernel wrote it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a>(&'a [u8]);

impl<'a> Request<'a> {
    /// Nothing, when it is shorter than its header says.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let request = Self(bytes);
        (bytes.len() >= REQUEST_HEADER_BYTES && request.word(0) as usize <= bytes.len())
            .then_some(request)
    }

    pub(super) fn opcode(self) -> u32 {
        self.word(4)
    }

    pub(super) fn unique(self) -> u64 {
        self.long(8)
    }

    pub(super) fn node(self) -> u64 {
        self.long(16)
    }

    /// The bytes after the header, from `at` on.
    pub(super) fn tail(self, at: usize) -> &'a [u8] {
        self.0.get(REQUEST_HEADER_BYTES + at..).unwrap_or(&[])
    }

    /// 32 bits of what follows the header.
    pub(super) fn u32(self, at: usize) -> u32 {
        self.word(REQUEST_HEADER_BYTES + at)
    }

    /// 64 bits of what follows the header.
    pub(super) fn u64(self, at: usize) -> u64 {
        self.long(REQUEST_HEADER_BYTES + at)
    }

    /// The names from `at` on, each of which ends with a zero byte.
    pub(super) fn names(self, at: usize) -> impl Iterator<Item = &'a str> {
        self.tail(at).split(|byte| *byte == 0).map(|name| std::str::from_utf8(name).unwrap_or(""))
    }

    fn word(self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        u32::from_ne_bytes(bytes.unwrap_or_default())
    }

    fn long(self, at: usize) -> u64 {
        let bytes = self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_ne_bytes(bytes.unwrap_or_default())
    }
}

/// A reply as it grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Reply(Vec<u8>);

impl Reply {
    pub(super) fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// `fuse_attr`.
    fn attributes(self, node: u64, len: u64) -> Self {
        let mode = if node == ROOT { 0o040_755 } else { 0o100_644 };
        self.u64(node)
            .u64(len)
            .u64(len.div_ceil(512))
            .zeros(3 * 8 + 3 * 4)
            .u32(mode)
            .u32(1)
            .zeros(3 * 4)
            .u32(4096)
            .u32(0)
    }

    /// `fuse_entry_out`, which the kernel may not keep.
    pub(super) fn entry(self, node: u64, len: u64) -> Self {
        self.u64(node).zeros(8 + 2 * 8 + 2 * 4).attributes(node, len)
    }

    /// `fuse_attr_out`, which the kernel may not keep.
    pub(super) fn attributes_of(self, node: u64, len: u64) -> Self {
        self.zeros(16).attributes(node, len)
    }

    /// `fuse_open_out`: reads and writes come here and not into the kernel's cache.
    pub(super) fn opened(self) -> Self {
        const DIRECT_IO: u32 = 1;
        self.u64(0).u32(DIRECT_IO).u32(0)
    }

    /// `fuse_dirent`; `next` is where a listing goes on after it.
    pub(super) fn dirent(self, node: u64, next: u64, name: &str) -> Self {
        const REGULAR: u32 = 8;
        let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let padding = name.len().next_multiple_of(8) - name.len();
        self.u64(node).u64(next).u32(len).u32(REGULAR).bytes(name.as_bytes()).zeros(padding)
    }

    /// `fuse_init_out` for a kernel that offered these flags.
    pub(super) fn init(self, offered: u32) -> Self {
        const ASYNC_READ: u32 = 1;
        const BIG_WRITES: u32 = 1 << 5;
        const ASYNC_DIO: u32 = 1 << 15;
        const MAX_PAGES: u32 = 1 << 22;
        let flags = offered & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES);
        self.u32(7)
            .u32(31)
            .u32(0)
            .u32(flags)
            .u16(16)
            .u16(12)
            .u32(WRITE_BYTES_MAX)
            .u32(1)
            .u16((WRITE_BYTES_MAX / 4096) as u16)
            .zeros(2 + 8 * 4)
    }

    /// The whole message: the header, and what follows it unless there was an error.
    pub(super) fn message(self, unique: u64, error: i32) -> Vec<u8> {
        let body = if error == 0 { self.0 } else { Vec::new() };
        let len = REPLY_HEADER_BYTES + u32::try_from(body.len()).unwrap_or(u32::MAX);
        let header = Self::default().u32(len).bytes(&(-error).to_ne_bytes()).u64(unique);
        header.bytes(&body).0
    }
}

#[cfg(test)]
mod tests {
    use super::{Reply, Request};

    #[test]
    fn replies_have_the_protocols_lengths() {
        let len = |reply: Reply| reply.len();
        assert_eq!(len(Reply::default().entry(2, 5)), 128);
        assert_eq!(len(Reply::default().attributes_of(2, 5)), 104);
        assert_eq!(len(Reply::default().opened()), 16);
        assert_eq!(len(Reply::default().init(u32::MAX)), 64);
        assert_eq!(len(Reply::default().dirent(2, 1, "abc")), 32);
        assert_eq!(len(Reply::default().dirent(2, 1, "abcdefgh")), 32);
        let message = Reply::default().u64(1).message(7, 5);
        assert_eq!(message.len(), 16, "an error has no body");
        assert_eq!(message[4..8], (-5_i32).to_ne_bytes());
    }

    #[test]
    fn a_short_request_is_none() {
        let mut bytes = vec![0; 43];
        bytes[..4].copy_from_slice(&43_u32.to_ne_bytes());
        bytes[40..].copy_from_slice(b"a\0b");
        let names: Vec<_> = Request::parse(&bytes).expect("whole").names(0).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(Request::parse(&bytes[..42]).is_none());
        assert!(Request::parse(&bytes[..39]).is_none());
    }
}

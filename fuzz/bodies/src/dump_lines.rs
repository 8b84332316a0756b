//! Lines of another server's dumps: whatever they are, a key that is read off one is a key, and is
//! read off the line again that this server would write for it.

use wire::memcached::{
    dump::{DUMP_LINE_BYTES_MAX, is_plain, parse_dump_line},
    limits::KEY_LEN_MAX,
    reply::Writer,
};

/// Longest key that base64 can say within the bytes of a key.
const ENCODED_KEY_LEN_MAX: usize = 186;

/// Reads each line.
///
/// # Panics
/// Panics when a key is none, or gets lost on its way through a line.
pub fn body(data: &[u8]) {
    for line in data.split(|&byte| byte == b'\n') {
        let mut room = [0; KEY_LEN_MAX];
        let Some(key) = parse_dump_line(line, &mut room) else { continue };
        assert!(!key.is_empty() && key.len() <= KEY_LEN_MAX);
        if !is_plain(key) && key.len() > ENCODED_KEY_LEN_MAX {
            continue;
        }
        let mut written = [0; DUMP_LINE_BYTES_MAX];
        let mut writer = Writer::new(&mut written);
        writer.mgdump_line(key);
        let len = writer.len() - 2;
        let again = parse_dump_line(&written[..len], &mut [0; KEY_LEN_MAX]).map(<[u8]>::to_vec);
        assert_eq!(again.as_deref(), Some(key));
    }
}

use proptest::prelude::*;

use super::*;

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut room = [0; DUMP_LINE_BYTES_MAX];
    let mut writer = Writer::new(&mut room);
    write(&mut writer);
    let len = writer.len();
    room[..len].to_vec()
}

fn key_of(line: &[u8]) -> Option<Vec<u8>> {
    parse_dump_line(line, &mut [0; KEY_LEN_MAX]).map(<[u8]>::to_vec)
}

#[test]
fn a_metadump_line_has_memcacheds_form() {
    let listing = Listing {
        key: b"a%b\xff~",
        expires_s: Some(1_700_000_100),
        accessed_s: 1_700_000_000,
        token: 3,
        fetched: true,
        class: 1,
        bytes: 69,
        client_flags: 7,
    };
    let line = written(|writer| writer.metadump_line(&listing));
    let wanted =
        "key=a%25b%FF~ exp=1700000100 la=1700000000 cas=3 fetch=yes cls=1 size=69 flags=7 \n";
    assert_eq!(line, wanted.as_bytes());
    let never = Listing { expires_s: None, fetched: false, ..listing };
    let line = String::from_utf8(written(|writer| writer.metadump_line(&never)));
    assert!(line.expect("text").contains(" exp=-1 la=1700000000 cas=3 fetch=no cls=1 "));
}

#[test]
fn the_longest_line_fits() {
    let listing = Listing {
        key: &[b'#'; KEY_LEN_MAX],
        expires_s: Some(u64::MAX),
        accessed_s: u64::MAX,
        token: u64::MAX,
        fetched: true,
        class: u32::MAX,
        bytes: u64::MAX,
        client_flags: u32::MAX,
    };
    assert_eq!(written(|writer| writer.metadump_line(&listing)).len(), DUMP_LINE_BYTES_MAX);
}

#[test]
fn a_mgdump_line_can_be_sent_as_it_is() {
    assert_eq!(written(|writer| writer.mgdump_line(b"a%b")), b"mg a%b\r\n");
    assert_eq!(written(|writer| writer.mgdump_line(b"\xff\0")), b"mg /wA= b\r\n");
    for byte in [b' ', b'\r', b'\n', 0] {
        assert!(!is_plain(&[b'a', byte]), "{byte}");
    }
}

#[test]
fn lines_of_other_servers_and_of_none() {
    for (line, key) in [
        (&b"key=foo exp=-1 la=1 cas=2 fetch=no cls=1 size=68 flags=5 "[..], Some(&b"foo"[..])),
        (b"key=a%25b%2f exp=-1", Some(b"a%b/")),
        (b"key=only", Some(b"only")),
        (b"mg foo", Some(b"foo")),
        (b"mg /wA= b", Some(b"\xff\0")),
        (b"key= exp=-1", None),
        (b"key=%4 exp=-1", None),
        (b"key=%+4 exp=-1", None),
        (b"key=a%", None),
        (b"mg ", None),
        (b"mg * b", None),
        (b"ERROR", None),
        (b"", None),
    ] {
        assert_eq!(key_of(line).as_deref(), key, "{}", line.escape_ascii());
    }
    assert_eq!(key_of(&[b"mg ".as_slice(), &[b'k'; 250]].concat()), Some(vec![b'k'; 250]));
    assert_eq!(key_of(&[b"mg ".as_slice(), &[b'k'; 251]].concat()), None);
    assert_eq!(key_of(&[b"key=".as_slice(), &b"%20".repeat(251)].concat()), None);
}

proptest! {
    #[test]
    fn every_key_survives_both_forms(key in proptest::collection::vec(any::<u8>(), 1..=186)) {
        let listing = Listing {
            key: &key,
            expires_s: None,
            accessed_s: 0,
            token: 0,
            fetched: false,
            class: 1,
            bytes: 0,
            client_flags: 0,
        };
        let line = written(|writer| writer.metadump_line(&listing));
        prop_assert_eq!(key_of(&line[..line.len() - 1]), Some(key.clone()));
        let line = written(|writer| writer.mgdump_line(&key));
        prop_assert_eq!(key_of(&line[..line.len() - 2]), Some(key));
    }
}

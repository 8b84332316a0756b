use super::*;

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut room = [0xee; KEY_LEN_MAX];
    decode(text, &mut room).map(|len| room[..len].to_vec())
}

fn encoded(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    encode(bytes, |group| text.extend_from_slice(group));
    text
}

#[test]
fn known_encodings() {
    for (bytes, text) in [
        (&b"f"[..], &b"Zg=="[..]),
        (b"fo", b"Zm8="),
        (b"foo", b"Zm9v"),
        (b"foob", b"Zm9vYg=="),
        (b"\xfb\xff\xfe", b"+//+"),
        (b"\x00\x10\x83\x10\x51\x87", b"ABCDEFGH"),
    ] {
        assert_eq!(encoded(bytes), text);
        assert_eq!(decoded(text).as_deref(), Some(bytes));
    }
}

#[test]
fn decoding_forgives_what_memcached_forgives() {
    assert_eq!(decoded(b"Z!m\t9v"), Some(b"foo".to_vec()), "foreign bytes are skipped");
    assert_eq!(decoded(b"Zg==Zg=="), Some(b"f".to_vec()), "padding ends the key");
    assert_eq!(decoded(b"=AAA"), Some(vec![0, 0]), "padding may lead");
}

#[test]
fn what_is_no_base64_is_refused() {
    for wrong in [&b""[..], b"!!!", b"Zm9", b"Zm9v=", b"A===", b"===="] {
        assert_eq!(decoded(wrong), None, "{wrong:?}");
    }
}

#[test]
fn the_longest_key_fits_its_rooms() {
    let text = [b'/'; KEY_LEN_MAX - KEY_LEN_MAX % 4];
    let bytes = decoded(&text).unwrap();
    assert_eq!(bytes, [0xff; 186]);
    assert_eq!(encoded(&bytes), text);
    assert!(text.len() <= ENCODED_LEN_MAX);
}

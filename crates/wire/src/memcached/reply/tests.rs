use super::*;
use crate::memcached::Request;
use crate::memcached::tests::request;

/// What `write` writes, in room that is not empty before.
fn written(write: impl FnOnce(&mut Writer<'_>)) -> String {
    let mut room = [b'#'; LINE_BYTES_MAX];
    let mut writer = Writer::new(&mut room);
    write(&mut writer);
    let len = writer.len();
    assert!(room[len..].iter().all(|&byte| byte == b'#'));
    String::from_utf8(room[..len].to_vec()).unwrap()
}

fn meta(line: &str) -> Meta<'_> {
    match request(line.as_bytes()) {
        Request::MetaGet(meta)
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic { meta, .. } => meta,
        Request::MetaStore(store) => store.meta,
        request => panic!("{request:?}"),
    }
}

const FACTS: Facts = Facts {
    value_len: 12,
    client_flags: 5,
    token: 77,
    ttl_s: Some(30),
    ttl_before_s: Some(20),
    idle_s: 3,
    fetched: true,
};

const LONGEST: Facts = Facts {
    value_len: u32::MAX,
    client_flags: u32::MAX,
    token: u64::MAX,
    ttl_s: Some(u32::MAX),
    ttl_before_s: Some(u32::MAX),
    idle_s: u32::MAX,
    fetched: true,
};

#[test]
fn text_headers() {
    let header = |token| written(|out| out.value_header(b"key", 5, 12, token));
    assert_eq!(header(None), "VALUE key 5 12\r\n");
    assert_eq!(header(Some(77)), "VALUE key 5 12 77\r\n");
    let longest = written(|out| out.value_header(&[b'k'; 250], u32::MAX, u32::MAX, Some(u64::MAX)));
    assert_eq!(longest.len(), VALUE_HEADER_BYTES_MAX);
    assert_eq!(written(|out| out.number_line(0)), "0\r\n");
}

fn hit(line: &str, facts: &Facts, renewal: Renewal) -> (String, bool) {
    let mut with_value = false;
    let text = written(|out| with_value = out.meta_get_hit(&meta(line), facts, renewal));
    (text, with_value)
}

#[test]
fn a_hit_gives_back_what_was_asked_for_in_that_order() {
    let plain = |line| hit(line, &FACTS, Renewal::default());
    assert_eq!(plain("mg a\n"), ("HD\r\n".into(), false));
    assert_eq!(plain("mg a v\r\n"), ("VA 12\r\n".into(), true));
    let all = "mg a t c s k f l h Oxy v q u x I L P T5\r\n";
    assert_eq!(plain(all), ("VA 12 t20 c77 s12 ka f5 l3 h1 Oxy\r\n".into(), true));
    assert_eq!(plain("mg a Oxy k s\r\n").0, "HD Oxy ka s12\r\n");
    assert_eq!(plain("mg Z!m9v k b\r\n").0, "HD kZm9v b\r\n");
    let never = Facts { ttl_before_s: None, fetched: false, ..FACTS };
    assert_eq!(hit("mg a h t\r\n", &never, Renewal::default()).0, "HD h0 t-1\r\n");
}

#[test]
fn the_time_left_is_that_of_its_place_on_the_line() {
    let plain = |line, facts| hit(line, facts, Renewal::default()).0;
    assert_eq!(plain("mg a t T30\r\n", &FACTS), "HD t20\r\n");
    assert_eq!(plain("mg a T30 t\r\n", &FACTS), "HD t30\r\n");
    assert_eq!(plain("mg a N30 t\r\n", &FACTS), "HD t20\r\n");
}

#[test]
fn a_known_token_makes_the_value_unwanted() {
    let plain = |line| hit(line, &FACTS, Renewal::default());
    assert_eq!(plain("mg a v C77\r\n"), ("HD\r\n".into(), false));
    assert_eq!(plain("mg a v C78\r\n"), ("VA 12\r\n".into(), true));
}

#[test]
fn renewal_flags_come_last() {
    let all = Renewal { won: true, stale: true, taken: true };
    assert_eq!(hit("mg a s\r\n", &FACTS, all).0, "HD s12 Z X W\r\n");
    let one = |renewal| hit("mg a\n", &FACTS, renewal).0;
    assert_eq!(one(Renewal { won: true, ..Renewal::default() }), "HD W\r\n");
    assert_eq!(one(Renewal { stale: true, ..Renewal::default() }), "HD X\r\n");
    assert_eq!(one(Renewal { taken: true, ..Renewal::default() }), "HD Z\r\n");
}

#[test]
fn a_miss_gives_back_opaque_and_key() {
    let miss = |line| written(|out| out.meta_get_miss(&meta(line)));
    assert_eq!(miss("mg a s v k Oxy t\r\n"), "EN ka Oxy\r\n");
    assert_eq!(miss("mg a s v\r\n"), "EN\r\n");
    assert_eq!(miss("mg a k q\r\n"), "");
}

#[test]
fn a_store_tells_token_and_size() {
    let stored = |status, line| written(|out| out.meta_store(status, &meta(line), &FACTS));
    let line = "ms a 12 k s c Oxy t f l h v\r\n";
    assert_eq!(stored(Status::Done, line), "HD ka s12 c77 Oxy\r\n");
    assert_eq!(stored(Status::NotStored, line), "NS ka s12 c77 Oxy\r\n");
    assert_eq!(stored(Status::Exists, "ms a 12 q\r\n"), "EX\r\n");
    assert_eq!(stored(Status::NotFound, "ms a 12 q\r\n"), "NF\r\n");
    assert_eq!(stored(Status::Done, "ms a 12 q k\r\n"), "");
}

#[test]
fn a_delete_tells_opaque_and_key() {
    let deleted = |status, line| written(|out| out.meta_delete(status, &meta(line)));
    assert_eq!(deleted(Status::Done, "md a k Oxy c s t\r\n"), "HD ka Oxy\r\n");
    assert_eq!(deleted(Status::Done, "md a q\r\n"), "");
    assert_eq!(deleted(Status::NotFound, "md a q\r\n"), "NF\r\n");
    assert_eq!(deleted(Status::Exists, "md a q\r\n"), "EX\r\n");
}

#[test]
fn arithmetic_tells_the_number_if_asked() {
    let changed = |line| written(|out| out.meta_arithmetic(&meta(line), 120, &FACTS));
    assert_eq!(changed("ma a\n"), "HD\r\n");
    assert_eq!(changed("ma a t v c k Oxy s f\r\n"), "VA 3 t20 c77 ka Oxy\r\n120\r\n");
    assert_eq!(changed("ma a q v\r\n"), "");
    let failed = |status, line| written(|out| out.meta_arithmetic_failed(status, &meta(line)));
    assert_eq!(failed(Status::NotFound, "ma a q t k v\r\n"), "NF ka\r\n");
    assert_eq!(failed(Status::Exists, "ma a c\r\n"), "EX\r\n");
}

#[test]
fn debug_lines_tell_all() {
    let debug = |line: &[u8], facts: &Facts| {
        let Request::MetaDebug { key } = request(line) else { panic!("{line:?}") };
        written(|out| out.meta_debug(&key, facts, 4, 80))
    };
    let expected = "ME a exp=30 la=3 cas=77 fetch=yes cls=4 size=80\r\n";
    assert_eq!(debug(b"me a\r\n", &FACTS), expected);
    let fresh = Facts { ttl_s: None, fetched: false, ..FACTS };
    let expected = "ME Zm9v exp=-1 la=3 cas=77 fetch=no cls=4 size=80\r\n";
    assert_eq!(debug(b"me Zm9v b k\r\n", &fresh), expected);
}

#[test]
fn no_line_is_longer_than_its_bound() {
    let all = Renewal { won: true, stale: true, taken: true };
    let opaque = "x".repeat(31);
    let plain = format!("mg {} t c s k f l h O{opaque} v q\r\n", "k".repeat(250));
    let (text, _) = hit(&plain, &LONGEST, all);
    assert_eq!(text.len() + 4, META_LINE_BYTES_MAX, "but for the longer key in base64");
    let binary = format!("mg {} t c s k f l h O{opaque} v b\r\n", "/".repeat(248));
    assert_eq!(hit(&binary, &LONGEST, all).0.len() + 4, META_LINE_BYTES_MAX);

    let line = format!("ma {} t c k O{opaque} v\r\n", "k".repeat(250));
    let number = written(|out| out.meta_arithmetic(&meta(&line), u64::MAX, &LONGEST));
    assert!(number.len() <= NUMBER_BYTES_MAX);

    let line = format!("me {}\r\n", "k".repeat(250));
    let Request::MetaDebug { key } = request(line.as_bytes()) else { panic!("{line}") };
    let debug = written(|out| out.meta_debug(&key, &LONGEST, u32::MAX, u64::MAX));
    assert!(debug.len() <= META_DEBUG_BYTES_MAX, "{}", debug.len());
}

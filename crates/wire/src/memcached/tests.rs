use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits { retrieval_part_bytes: 4096 };

/// Parses a line that is the whole input.
pub(super) fn parse_line(line: &[u8]) -> Step<'_> {
    let step = parse(line, &LIMITS);
    if let Step::Request { consumed, .. } | Step::Invalid { consumed, .. } = step {
        assert_eq!(consumed, line.len(), "{line:?}");
    }
    step
}

/// The request of a line.
pub(super) fn request(line: &[u8]) -> Request<'_> {
    match parse_line(line) {
        Step::Request { request, .. } => request,
        step => panic!("{line:?}: {step:?}"),
    }
}

/// The reply to a line that is wrong and followed by nothing.
pub(super) fn refusal(line: &[u8]) -> &'static [u8] {
    match parse_line(line) {
        Step::Invalid { reply, then: Then::Continue, .. } => reply,
        step => panic!("{line:?}: {step:?}"),
    }
}

/// The reply to a line that is wrong, and the length of the body that follows.
pub(super) fn swallowed(line: &[u8]) -> (&'static [u8], u32) {
    match parse_line(line) {
        Step::Invalid { reply, then: Then::Swallow { bytes }, .. } => (reply, bytes),
        step => panic!("{line:?}: {step:?}"),
    }
}

#[test]
fn the_first_space_is_found_at_any_distance() {
    for len in 0..80 {
        for at in 0..=len {
            // Neighbours of the space in value, which a careless search would take for one.
            let mut bytes: Vec<u8> = (0..len).map(|index| b"\x1f\x21\xa0\x00"[index % 4]).collect();
            assert_eq!(line::find_space(&bytes), None);
            if at < len {
                bytes[at..].fill(b' ');
                assert_eq!(line::find_space(&bytes), Some(at), "{len}");
                bytes[at + 1..].fill(b'!');
                assert_eq!(line::find_space(&bytes), Some(at), "{len}");
            }
        }
    }
}

#[test]
fn the_end_of_a_word_is_found_at_any_distance() {
    const LEN_MAX: usize = 250;
    for len in (0..80).chain(240..255) {
        // The first byte that ends no word, and such as a careless search would take for an end.
        let plain: Vec<u8> = (0..len).map(|index| b"\x21\x80\xff\xa0"[index % 4]).collect();
        assert_eq!(line::find_word_end(&plain, LEN_MAX), None, "{len}");
        for at in 0..len {
            for end in *b" \r\n\x00\x1f" {
                let mut bytes = plain.clone();
                bytes[at] = end;
                let expected = (at <= LEN_MAX).then_some(at);
                assert_eq!(line::find_word_end(&bytes, LEN_MAX), expected, "{len} {end}");
                bytes[at..].fill(end);
                assert_eq!(line::find_word_end(&bytes, LEN_MAX), expected, "{len} {end}");
            }
        }
    }
}

fn closed(reply: &'static [u8], consumed: usize) -> Step<'static> {
    Step::Invalid { reply, consumed, then: Then::Close }
}

#[test]
fn a_line_ends_with_or_without_a_carriage_return() {
    assert_eq!(parse(b"", &LIMITS), Step::Incomplete);
    assert_eq!(parse(b"version", &LIMITS), Step::Incomplete);
    assert_eq!(parse(b"version\r", &LIMITS), Step::Incomplete);
    for line in [&b"version\r\n"[..], b"version\n"] {
        let consumed = line.len();
        let step = Step::Request { request: Request::Version, consumed };
        assert_eq!(parse(line, &LIMITS), step);
        assert_eq!(parse(&[line, b"quit\n"].concat(), &LIMITS), step);
    }
}

#[test]
fn a_line_below_four_bytes_is_no_line() {
    for line in [&b"\n"[..], b"\r\n", b"x\n", b"x\r\n", b"mn\n"] {
        assert_eq!(refusal(line), lines::BAD_FORMAT, "{line:?}");
    }
    assert_eq!(request(b"mn\r\n"), Request::MetaNoop);
    assert_eq!(refusal(b"xx\r\n"), lines::ERROR);
}

#[test]
fn what_is_too_long_for_a_command_closes_the_connection() {
    let junk = vec![b'x'; limits::LINE_PROBE_BYTES + 1];
    assert_eq!(parse(&junk[1..], &LIMITS), Step::Incomplete);
    assert_eq!(parse(&junk, &LIMITS), closed(b"", junk.len()));
    // If its line end comes with it, memcached has read it, up to one read buffer.
    let ended = |len: usize| [&vec![b'x'; len - 1][..], b"\n"].concat();
    assert_eq!(refusal(&ended(limits::LINE_BYTES_MAX)), lines::ERROR);
    let longer = ended(limits::LINE_BYTES_MAX + 1);
    assert_eq!(parse(&longer, &LIMITS), closed(b"", longer.len()));
}

#[test]
fn web_browsers_are_hung_up_on() {
    assert_eq!(parse(b"GET / HTTP/1.1\r\n", &LIMITS), closed(b"", 16));
    assert_eq!(parse(b"POST /x HTTP/2\r\n", &LIMITS), closed(b"", 16));
    assert_eq!(refusal(b"HTTP/1.1\r\n"), lines::ERROR);
    assert_eq!(refusal(b"GET / HTTP/1.1 x\r\n"), lines::ERROR);
}

fn part<'a>(input: &'a [u8], limits: &Limits) -> (Get<'a>, usize) {
    match parse(input, limits) {
        Step::Request { request: Request::Get(get), consumed } => (get, consumed),
        step => panic!("{step:?}"),
    }
}

#[test]
fn a_retrieval_longer_than_the_buffer_comes_in_parts() {
    for verb in ["get ", "gets ", "gat 0 ", "gats 0 "] {
        let line = [verb.as_bytes(), &b"key ".repeat(1100)].concat();
        let waits = &line[..LIMITS.retrieval_part_bytes - 1];
        assert_eq!(parse(waits, &LIMITS), Step::Incomplete, "{verb}");
        let (get, consumed) = part(&line[..LIMITS.retrieval_part_bytes], &LIMITS);
        assert!(!get.complete);
        assert_eq!(get.keys.count(), (consumed - verb.len()) / 4);
        assert!(LIMITS.retrieval_part_bytes - consumed < 4, "{verb}");
        assert_eq!(get.touch.is_some(), verb.starts_with("gat"));
        assert_eq!(get.with_token, verb.contains('s'));
        // With its end in sight, the line is whole.
        let whole = [&line[..], b"last\r\n"].concat();
        let (get, consumed) = part(&whole, &LIMITS);
        assert!(get.complete);
        assert_eq!((get.keys.count(), consumed), (1101, whole.len()));
    }
}

#[test]
fn a_retrieval_in_parts_that_is_wrong_closes_the_connection() {
    let part = |start: &[u8], len| [start, &b"k ".repeat(len)].concat();
    let long_key = [&part(b"get ", 1900)[..], &[b'k'; 300]].concat();
    assert_eq!(parse(&long_key, &LIMITS), closed(lines::BAD_FORMAT, long_key.len()));
    let bad_time = part(b"gat x ", 2048);
    assert_eq!(parse(&bad_time, &LIMITS), closed(lines::INVALID_EXPTIME, bad_time.len()));
    let late = part(&[&[b' '; 100][..], b"get "].concat(), 2048);
    assert_eq!(parse(&late, &LIMITS), closed(lines::ERROR, late.len()));
    let later = part(&[&[b' '; 101][..], b"get "].concat(), 2048);
    assert_eq!(parse(&later, &LIMITS), closed(b"", later.len()));
}

/// Something to send: mostly lines that mean something, with bodies, and some junk.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "get",
        "gets",
        "gat",
        "set",
        "cas",
        "append",
        "incr",
        "delete",
        "touch",
        "mg",
        "ms",
        "md",
        "ma",
        "me",
        "mn",
        "stats",
        "flush_all",
        "lru",
        "k",
        "key2",
        "0",
        "1",
        "2",
        "30",
        "-1",
        "noreply",
        "v",
        "q",
        "b",
        "T30",
        "O1",
        "MS",
        "N",
        "Zm9v",
        "\r\n",
        "\r\n",
        "\n",
        "ab\r\n",
        "get a\r\n",
        "set a 0 0 2\r\nab\r\n",
        "ms a 2 T0 v\r\nab\r\n",
        "x\0y",
        "\u{ff}",
    ]);
    prop::collection::vec(word, 1..60).prop_map(|words| words.join(" ").into_bytes())
}

/// One thing that a parser reports, without what it borrows.
fn events(input: &[u8], cuts: &[usize], limits: &Limits) -> (Vec<String>, usize) {
    let (mut seen, mut start, mut swallow, mut in_get) = (Vec::new(), 0, 0, false);
    for end in cuts.iter().copied().chain([input.len()]) {
        while start < end {
            let have = &input[start..end];
            if swallow > 0 {
                let taken = swallow.min(have.len());
                swallow -= taken;
                start += taken;
            } else if in_get {
                match parse_keys(have, limits) {
                    KeysStep::Incomplete => break,
                    KeysStep::Part { keys, consumed, complete } => {
                        seen.extend(keys.map(|key| format!("key {key:?}")));
                        start += consumed;
                        in_get = !complete;
                    }
                    KeysStep::TooLong => return (seen, start),
                }
            } else {
                match parse(have, limits) {
                    Step::Incomplete => break,
                    Step::Request { request, consumed } => {
                        assert!(consumed <= have.len());
                        start += consumed;
                        match request {
                            Request::Get(Get { keys, complete, with_token, touch }) => {
                                seen.push(format!("get {with_token} {touch:?}"));
                                seen.extend(keys.map(|key| format!("key {key:?}")));
                                in_get = !complete;
                            }
                            _ => seen.push(format!("{request:?}")),
                        }
                        match request {
                            Request::Store(Store { value_len, .. })
                            | Request::MetaStore(MetaStore { value_len, .. }) => {
                                swallow = value_len as usize + body::TERMINATOR_LEN;
                            }
                            _ => {}
                        }
                    }
                    Step::Invalid { reply, consumed, then } => {
                        assert!(consumed <= have.len());
                        start += consumed;
                        seen.push(format!("{reply:?} {then:?}"));
                        match then {
                            Then::Continue => {}
                            Then::Swallow { bytes } => swallow = bytes as usize,
                            Then::Close => return (seen, start),
                        }
                    }
                }
            }
        }
    }
    (seen, start)
}

proptest! {
    #[test]
    fn the_same_bytes_are_the_same_requests_however_cut(
        input in input(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(events(&input, &cuts, &LIMITS), events(&input, &[], &LIMITS));
    }

    #[test]
    fn a_long_retrieval_has_the_same_keys_however_cut(
        lens in prop::collection::vec(1..250_usize, 30..120),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut input = b"gat 5".to_vec();
        for len in lens {
            input.push(b' ');
            input.extend(std::iter::repeat_n(b'k', len));
        }
        input.extend_from_slice(b"\r\nmn\r\n");
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = events(&input, &[], &LIMITS);
        prop_assert_eq!(whole.1, input.len());
        prop_assert_eq!(events(&input, &cuts, &LIMITS), whole);
    }
}

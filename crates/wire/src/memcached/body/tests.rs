use super::*;

#[test]
fn a_body_is_whole_malformed_or_partial() {
    assert_eq!(split(b"ab\r\nget", 2), Body::Whole { value: b"ab", consumed: 4 });
    assert_eq!(split(b"\r\n", 0), Body::Whole { value: b"", consumed: 2 });
    assert_eq!(split(b"a\r\n\r\n", 3), Body::Whole { value: b"a\r\n", consumed: 5 });
    for partial in [&b""[..], b"ab", b"ab\r"] {
        assert_eq!(split(partial, 2), Body::Partial);
    }
    for wrong in [&b"abcd"[..], b"ab\n\n", b"ab\rx", b"abx\n", b"ab\nx and more"] {
        assert_eq!(split(wrong, 2), Body::Malformed { consumed: 4 }, "{wrong:?}");
    }
}

/// Feeds `input` in pieces of `step` bytes; the value, the bytes taken and the final state.
fn stream(input: &[u8], value_len: u32, step: usize) -> (Vec<u8>, usize, InflowState) {
    let mut inflow = Inflow::new(value_len);
    let (mut value, mut taken, mut state) = (Vec::new(), 0, InflowState::Open);
    for piece in input.chunks(step) {
        if state != InflowState::Open {
            break;
        }
        let taken_now = inflow.take(piece);
        value.extend_from_slice(taken_now.value);
        taken += taken_now.consumed;
        state = taken_now.state;
        assert_eq!(inflow.left() as usize, value_len as usize + TERMINATOR_LEN - taken);
    }
    (value, taken, state)
}

#[test]
fn a_streamed_body_is_the_same_in_any_pieces() {
    let input = b"hello\r\nget a\r\n";
    for step in 1..=input.len() {
        let whole = (b"hello".to_vec(), 7, InflowState::Complete);
        assert_eq!(stream(input, 5, step), whole, "{step}");
        let cut = (b"hel".to_vec(), 5, InflowState::Malformed);
        assert_eq!(stream(input, 3, step), cut, "{step}");
        let open = (input.to_vec(), 14, InflowState::Open);
        assert_eq!(stream(input, 14, step), open, "{step}");
        assert_eq!(stream(&input[..6], 5, step), (b"hello".to_vec(), 6, InflowState::Open));
    }
}

#[test]
fn each_byte_of_the_line_end_counts() {
    for wrong in [&b"v\rx"[..], b"vx\n", b"v\n\r", b"v\n\n"] {
        for step in 1..=3 {
            assert_eq!(stream(wrong, 1, step).2, InflowState::Malformed, "{wrong:?}");
        }
    }
    assert_eq!(stream(b"\r\n", 0, 1), (vec![], 2, InflowState::Complete));
}

#[test]
fn a_bare_body_ends_with_its_value() {
    let mut inflow = Inflow::bare(5);
    assert_eq!(inflow.left(), 5);
    let first = inflow.take(b"hel");
    assert_eq!((first.value, first.consumed, first.state), (&b"hel"[..], 3, InflowState::Open));
    let last = inflow.take(b"lo\r\n");
    assert_eq!((last.value, last.consumed, last.state), (&b"lo"[..], 2, InflowState::Complete));
    assert_eq!(inflow.left(), 0);
}

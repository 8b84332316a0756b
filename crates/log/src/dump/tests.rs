use super::*;

fn entries() -> Vec<(Entry, Vec<u8>)> {
    let plain = Entry {
        key: Key::Bytes(b"user:42".to_vec()),
        flags: 0,
        expiry_ms: 0,
        token: 0,
        tags: Vec::new(),
        is_stale: false,
        is_recached: false,
    };
    let tags = [7_i32, -1].iter().flat_map(|half| half.to_le_bytes()).collect();
    let full = Entry {
        key: Key::Bytes(vec![0xff, 0, b'"']),
        flags: u32::MAX,
        expiry_ms: (1 << 48) - 1,
        token: u64::MAX,
        tags,
        is_stale: true,
        is_recached: true,
    };
    let number = Entry { key: Key::Integer(u64::MAX - 1), ..plain.clone() };
    vec![
        (plain.clone(), b"text with \"quotes\"\n".to_vec()),
        (full, vec![0x80; 100]),
        (number, Vec::new()),
        (plain, (0..=255).collect()),
    ]
}

fn written(form: Form, piece: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), form).unwrap();
    for (entry, value) in entries() {
        if piece == 0 {
            writer.write(&entry, &value).unwrap();
        } else {
            writer.begin(&entry, value.len() as u64).unwrap();
            value.chunks(piece).for_each(|piece| writer.push(piece).unwrap());
            writer.end().unwrap();
        }
    }
    assert_eq!(writer.records(), 4);
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>, DumpError> {
    let mut reader = Reader::new(bytes)?;
    let mut found = Vec::new();
    while let Some(Dumped { entry, value }) = reader.read()? {
        found.push((entry, value));
    }
    assert_eq!(reader.records(), found.len() as u64);
    Ok(found)
}

#[test]
fn records_come_back_in_both_forms_whole_and_in_pieces() {
    for form in [Form::Lines, Form::Binary] {
        for piece in [0, 1, 7, 1000] {
            let bytes = written(form, piece);
            assert_eq!(Reader::new(&bytes[..]).unwrap().form(), form);
            assert_eq!(read(&bytes).unwrap(), entries(), "{form:?} {piece}");
        }
    }
    let lines = String::from_utf8(written(Form::Lines, 0)).unwrap();
    let expected = "{\"key\":\"user:42\",\"value\":\"text with \\\"quotes\\\"\\n\"}";
    assert_eq!(lines.lines().next(), Some(expected));
    let second = lines.lines().nth(1).unwrap();
    let expected = "{\"key_base64\":\"/wAi\",\"flags\":4294967295,\"expiry_ms\":281474976710655,\
                    \"token\":18446744073709551615,\"tags\":[[7,-1]],\"stale\":true,\
                    \"recached\":true,\"value_base64\":\"";
    assert!(second.starts_with(expected), "{second}");
    assert_eq!(lines.lines().last(), Some("{\"records\":4}"));
}

#[test]
fn what_is_cut_off_or_damaged_is_named_by_its_place() {
    let binary = written(Form::Binary, 0);
    for bytes in 1..binary.len() {
        let error = read(&binary[..bytes]).expect_err("it is cut off");
        assert!(matches!(error, DumpError::Malformed { place: Place::Offset(_), .. }), "{bytes}");
    }
    for at in 0..binary.len() {
        let mut damaged = binary.clone();
        damaged[at] ^= 8;
        assert!(read(&damaged).is_err(), "byte {at}");
    }
    // The second record begins behind the first: 40 + 7 + 19 + 4.
    let mut damaged = binary;
    damaged[16 + 70 + 60] ^= 1;
    let error = read(&damaged).unwrap_err().to_string();
    assert_eq!(error, "offset 86: the checksum of the value is wrong");

    for (text, expected) in [
        ("{\"key\":\"a\",\"value\":\"1\"}\n\n{\"key\":\"b\"}\n", "line 3: one of `value` and"),
        ("{\"value\":\"1\"}", "line 1: one of `key`, `key_base64` and `integer` is needed"),
        ("{\"key\":\"a\",\"value\":\"1\",\"colour\":1}", "line 1: unknown field `colour`"),
        ("{\"key\":\"a\",\"value_base64\":\"x\"}", "line 1: `value_base64` is no base64"),
        ("{\"key\":\"a\",\"integer\":1,\"value\":\"\"}", "line 1: one of `key`"),
        ("{\"key\":\"\",\"value\":\"1\"}", "line 1: a key has 1 to 65535 bytes"),
        ("{\"records\":1}", "line 1: there should be 1 records, and 0 are"),
        ("{\"records\":0}\n{}", "line 1: something comes behind the end"),
        ("{\"records\":0,\"value\":\"\"}", "line 1: a record has no `records`"),
        ("not json", "line 1: expected ident"),
        ("KELVINDUmmmmmmmm", "offset 0: it is of version 1835887981"),
        ("KELVINXX", "offset 0: neither lines"),
    ] {
        let error = read(text.as_bytes()).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let (key, tags) = ("a".repeat(65_536), "[1,2],".repeat(4097));
    for text in [
        format!("{{\"key\":\"{key}\",\"value\":\"\"}}"),
        format!("{{\"integer\":1,\"tags\":[{}],\"value\":\"\"}}", tags.trim_end_matches(',')),
    ] {
        assert!(read(text.as_bytes()).is_err(), "{} bytes", text.len());
    }
    let mut reader = Reader::new(&b"{\"integer\":5,\"value\":\"1\"}"[..]).unwrap();
    assert!(reader.read().unwrap().is_some() && reader.read().unwrap().is_none());
    assert_eq!(reader.end(), Some(End::Unsaid));
}

#[test]
fn a_value_of_another_length_than_was_announced_is_refused() {
    let (entry, _) = entries().remove(0);
    for (announced, pieces) in [(3, 2), (1, 2)] {
        let mut writer = Writer::new(Vec::new(), Form::Binary).unwrap();
        writer.begin(&entry, announced).unwrap();
        let pushed: io::Result<()> = (0..pieces).try_for_each(|_| writer.push(b"x"));
        assert!(pushed.is_err() || writer.end().is_err(), "{announced} {pieces}");
    }
}

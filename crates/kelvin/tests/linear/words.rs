//! Commands in memcached's words, and what the answers say.

use std::ops::Range;

use histories::{Answer, Deed, Value};

/// In which of memcached's two ways a client speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Words {
    Text,
    /// Answers tell tokens.
    Meta,
}

/// A whole answer.
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    /// Where its value lies.
    pub(crate) value: Option<Range<usize>>,
    /// Its bytes.
    pub(crate) len: usize,
}

impl Words {
    /// Puts a command behind others.
    pub(crate) fn ask(self, name: &str, deed: &Deed, data: &[u8], request: &mut Vec<u8>) {
        let len = data.len();
        let line = match (self, deed) {
            (_, Deed::Flush) => "flush_all".to_owned(),
            (Self::Text, Deed::Get) => format!("gets {name}"),
            (Self::Text, Deed::Set(_)) => format!("set {name} 0 0 {len}"),
            (Self::Text, Deed::Add(_)) => format!("add {name} 0 0 {len}"),
            (Self::Text, Deed::Cas(token, _)) => format!("cas {name} 0 0 {len} {token}"),
            (Self::Text, Deed::Append(_)) => format!("append {name} 0 0 {len}"),
            (Self::Text, Deed::Incr(by)) => format!("incr {name} {by}"),
            (Self::Text, Deed::Delete) => format!("delete {name}"),
            (Self::Meta, Deed::Get) => format!("mg {name} v c k"),
            (Self::Meta, Deed::Set(_)) => format!("ms {name} {len} c k"),
            (Self::Meta, Deed::Add(_)) => format!("ms {name} {len} ME c k"),
            (Self::Meta, Deed::Cas(token, _)) => format!("ms {name} {len} C{token} c k"),
            (Self::Meta, Deed::Append(_)) => format!("ms {name} {len} MA c k"),
            (Self::Meta, Deed::Incr(by)) => format!("ma {name} D{by} v c k"),
            (Self::Meta, Deed::Delete) => format!("md {name} k"),
        };
        request.extend(line.bytes().chain(*b"\r\n"));
        if matches!(deed, Deed::Set(_) | Deed::Add(_) | Deed::Cas(..) | Deed::Append(_)) {
            request.extend(data.iter().chain(b"\r\n"));
        }
    }

    /// The first answer of what was received, if it is there as a whole, to a command of this key.
    pub(crate) fn take(self, received: &[u8], name: &str, deed: &Deed) -> Option<Reply> {
        let end = received.windows(2).position(|bytes| bytes == b"\r\n")?;
        let line = std::str::from_utf8(&received[..end]).expect("an answer is text");
        let mut words = line.split(' ');
        let code = words.next()?;
        let words: Vec<&str> = words.collect();
        let wrong = || panic!("to {deed:x?} of {name} this is no answer: {line}");
        let len = end + 2;
        let plain = |answer| Some(Reply { answer, value: None, len });
        let of_key = |answer| {
            // Where the answer has a key it is this one.
            if words.iter().any(|word| word.strip_prefix('k').is_some_and(|key| key != name)) {
                wrong();
            }
            plain(answer)
        };
        let token: Option<u64> = words.iter().find_map(|word| word.strip_prefix('c')?.parse().ok());
        match (self, code) {
            (Self::Text, "STORED") => plain(Answer::Stored(None)),
            (Self::Text, "NOT_STORED") => plain(Answer::NotStored),
            (Self::Text, "EXISTS") => plain(Answer::Exists),
            (Self::Text, "NOT_FOUND") => plain(Answer::NotFound),
            (Self::Text, "DELETED") => plain(Answer::Deleted),
            (_, "OK") if matches!(deed, Deed::Flush) => plain(Answer::Flushed),
            (Self::Text, "END") | (Self::Meta, "EN") => plain(Answer::Miss),
            (Self::Text, "VALUE") => {
                let &[key, "0", bytes, token] = &words[..] else { wrong() };
                if key != name {
                    wrong();
                }
                let value = len..len + bytes.parse::<usize>().expect("a number");
                let end = received.get(value.end..value.end + 7)?;
                assert_eq!(end, b"\r\nEND\r\n", "behind the value of {name}");
                let token = token.parse().expect("a token");
                let answer = Answer::Record(Value::of(&received[value.clone()]), Some(token));
                Some(Reply { answer, len: value.end + 7, value: Some(value) })
            }
            (Self::Meta, "HD") if matches!(deed, Deed::Delete) => of_key(Answer::Deleted),
            (Self::Meta, "HD") => of_key(Answer::Stored(Some(token.unwrap_or_else(|| wrong())))),
            (Self::Meta, "NS") => of_key(Answer::NotStored),
            (Self::Meta, "EX") => of_key(Answer::Exists),
            (Self::Meta, "NF") => of_key(Answer::NotFound),
            (Self::Meta, "VA") => {
                let bytes = words.first().and_then(|word| word.parse::<usize>().ok());
                let value = len..len + bytes.unwrap_or_else(|| wrong());
                let end = received.get(value.end..value.end + 2)?;
                assert_eq!(end, b"\r\n", "behind the value of {name}");
                of_key(Answer::Miss);
                let of = Value::of(&received[value.clone()]);
                let answer = match (deed, of) {
                    (Deed::Incr(_), Value::Number(number)) => Answer::Number(number, token),
                    (Deed::Get, _) => Answer::Record(of, Some(token.unwrap_or_else(|| wrong()))),
                    _ => wrong(),
                };
                Some(Reply { answer, len: value.end + 2, value: Some(value) })
            }
            (_, "SERVER_ERROR") => plain(Answer::Failed),
            (Self::Text, _) if matches!(deed, Deed::Incr(_)) => {
                let number = code.parse().unwrap_or_else(|_| wrong());
                plain(Answer::Number(number, None))
            }
            _ => wrong(),
        }
    }
}

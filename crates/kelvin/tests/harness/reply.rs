//! Replies of the text and meta protocols, cut into lines and data blocks.

/// A line of a reply with the data block that it announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The line with its end; without one, the reply is incomplete.
    pub(crate) line: &'a [u8],
    /// The data block with the CRLF behind it, as much as came; empty for most lines.
    pub(crate) data: &'a [u8],
}

/// The entries of a reply, in order.
pub(crate) fn entries(reply: &[u8]) -> Vec<Entry<'_>> {
    let mut all = Vec::new();
    let mut rest = reply;
    while !rest.is_empty() {
        let end = rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        let announced = data_bytes(line).map_or(0, |length| length + 2);
        let (data, after) = after.split_at(after.len().min(announced));
        all.push(Entry { line, data });
        rest = after;
    }
    all
}

/// How many bytes of data follow a line, without the CRLF behind them.
fn data_bytes(line: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.split_ascii_whitespace();
    match words.next()? {
        "VALUE" => words.nth(2)?.parse().ok(),
        "VA" => words.next()?.parse().ok(),
        _ => None,
    }
}

/// The parts of a line that servers choose, by what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Must be equal.
    Text(&'a [u8]),
    /// A CAS token.
    Token(u64),
    /// Seconds that remain.
    Ttl(i64),
    /// Seconds since something was done to the record.
    Age(u64),
    /// Internals of a server: a name with its equals sign, and the value.
    Internal(&'a [u8], &'a [u8]),
}

/// Cuts a line into words and the bytes between them, and says what each word is.
pub(crate) fn parts(line: &[u8]) -> Vec<Part<'_>> {
    let mut all = Vec::new();
    let first = line.split(|b| b" \r\n".contains(b)).next().unwrap_or(line);
    let mut start = 0;
    let mut index = 0;
    while start < line.len() {
        let is_gap = |b: &u8| b" \r\n".contains(b);
        let gap = line[start..].iter().take_while(|b| is_gap(b)).count();
        if gap > 0 {
            all.push(Part::Text(&line[start..start + gap]));
            start += gap;
            continue;
        }
        let length = line[start..].iter().take_while(|b| !is_gap(b)).count();
        word(first, index, &line[start..start + length], &mut all);
        start += length;
        index += 1;
    }
    all
}

/// Reply codes of meta commands, which carry flags.
const META: [&[u8]; 6] = [b"HD", b"VA", b"EX", b"NS", b"NF", b"EN"];

fn word<'a>(first: &[u8], index: usize, word: &'a [u8], all: &mut Vec<Part<'a>>) {
    let is_meta = META.contains(&first) && index > 0;
    let is_dump = first.starts_with(b"key=");
    let is_debug = first == b"ME" || is_dump;
    let name_bytes = word.iter().position(|&b| b == b'=').map_or(0, |at| at + 1);
    let (name, value) = word.split_at(name_bytes);
    match (word[0], name) {
        _ if first == b"VALUE" && index == 4 => token(word, 0, all),
        (b'c', _) if is_meta => token(word, 1, all),
        (b't', _) if is_meta => ttl(word, 1, all),
        (b'l', _) if is_meta => age(word, 1, all),
        (_, b"cas=") if is_debug && !is_dump => token(word, name_bytes, all),
        (_, b"exp=") if is_debug => ttl(word, name_bytes, all),
        (_, b"la=") if is_debug && !is_dump => age(word, name_bytes, all),
        (_, b"la=" | b"cls=" | b"size=" | b"cas=") if is_debug && !value.is_empty() => {
            all.push(Part::Internal(name, value));
        }
        _ => all.push(Part::Text(word)),
    }
}

fn token<'a>(word: &'a [u8], skip: usize, all: &mut Vec<Part<'a>>) {
    number(word, skip, Part::Token, all);
}

fn ttl<'a>(word: &'a [u8], skip: usize, all: &mut Vec<Part<'a>>) {
    number(word, skip, Part::Ttl, all);
}

fn age<'a>(word: &'a [u8], skip: usize, all: &mut Vec<Part<'a>>) {
    number(word, skip, Part::Age, all);
}

fn number<'a, T: std::str::FromStr>(
    word: &'a [u8],
    skip: usize,
    part: fn(T) -> Part<'a>,
    all: &mut Vec<Part<'a>>,
) {
    match std::str::from_utf8(&word[skip..]).map(str::parse) {
        Ok(Ok(number)) => all.extend([Part::Text(&word[..skip]), part(number)]),
        _ => all.push(Part::Text(word)),
    }
}

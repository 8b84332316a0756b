//! A record as a line of JSON.

use serde::{Deserialize, Serialize};

use super::{Dumped, Entry, KEY_BYTES_MAX, Key, TAGS_BYTES_MAX, VALUE_BYTES_MAX, base64};

/// The most bytes of a line: the longest value in base64, a key and tags of which every letter is
/// escaped, and names.
pub(super) const LINE_BYTES_MAX: u64 =
    (VALUE_BYTES_MAX / 3 + 1) * 4 + 6 * KEY_BYTES_MAX as u64 + TAGS_BYTES_MAX as u64 * 4 + 4096;

/// What stands in a line. The value comes last, so that it can be written piece by piece.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    integer: Option<u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    flags: u32,
    #[serde(default, skip_serializing_if = "is_nought")]
    expiry_ms: u64,
    #[serde(default, skip_serializing_if = "is_nought")]
    token: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<[i32; 2]>,
    #[serde(default, skip_serializing_if = "is_not")]
    stale: bool,
    #[serde(default, skip_serializing_if = "is_not")]
    recached: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    /// Of the last line only: how many records there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_nought(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_not(is: &bool) -> bool {
    !is
}

/// What a line says.
#[derive(Debug)]
pub(super) enum Said {
    Record(Dumped),
    /// These were all, so many.
    End(u64),
}

impl Line {
    /// The line of an entry, without its value.
    pub(super) fn of(entry: &Entry) -> Self {
        let mut line = Self {
            flags: entry.flags,
            expiry_ms: entry.expiry_ms,
            token: entry.token,
            stale: entry.is_stale,
            recached: entry.is_recached,
            ..Self::default()
        };
        match &entry.key {
            Key::Integer(key) => line.integer = Some(*key),
            Key::Bytes(key) => match String::from_utf8(key.clone()) {
                Ok(text) => line.key = Some(text),
                Err(_) => line.key_base64 = Some(encode(key)),
            },
        }
        line.tags = entry.tags.chunks_exact(8).map(tag).collect();
        line
    }

    /// The line behind the last record.
    pub(super) fn end(records: u64) -> Self {
        Self { records: Some(records), ..Self::default() }
    }

    fn is_end(&self) -> bool {
        let has_key = self.key.is_some() || self.key_base64.is_some() || self.integer.is_some();
        let has_value = self.value.is_some() || self.value_base64.is_some();
        let is_marked = self.stale || self.recached || !self.tags.is_empty();
        !has_key
            && !has_value
            && !is_marked
            && (self.flags, self.expiry_ms, self.token) == (0, 0, 0)
    }

    fn said(self) -> Result<Said, String> {
        if let Some(records) = self.records {
            let is_end = self.is_end();
            return is_end.then_some(Said::End(records)).ok_or("a record has no `records`".into());
        }
        let key = match (self.key, self.key_base64, self.integer) {
            (Some(key), None, None) => Key::Bytes(key.into_bytes()),
            (None, Some(key), None) => Key::Bytes(decode("key_base64", &key)?),
            (None, None, Some(key)) => Key::Integer(key),
            _ => return Err("one of `key`, `key_base64` and `integer` is needed".to_owned()),
        };
        let value = match (self.value, self.value_base64) {
            (Some(value), None) => value.into_bytes(),
            (None, Some(value)) => decode("value_base64", &value)?,
            _ => return Err("one of `value` and `value_base64` is needed".to_owned()),
        };
        let key_bytes = if let Key::Bytes(key) = &key { key.len() } else { 8 };
        if !(1..=KEY_BYTES_MAX).contains(&key_bytes) {
            return Err(format!("a key has 1 to {KEY_BYTES_MAX} bytes, and this one {key_bytes}"));
        }
        let (tags, most) = (self.tags.len(), TAGS_BYTES_MAX / 8);
        if tags > most || value.len() as u64 > VALUE_BYTES_MAX {
            return Err(format!("more than {most} tags, or {VALUE_BYTES_MAX} bytes of value"));
        }
        let halves = self.tags.iter().flatten();
        let entry = Entry {
            key,
            flags: self.flags,
            expiry_ms: self.expiry_ms,
            token: self.token,
            tags: halves.flat_map(|half| half.to_le_bytes()).collect(),
            is_stale: self.stale,
            is_recached: self.recached,
        };
        Ok(Said::Record(Dumped { entry, value }))
    }
}

fn tag(bytes: &[u8]) -> [i32; 2] {
    let half = |at: usize| {
        i32::from_le_bytes(std::array::from_fn(|byte| bytes.get(at + byte).copied().unwrap_or(0)))
    };
    [half(0), half(4)]
}

fn encode(bytes: &[u8]) -> String {
    let mut encoder = base64::Encoder::default();
    let mut out = encoder.push(bytes);
    out.extend(encoder.end());
    out.into_iter().map(char::from).collect()
}

fn decode(name: &str, text: &str) -> Result<Vec<u8>, String> {
    base64::decode(text.as_bytes()).ok_or_else(|| format!("`{name}` is no base64"))
}

/// Reads a line, without the end of it.
pub(super) fn parse(line: &[u8]) -> Result<Said, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    line.said()
}

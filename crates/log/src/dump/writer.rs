//! Writing records.

use std::io::{self, Write};

use super::{Entry, Form, base64, binary, lines::Line};

/// Writes records, each begun, its value piece by piece, and ended.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    form: Form,
    records: u64,
    value: Value,
}

/// How the value that is being written is.
#[derive(Debug)]
enum Value {
    None,
    /// A string of JSON.
    Base64(base64::Encoder),
    /// Bytes of which so many are to come, and their checksum so far.
    Bytes(u64, u32),
}

impl<W: Write> Writer<W> {
    /// Begins.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(mut out: W, form: Form) -> io::Result<Self> {
        if form == Form::Binary {
            out.write_all(&binary::header())?;
        }
        Ok(Self { out, form, records: 0, value: Value::None })
    }

    /// How many records were written.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes a record whose value is in memory.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, entry: &Entry, value: &[u8]) -> io::Result<()> {
        if let (Form::Lines, Ok(text)) = (self.form, std::str::from_utf8(value)) {
            self.begin_line(entry)?;
            self.out.write_all(b",\"value\":")?;
            serde_json::to_writer(&mut self.out, text)?;
            self.records += 1;
            return self.out.write_all(b"}\n");
        }
        self.begin(entry, value.len() as u64)?;
        self.push(value)?;
        self.end()
    }

    /// Begins a record whose value has so many bytes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(&mut self, entry: &Entry, value_bytes: u64) -> io::Result<()> {
        match self.form {
            Form::Lines => {
                self.begin_line(entry)?;
                self.out.write_all(b",\"value_base64\":\"")?;
                self.value = Value::Base64(base64::Encoder::default());
            }
            Form::Binary => {
                self.out.write_all(&binary::Front::encode(entry, value_bytes))?;
                self.value = Value::Bytes(value_bytes, 0);
            }
        }
        Ok(())
    }

    /// Writes the next piece of the value.
    ///
    /// # Errors
    /// When it cannot be written, or is more than was announced.
    pub fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        match &mut self.value {
            Value::Base64(encoder) => self.out.write_all(&encoder.push(piece)),
            Value::Bytes(left, crc) => {
                let more = left.checked_sub(piece.len() as u64);
                *left = more.ok_or_else(|| io::Error::other("the value is longer than it was"))?;
                *crc = crc32c::crc32c_append(*crc, piece);
                self.out.write_all(piece)
            }
            Value::None => Err(io::Error::other("no record was begun")),
        }
    }

    /// Ends the record.
    ///
    /// # Errors
    /// When it cannot be written, or the value is shorter than was announced.
    pub fn end(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.value, Value::None) {
            Value::Base64(mut encoder) => {
                self.out.write_all(&encoder.end())?;
                self.out.write_all(b"\"}\n")?;
            }
            Value::Bytes(0, crc) => self.out.write_all(&crc.to_le_bytes())?,
            Value::Bytes(..) | Value::None => {
                return Err(io::Error::other("the value is shorter than it was"));
            }
        }
        self.records += 1;
        Ok(())
    }

    /// Says that these were all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        match self.form {
            Form::Lines => {
                serde_json::to_writer(&mut self.out, &Line::end(self.records))?;
                self.out.write_all(b"\n")?;
            }
            Form::Binary => self.out.write_all(&binary::Front::end(self.records))?,
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// All of a line but its value and what closes it.
    fn begin_line(&mut self, entry: &Entry) -> io::Result<()> {
        let line = serde_json::to_vec(&Line::of(entry))?;
        self.out.write_all(&line[..line.len() - 1])
    }
}

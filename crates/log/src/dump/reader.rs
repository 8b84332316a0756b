//! Reading records, in whichever form they are.

use std::io::{self, BufRead, Read as _};

use super::{
    DumpError, Dumped, End, Form, Place,
    binary::{FRONT_BYTES, Front, HEADER_BYTES, MAGIC, VERSION, header},
    lines::{self, LINE_BYTES_MAX, Said},
};

/// Reads records one after the other.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    form: Form,
    /// The line, or the byte, where the next record begins.
    at: u64,
    records: u64,
    end: Option<End>,
}

impl<R: BufRead> Reader<R> {
    /// Finds out which form it is.
    ///
    /// # Errors
    /// When nothing can be read, or it is of another version.
    pub fn new(mut input: R) -> Result<Self, DumpError> {
        let failed = |source| DumpError::Io { place: Place::Offset(0), source };
        let is_binary = input.fill_buf().map_err(failed)?.first() == Some(&MAGIC[0]);
        let mut reader = Self { input, form: Form::Lines, at: 1, records: 0, end: None };
        if is_binary {
            reader.form = Form::Binary;
            reader.at = 0;
            let bytes = reader.bytes(HEADER_BYTES as u64)?;
            if bytes != header() {
                let is_ours = bytes.starts_with(&MAGIC);
                let version = bytes.get(8..12).and_then(|bytes| bytes.try_into().ok());
                let version = version.map_or(0, u32::from_le_bytes);
                return Err(reader.malformed(if is_ours && version != VERSION {
                    format!("it is of version {version}, and this program knows version {VERSION}")
                } else {
                    "neither lines of JSON nor the binary form".to_owned()
                }));
            }
            reader.at = HEADER_BYTES as u64;
        }
        Ok(reader)
    }

    /// Which form it is.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Where the next record begins.
    #[must_use]
    pub fn place(&self) -> Place {
        match self.form {
            Form::Lines => Place::Line(self.at),
            Form::Binary => Place::Offset(self.at),
        }
    }

    /// How many records were read.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whether these were all, when there are no more.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// When there is none, with where it should begin.
    pub fn read(&mut self) -> Result<Option<Dumped>, DumpError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let record = match self.form {
            Form::Lines => self.read_line()?,
            Form::Binary => self.read_bytes()?,
        };
        self.records += u64::from(record.is_some());
        Ok(record)
    }

    fn read_line(&mut self) -> Result<Option<Dumped>, DumpError> {
        loop {
            let mut line = Vec::new();
            let read = self.input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
            read.map_err(|source| self.failed(source))?;
            if line.is_empty() {
                self.end = Some(End::Unsaid);
                return Ok(None);
            }
            if line.len() as u64 > LINE_BYTES_MAX {
                return Err(self.malformed(format!("longer than {LINE_BYTES_MAX} bytes")));
            }
            if line.trim_ascii().is_empty() {
                self.at += 1;
                continue;
            }
            let said = lines::parse(&line).map_err(|what| self.malformed(what))?;
            match said {
                Said::Record(record) => {
                    self.at += 1;
                    return Ok(Some(record));
                }
                Said::End(records) => {
                    self.check_end(records)?;
                    return Ok(None);
                }
            }
        }
    }

    fn read_bytes(&mut self) -> Result<Option<Dumped>, DumpError> {
        let mut bytes = self.bytes(FRONT_BYTES as u64)?;
        let Ok(front) = <&[u8; FRONT_BYTES]>::try_from(&bytes[..]) else {
            return Err(self.malformed("it is cut off".to_owned()));
        };
        let front = Front::parse(front).map_err(|what| self.malformed(what.to_owned()))?;
        if let Some(records) = front.records() {
            if !front.is_stamped(&bytes) {
                return Err(self.malformed("the checksum is wrong".to_owned()));
            }
            self.check_end(records)?;
            return Ok(None);
        }
        bytes.extend(self.bytes((front.tags_bytes + front.key_bytes) as u64)?);
        if bytes.len() < FRONT_BYTES + front.tags_bytes + front.key_bytes {
            return Err(self.malformed("it is cut off".to_owned()));
        }
        let entry = front.entry(&bytes).map_err(|what| self.malformed(what.to_owned()))?;
        let value = self.bytes(front.value_bytes)?;
        let crc = self.bytes(4)?;
        match <[u8; 4]>::try_from(&crc[..]) {
            Err(_) => return Err(self.malformed("it is cut off".to_owned())),
            Ok(crc) if u32::from_le_bytes(crc) != crc32c::crc32c(&value) => {
                return Err(self.malformed("the checksum of the value is wrong".to_owned()));
            }
            Ok(_) => {}
        }
        self.at += (bytes.len() + value.len() + crc.len()) as u64;
        Ok(Some(Dumped { entry, value }))
    }

    /// These were all; nothing may come behind.
    fn check_end(&mut self, records: u64) -> Result<(), DumpError> {
        if records != self.records {
            let what = format!("there should be {records} records, and {} are", self.records);
            return Err(self.malformed(what));
        }
        let place = self.place();
        let behind = self.input.fill_buf().map_err(|source| DumpError::Io { place, source })?;
        if !behind.is_empty() {
            return Err(self.malformed("something comes behind the end".to_owned()));
        }
        self.end = Some(End::Whole);
        Ok(())
    }

    /// So many bytes, or what there is. Takes memory for what has come, and not for what is said.
    fn bytes(&mut self, count: u64) -> Result<Vec<u8>, DumpError> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(count).read_to_end(&mut bytes);
        read.map_err(|source| self.failed(source))?;
        Ok(bytes)
    }

    fn failed(&self, source: io::Error) -> DumpError {
        DumpError::Io { place: self.place(), source }
    }

    fn malformed(&self, what: String) -> DumpError {
        DumpError::Malformed { place: self.place(), what }
    }
}

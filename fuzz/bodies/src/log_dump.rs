//! Records outside of a log, in both forms.

use log::dump::{DumpError, Dumped, End, Form, Reader, Writer};

/// Reads any bytes. Records that were read are, written in either form, read again as what they
/// are; what is no record is named by its place.
///
/// # Panics
/// When it is not so.
pub fn body(data: &[u8]) {
    let (records, outcome) = read(data);
    if let Err(error) = outcome {
        assert!(!error.to_string().is_empty());
    }
    for form in [Form::Lines, Form::Binary] {
        let mut writer = Writer::new(Vec::new(), form).expect("memory takes it");
        for Dumped { entry, value } in &records {
            writer.write(entry, value).expect("memory takes it");
        }
        let bytes = writer.finish().expect("memory takes it");
        let (again, outcome) = read(&bytes);
        assert_eq!(again, records, "{form:?}");
        assert!(matches!(outcome, Ok(Some(End::Whole))), "{form:?}: {outcome:?}");
    }
}

fn read(data: &[u8]) -> (Vec<Dumped>, Result<Option<End>, DumpError>) {
    let mut records = Vec::new();
    let mut reader = match Reader::new(data) {
        Ok(reader) => reader,
        Err(error) => return (records, Err(error)),
    };
    loop {
        match reader.read() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return (records, Ok(reader.end())),
            Err(error) => return (records, Err(error)),
        }
    }
}

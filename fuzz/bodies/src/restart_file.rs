//! The file that keeps records over a restart.

use server::restart::Reader;

/// Reads the file to its end or to the first flaw. What is read are whole records: as many bytes of
/// value as each announces, and never more records than the file says.
///
/// # Panics
/// When it is not so.
pub fn body(data: &[u8]) {
    let mut reader = match Reader::new(data) {
        Ok(reader) => reader,
        Err(flaw) => {
            assert!(!flaw.to_string().is_empty());
            return;
        }
    };
    let mut records = 0;
    let outcome = loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                assert!((1..=250).contains(&record.key.len()), "a key has a length");
                let mut len = 0;
                let value = reader.value(record.value_len, |slice| {
                    assert!(!slice.is_empty(), "a slice has bytes");
                    len += slice.len();
                });
                if let Err(flaw) = value {
                    break Err(flaw);
                }
                assert_eq!(len, record.value_len as usize);
                records += 1;
            }
            Ok(None) => break Ok(()),
            Err(flaw) => break Err(flaw),
        }
    };
    assert!(reader.position() <= data.len() as u64, "no more is read than there is");
    match outcome {
        Ok(()) => assert_eq!(records, reader.records()),
        Err(flaw) => assert!(!flaw.to_string().is_empty()),
    }
}

//! One key of a log to which nothing else happens meanwhile.

use log::{
    engine::{Fetched, Get, Reading},
    error::Error,
    plan::{Action, Buffer, Failure, Outcome},
};

use super::{Log, client};

/// What a log shows of a key; it is read with `perform`.
pub(crate) fn value_of(
    log: &mut Log,
    key: u64,
    now_ms: u64,
    perform: &mut dyn FnMut(Action) -> Outcome,
) -> Result<Option<Vec<u8>>, Error> {
    let got = match log.get(&client::name(key), now_ms) {
        // The range has not grown to such a key.
        Err(Error::Key(_)) => return Ok(None),
        got => got?,
    };
    let (mut whole, parts) = match got {
        Get::Absent { .. } | Get::Wait => return Ok(None),
        Get::Memory { stored, .. } => {
            (stored.value, stored.parts.map_or(Vec::new(), |spread| log.all_parts(&spread)))
        }
        Get::Read(reading) => {
            let bytes = read(&reading, perform)?;
            match reading.finish(&bytes)? {
                Fetched::Value(record) | Fetched::Head(record, _)
                    if record.expiry_ms != 0 && record.expiry_ms <= now_ms =>
                {
                    return Ok(None);
                }
                Fetched::Value(record) => (record.value.to_vec(), Vec::new()),
                Fetched::Head(_, parts) => {
                    let spread = log.parts(&reading, &parts)?;
                    (Vec::new(), log.all_parts(&spread))
                }
                Fetched::Part(_) => (Vec::new(), Vec::new()),
            }
        }
    };
    for reading in parts {
        let bytes = read(&reading, perform)?;
        if let Fetched::Part(part) = reading.finish(&bytes)? {
            whole.extend_from_slice(part);
        }
    }
    Ok(Some(whole))
}

fn read(reading: &Reading, perform: &mut dyn FnMut(Action) -> Outcome) -> Result<Vec<u8>, Error> {
    match perform(reading.action(Buffer::new(reading.bytes()))) {
        Outcome::Read(buffer, count) => Ok(buffer.as_slice()[..count].to_vec()),
        Outcome::Failed(failure, _) => Err(reading.failed(failure)),
        _ => Err(reading.failed(Failure::NotFound)),
    }
}

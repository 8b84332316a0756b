//! What a client can ask for, and the form that each operation must have.

use super::super::{expiry::Expiry, request::Direction};
use super::header::{Frame, HEADER_BYTES, Header};
use super::reply::Status;
use super::{LOGIN_BYTES_MAX, MECHANISM_LEN_MAX, Refusal, Step};

/// One request, borrowing from the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What its reply repeats.
    pub frame: Frame,
    /// Whether success, or for a retrieval a miss, is not worth a reply. Errors always are.
    pub quiet: bool,
    /// What to do.
    pub command: Command<'a>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command<'a> {
    /// Get, GetK, GAT, GATK.
    Get(Get<'a>),
    /// Touch: like GAT without the value.
    Touch {
        /// The key.
        key: &'a [u8],
        /// The new expiration time.
        expiry: Expiry,
    },
    /// Set, Add, Replace, Append, Prepend. The value follows.
    Store(Store<'a>),
    /// Delete.
    Delete {
        /// The key.
        key: &'a [u8],
        /// The token that the record must have; 0 for any.
        token: u64,
    },
    /// Increment, Decrement.
    Arithmetic {
        /// The key.
        key: &'a [u8],
        /// Add or subtract.
        direction: Direction,
        /// By how much.
        delta: u64,
        /// What to create if there is no record; `None` for nothing.
        create: Option<Create>,
        /// The token that the record must have; 0 for any.
        token: u64,
    },
    /// Flush.
    Flush {
        /// When; [`Expiry::Never`] stands for at once.
        at: Expiry,
    },
    /// Noop: answer, and write out all replies that wait.
    Noop,
    /// Version.
    Version,
    /// Quit: write out what waits, then close.
    Quit,
    /// Stat.
    Stat {
        /// The report; empty for the general one.
        name: &'a [u8],
    },
    /// SASL list mechanisms.
    Mechanisms,
    /// SASL authenticate and step.
    Login {
        /// The mechanism.
        mechanism: &'a [u8],
        /// What the mechanism has to say.
        message: &'a [u8],
        /// Whether a login begins here, or goes on.
        begins: bool,
    },
}

/// A retrieval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Give the key back.
    pub with_key: bool,
    /// Set this expiration time on the record.
    pub touch: Option<Expiry>,
}

/// A number for a key that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Create {
    /// The number.
    pub number: u64,
    /// Its expiration time.
    pub expiry: Expiry,
}

/// A storage command. The `value_len` bytes behind it are its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// What its reply repeats.
    pub frame: Frame,
    /// Whether success is not worth a reply.
    pub quiet: bool,
    /// The key.
    pub key: &'a [u8],
    /// Under which condition to store.
    pub verb: Verb,
    /// The token that the record must have; 0 for any. Any other replaces the verb's condition,
    /// but for append and prepend.
    pub token: u64,
    /// Opaque flags of the client. 0 for append and prepend.
    pub client_flags: u32,
    /// Expiration time. Without effect for append and prepend.
    pub expiry: Expiry,
    /// Bytes of the value. Not yet compared with what the server takes.
    pub value_len: u32,
}

/// Under which condition to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// In any case.
    Set,
    /// If the key has no record.
    Add,
    /// If the key has a record.
    Replace,
    /// Behind the value present.
    Append,
    /// Before the value present.
    Prepend,
}

/// An expiration time of `Arithmetic` that forbids to create a record.
const CREATES_NOTHING: u32 = u32::MAX;

/// The operation of an opcode, without what tells quiet ones apart, and whether it is quiet.
#[inline]
const fn operation(opcode: u8) -> (u8, bool) {
    match opcode {
        0x09 => (0x00, true),
        0x0d => (0x0c, true),
        0x11..=0x18 => (opcode - 0x10, true),
        0x19 | 0x1a => (opcode - 0x0b, true),
        0x1e => (0x1d, true),
        0x24 => (0x23, true),
        _ => (opcode, false),
    }
}

/// Reads the request with this header, of which extras and key are complete and `rest` is what
/// the input holds behind them.
#[inline]
pub(super) fn read<'a>(
    header: &Header,
    extras: &'a [u8],
    key: &'a [u8],
    rest: &'a [u8],
) -> Step<'a> {
    let (operation, quiet) = operation(header.frame.opcode);
    let head_bytes = HEADER_BYTES + extras.len() + key.len();
    let command = match operation {
        0x20..=0x22 => return read_login(header, operation, key, rest),
        _ => command(header, (operation, quiet), extras, key),
    };
    match command {
        Ok(command) => {
            let request = Request { frame: header.frame, quiet, command };
            Step::Request { request, consumed: head_bytes }
        }
        Err(Misfit::Unknown) => {
            refused(header, Status::UnknownCommand, Some(header.value_len()), head_bytes)
        }
        Err(Misfit::Form) => refused(header, Status::InvalidArguments, None, head_bytes),
    }
}

/// What is wrong with a request.
enum Misfit {
    /// There is no such operation.
    Unknown,
    /// It has too much or too little of something.
    Form,
}

fn refused<'a>(header: &Header, status: Status, swallow: Option<u32>, consumed: usize) -> Step<'a> {
    let refusal = Refusal { frame: header.frame, status, swallow, before_login: false };
    Step::Refused { refusal, consumed }
}

#[inline]
fn command<'a>(
    header: &Header,
    (operation, quiet): (u8, bool),
    extras: &'a [u8],
    key: &'a [u8],
) -> Result<Command<'a>, Misfit> {
    let has_value = header.value_len() > 0;
    let bare = !has_value && extras.is_empty() && key.is_empty();
    let plain_key = !has_value && extras.is_empty() && !key.is_empty();
    let keyed = !has_value && !key.is_empty();
    let token = header.token;
    let command = match operation {
        0x00 | 0x0c if plain_key => {
            Command::Get(Get { key, with_key: operation == 0x0c, touch: None })
        }
        0x1d | 0x23 if keyed => {
            let touch = Some(Expiry::from_unsigned_seconds(number(extras)?));
            Command::Get(Get { key, with_key: operation == 0x23, touch })
        }
        0x1c if keyed => {
            Command::Touch { key, expiry: Expiry::from_unsigned_seconds(number(extras)?) }
        }
        0x01..=0x03 | 0x0e..=0x0f if !key.is_empty() => {
            Command::Store(store(header, (operation, quiet), extras, key)?)
        }
        0x04 if plain_key => Command::Delete { key, token },
        0x05 | 0x06 if keyed => {
            let direction = if operation == 0x05 { Direction::Up } else { Direction::Down };
            let (delta, create) = arithmetic(extras)?;
            Command::Arithmetic { key, direction, delta, create, token }
        }
        0x08 if bare => Command::Flush { at: Expiry::Never },
        0x08 if key.is_empty() && !has_value => {
            Command::Flush { at: Expiry::from_unsigned_seconds(number(extras)?) }
        }
        0x07 if bare => Command::Quit,
        0x0a if bare => Command::Noop,
        0x0b if bare => Command::Version,
        0x10 if extras.is_empty() && !has_value => Command::Stat { name: key },
        0x00..=0x08 | 0x0a..=0x0c | 0x0e..=0x10 | 0x1c | 0x1d | 0x23 => return Err(Misfit::Form),
        _ => return Err(Misfit::Unknown),
    };
    Ok(command)
}

#[inline]
fn store<'a>(
    header: &Header,
    (operation, quiet): (u8, bool),
    extras: &[u8],
    key: &'a [u8],
) -> Result<Store<'a>, Misfit> {
    let verb = match operation {
        0x01 => Verb::Set,
        0x02 => Verb::Add,
        0x03 => Verb::Replace,
        0x0e => Verb::Append,
        _ => Verb::Prepend,
    };
    let (client_flags, expiry) = match (verb, extras.split_first_chunk()) {
        (Verb::Append | Verb::Prepend, None) if extras.is_empty() => (0, Expiry::Never),
        (Verb::Set | Verb::Add | Verb::Replace, Some((flags, expiry))) => {
            (u32::from_be_bytes(*flags), Expiry::from_unsigned_seconds(number(expiry)?))
        }
        _ => return Err(Misfit::Form),
    };
    let Header { frame, token, .. } = *header;
    let value_len = header.value_len();
    Ok(Store { frame, quiet, key, verb, token, client_flags, expiry, value_len })
}

/// Delta, and what to create.
fn arithmetic(extras: &[u8]) -> Result<(u64, Option<Create>), Misfit> {
    let (delta, rest) = extras.split_first_chunk().ok_or(Misfit::Form)?;
    let (initial, rest) = rest.split_first_chunk().ok_or(Misfit::Form)?;
    let expiry = number(rest)?;
    let create = (expiry != CREATES_NOTHING).then(|| Create {
        number: u64::from_be_bytes(*initial),
        expiry: Expiry::from_unsigned_seconds(expiry),
    });
    Ok((u64::from_be_bytes(*delta), create))
}

/// A number of four bytes that is all of `extras`.
#[inline]
fn number(extras: &[u8]) -> Result<u32, Misfit> {
    extras.try_into().map(u32::from_be_bytes).map_err(|_| Misfit::Form)
}

/// Reads a request about a login. Its message is its value.
#[cold]
fn read_login<'a>(header: &Header, operation: u8, key: &'a [u8], rest: &'a [u8]) -> Step<'a> {
    let head_bytes = HEADER_BYTES + header.extras_len + key.len();
    let lists = operation == 0x20;
    if header.extras_len > 0 || lists != key.is_empty() || lists && header.body_len > 0 {
        return refused(header, Status::InvalidArguments, None, head_bytes);
    }
    let message_len = header.value_len();
    if key.len() > MECHANISM_LEN_MAX {
        return refused(header, Status::InvalidArguments, Some(message_len), head_bytes);
    }
    let consumed = head_bytes + message_len as usize;
    if message_len as usize > LOGIN_BYTES_MAX {
        return refused(header, Status::OutOfMemory, Some(message_len), head_bytes);
    }
    let Some(message) = rest.get(..message_len as usize) else {
        return Step::Incomplete { needed: consumed };
    };
    let command = if lists {
        Command::Mechanisms
    } else {
        Command::Login { mechanism: key, message, begins: operation == 0x21 }
    };
    Step::Request { request: Request { frame: header.frame, quiet: false, command }, consumed }
}

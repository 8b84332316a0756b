//! Types of settings: how each is read from text and written as TOML.

mod delimiter;
mod driver;
mod listen_address;
mod memory_use;
mod protocol;
mod table;

use std::{fmt, path::PathBuf, str::FromStr};

use base::size::ByteSize;
use cache::PolicyKind;
use serde::{Deserialize, Deserializer, de};

use super::NET_THREADS_MAX;
pub use delimiter::Delimiter;
pub use driver::{IoMode, Spinning};
pub use listen_address::ListenAddress;
pub use memory_use::MemoryUse;
pub use protocol::Protocol;
pub use table::{Admission, TableKind, WriteMode};

/// Highest CPU number: the size of the system's CPU sets.
const CPU_MAX: usize = 1023;

/// Something that a setting can be.
pub trait Value: Sized {
    /// Reads the texts that were given: one, unless the setting can be given several times.
    ///
    /// # Errors
    /// Says what is wrong with them.
    fn read(texts: &[String]) -> Result<Self, String>;

    /// Writes a TOML value from which [`Value::read`] makes the same.
    fn write(&self) -> String;
}

/// The text of a setting that is given once.
pub(super) fn single(texts: &[String]) -> Result<&str, String> {
    match texts {
        [text] => Ok(text),
        _ => Err(format!("given {} times, expected once", texts.len())),
    }
}

pub(super) fn quoted(text: impl fmt::Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}

macro_rules! text_values {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn read(texts: &[String]) -> Result<Self, String> {
                single(texts)?.parse().map_err(|error| format!("{error}"))
            }

            fn write(&self) -> String {
                quoted(self)
            }
        }
    )+};
}

macro_rules! plain_values {
    ($($type:ty: $what:literal),+) => {$(
        impl Value for $type {
            fn read(texts: &[String]) -> Result<Self, String> {
                let text = single(texts)?;
                text.parse().map_err(|_| format!(concat!("`{}` is not ", $what), text))
            }

            fn write(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

text_values!(
    Admission, ByteSize, Delimiter, Duration, Mode, Threads, Cpus, IoMode, Spinning, LogLevel,
    MemoryUse, PolicyKind, Protocol, TableKind, WriteMode
);
plain_values!(
    u16: "a port", usize: "a whole number", u32: "a whole number", bool: "`true` or `false`"
);

impl Value for Option<PathBuf> {
    fn read(texts: &[String]) -> Result<Self, String> {
        let text = single(texts)?;
        if text.contains('\0') {
            return Err("a path cannot contain NUL".to_owned());
        }
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }

    fn write(&self) -> String {
        quoted(self.as_deref().unwrap_or("".as_ref()).display())
    }
}

impl Value for Vec<ListenAddress> {
    fn read(texts: &[String]) -> Result<Self, String> {
        let parts = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::parse).collect()
    }

    fn write(&self) -> String {
        let parts: Vec<String> = self.iter().map(quoted).collect();
        format!("[{}]", parts.join(", "))
    }
}

/// What TOML can hold for a setting. Numbers and truth values are read as their texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Raw {
    Text(String),
    Integer(i64),
    Bool(bool),
    List(Vec<Raw>),
}

impl Raw {
    fn texts(self) -> Result<Vec<String>, &'static str> {
        match self {
            Self::Text(text) => Ok(vec![text]),
            Self::Integer(number) => Ok(vec![number.to_string()]),
            Self::Bool(truth) => Ok(vec![truth.to_string()]),
            Self::List(list) => {
                let texts: Result<Vec<_>, _> = list.into_iter().map(Self::texts).collect();
                Ok(texts?.concat())
            }
        }
    }
}

/// Reads a setting of the file.
pub(super) fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Value,
{
    let raw = Raw::deserialize(deserializer).map_err(|_| {
        de::Error::custom("expected a text, a whole number, a truth value or a list")
    })?;
    let texts = raw.texts().map_err(de::Error::custom)?;
    T::read(&texts).map(Some).map_err(de::Error::custom)
}

/// A time in milliseconds that reads and prints with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration(pub u64);

/// Largest first; their texts must not be read by an earlier one's.
const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a time: write a whole number and ms, s, m, h or d");
        let text = text.trim();
        let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.trim();
        if number == 0 && unit.is_empty() {
            return Ok(Self(0));
        }
        let (_, unit_ms) =
            TIME_UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        number.checked_mul(unit_ms).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let (name, unit_ms) = TIME_UNITS
            .into_iter()
            .find(|(_, unit_ms)| self.0.is_multiple_of(*unit_ms))
            .expect("invariant: the last unit divides everything");
        write!(f, "{}{name}", self.0 / unit_ms)
    }
}

/// Permission bits, written in octal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match u32::from_str_radix(text, 8) {
            Ok(mode) if digits && mode <= 0o777 => Ok(Self(mode)),
            _ => {
                Err(format!("`{text}` is not a mode: write up to three octal digits, such as 700"))
            }
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:o}", self.0)
    }
}

/// A number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// As many as there are CPUs to run on.
    Auto,
    /// This many.
    Count(usize),
}

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(count) if (1..=NET_THREADS_MAX).contains(&count) => Ok(Self::Count(count)),
            _ => Err(format!("`{text}` is not a number from 1 to {NET_THREADS_MAX} or `auto`")),
        }
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

/// CPUs by number, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus(pub Vec<usize>);

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a list of CPUs from 0 to {CPU_MAX}: write it like 0-3,8");
        let number = |text: &str| match text.trim().parse() {
            Ok(cpu) if cpu <= CPU_MAX => Ok(cpu),
            _ => Err(wrong()),
        };
        let mut cpus = Vec::new();
        for part in text.split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            for cpu in first..=last {
                if cpus.contains(&cpu) {
                    return Err(format!("`{text}` names CPU {cpu} twice"));
                }
                cpus.push(cpu);
            }
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|one, next| one + 1 == *next);
        for (i, run) in runs.enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match run {
                [cpu] => write!(f, "{comma}{cpu}")?,
                run => write!(f, "{comma}{}-{}", run[0], run[run.len() - 1])?,
            }
        }
        Ok(())
    }
}

/// The least important events that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// What ends the server or loses its work.
    Error,
    /// What an operator should look at.
    Warn,
    /// Changes of state.
    Info,
    /// For its developers.
    Debug,
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            _ => Err(format!("`{text}` is not one of error, warn, info, debug")),
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        })
    }
}

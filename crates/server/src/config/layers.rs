//! Putting the sources together.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use super::{Config, SETTINGS, Setting, TABLES, Values};
use crate::Error;

/// Where a value comes from, weakest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment,
    /// A flag.
    Flag,
    /// An option of memcached's command line.
    Memcached,
}

impl Origin {
    /// What an operator would look for to change `setting`.
    fn describe(&self, setting: &Setting) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File(path) => format!("file {}", path.display()),
            Self::Environment => format!("environment {}", setting.variable()),
            Self::Flag => format!("flag --{}", setting.flag()),
            Self::Memcached => "memcached's options".to_owned(),
        }
    }
}

/// What one source says, and which source it is.
#[derive(Clone, Debug)]
pub struct Layer {
    origin: Origin,
    values: Values,
}

impl Layer {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`Error::ReadConfig`] when it cannot be read, and what [`Layer::from_toml`] says.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::ReadConfig { path: path.to_owned(), source })?;
        Self::from_toml(path, &text)
    }

    /// Reads `text`, the content of the file at `path`.
    ///
    /// # Errors
    /// [`Error::ParseConfig`] with the line: it is not TOML, or has a key that is no setting, or
    /// a value that cannot be one.
    pub fn from_toml(path: &Path, text: &str) -> Result<Self, Error> {
        let values = toml::from_str(text).map_err(|source| Error::ParseConfig {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        Ok(Self { origin: Origin::File(path.to_owned()), values })
    }

    /// Reads the variables of an environment. `variable` finds one by name.
    ///
    /// # Errors
    /// [`Error::Setting`] when one has a value that it cannot have.
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        Self::from_texts(Origin::Environment, |setting| {
            let Some(value) = variable(&setting.variable()) else { return Ok(None) };
            let text = value.into_string().map_err(|_| "it is not UTF-8".to_owned())?;
            Ok(Some(vec![text]))
        })
    }

    /// Reads flags. `flag` finds what was given for a setting, in order.
    ///
    /// # Errors
    /// [`Error::Setting`] when one has a value that it cannot have.
    pub fn from_flags(flag: impl Fn(&Setting) -> Option<Vec<String>>) -> Result<Self, Error> {
        Self::from_texts(Origin::Flag, |setting| Ok(flag(setting)))
    }

    /// Takes over what memcached's options mean as settings, by name.
    ///
    /// # Errors
    /// [`Error::Setting`] when one has a value that it cannot have.
    pub fn from_memcached(texts: &BTreeMap<&'static str, String>) -> Result<Self, Error> {
        debug_assert!(
            texts.keys().all(|name| SETTINGS.iter().any(|setting| setting.name == *name))
        );
        Self::from_texts(Origin::Memcached, |setting| {
            Ok(texts.get(setting.name).map(|text| vec![text.clone()]))
        })
    }

    fn from_texts(
        origin: Origin,
        texts: impl Fn(&Setting) -> Result<Option<Vec<String>>, String>,
    ) -> Result<Self, Error> {
        let mut values = Values::default();
        for setting in SETTINGS {
            let wrong = |message| Error::Setting { origin: origin.describe(setting), message };
            if let Some(texts) = texts(setting).map_err(wrong)? {
                values.set(setting.name, &texts).map_err(wrong)?;
            }
        }
        Ok(Self { origin, values })
    }
}

/// The configuration that results, with the origin of each value.
#[derive(Clone, Debug)]
pub struct Effective {
    config: Config,
    origins: BTreeMap<&'static str, Origin>,
}

impl Effective {
    /// Lays `layers` over the defaults, the strongest last, and checks the result.
    ///
    /// # Errors
    /// [`Error::Setting`] when values do not go together, [`Error::Memory`] when memory does not
    /// suffice.
    pub fn new(layers: impl IntoIterator<Item = Layer>) -> Result<Self, Error> {
        let mut config = Config::default();
        let mut origins = BTreeMap::new();
        for Layer { origin, values } in layers {
            values.apply(&mut config, |name| {
                origins.insert(name, origin.clone());
            });
        }
        if config.unix.is_some() && !origins.contains_key("listen") {
            config.listen.clear();
        }
        let effective = Self { config, origins };
        effective.check()?;
        Ok(effective)
    }

    /// The values.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where the value of `name` comes from.
    #[must_use]
    pub fn origin(&self, name: &str) -> &Origin {
        self.origins.get(name).unwrap_or(&Origin::Default)
    }

    /// The file that describes tables, if there are any.
    pub(super) fn tables_from(&self) -> Option<&Path> {
        match self.origins.get(TABLES)? {
            Origin::File(path) => Some(path),
            _ => None,
        }
    }

    /// What is wrong with the value of `name`.
    pub(super) fn wrong(&self, name: &'static str, message: impl Into<String>) -> Error {
        let setting = { SETTINGS.iter() }
            .find(|setting| setting.name == name)
            .expect("invariant: checks name settings");
        let origin = format!("{name}, {}", self.origin(name).describe(setting));
        Error::Setting { origin, message: message.into() }
    }
}

/// A TOML file with all values that has the same effect, each with its origin.
impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> =
            self.config.to_toml().iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let width = lines.iter().map(String::len).max().unwrap_or(0);
        for (line, setting) in lines.iter().zip(SETTINGS) {
            // A line end in a path must not end the comment.
            let origin = self.origin(setting.name).describe(setting).replace(char::is_control, "?");
            writeln!(f, "{line:width$}  # {origin}")?;
        }
        self.config.tables.iter().try_for_each(|table| f.write_str(&table.section()))
    }
}

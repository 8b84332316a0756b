//! Where a trace comes from: a file or a generator, as the command line names it.

use std::{
    fmt,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::Error;
use crate::{Compression, FORMATS, Format, REQUESTS_MAX, Synthetic, Trace, read};

/// Where a trace comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A file; its compression follows from its name.
    File {
        /// Where it is.
        path: PathBuf,
        /// What it holds.
        format: Format,
    },
    /// A generator.
    Synthetic(Synthetic),
}

impl Source {
    /// Reads or makes the trace. A seed repeats what is made.
    ///
    /// # Errors
    /// [`Error::Open`] and [`Error::Trace`].
    pub fn load(&self, seed: u64) -> Result<Trace, Error> {
        let (path, format) = match self {
            Self::Synthetic(synthetic) => return Ok(synthetic.generate(seed)),
            Self::File { path, format } => (path, *format),
        };
        let name = file_name(path);
        let (compression, _) = Compression::of_name(&name);
        let open = |source| Error::Open { path: path.clone(), source };
        let input = BufReader::new(File::open(path).map_err(open)?);
        read(&name, format, compression, input, REQUESTS_MAX)
            .map_err(|flaw| Error::Trace { path: path.clone(), flaw })
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => path.display().fmt(f),
            Self::Synthetic(synthetic) => synthetic.fmt(f),
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((kind, parameters)) = text.split_once(':') {
            if let Ok(format) = kind.parse() {
                return Ok(Self::File { path: parameters.into(), format });
            }
            if let Some(synthetic) = Synthetic::parse(kind, parameters) {
                return synthetic.map(Self::Synthetic);
            }
        }
        let path = PathBuf::from(text);
        let name = file_name(&path).to_ascii_lowercase();
        let format = Format::of_name(Compression::of_name(&name).1).ok_or_else(|| {
            let names: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
            format!("`{text}` does not say its format: write FORMAT:{text} ({})", names.join(", "))
        })?;
        Ok(Self::File { path, format })
    }
}

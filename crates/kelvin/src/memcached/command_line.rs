//! Taking a command line apart as POSIX and GNU describe it: `-vv`, `-p11211`, `-p 11211`,
//! `--port=11211`, `--port 11211`, names shortened as long as they are unambiguous, and words that
//! are no options passed over.

use super::{
    options::{Argument, OPTIONS, Row},
    refusal::Refusal,
};

/// An option that was given, and its argument; empty if it has none.
pub(super) type Given = (&'static Row, String);

/// The options in `arguments`, in order.
///
/// # Errors
/// There is no such option, or its argument is missing or too much.
pub(super) fn parse(arguments: &[String]) -> Result<Vec<Given>, Refusal> {
    let mut given = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            given.push(long_option(long, || words.next())?);
            continue;
        }
        let Some(mut letters) = word.strip_prefix('-') else { continue };
        while let Some(letter) = letters.chars().next() {
            letters = &letters[letter.len_utf8()..];
            let row = { OPTIONS.iter() }
                .find(|row| row.short == letter)
                .ok_or_else(|| illegal(&format!("invalid option -- '{letter}'")))?;
            let argument = match row.argument {
                Argument::Required(_) if letters.is_empty() => words.next().ok_or_else(|| {
                    illegal(&format!("option requires an argument -- '{letter}'"))
                })?,
                Argument::Required(_) => std::mem::take(&mut letters),
                Argument::None | Argument::LongOnly => "",
            };
            given.push((row, argument.trim_start().to_owned()));
        }
    }
    Ok(given)
}

fn long_option<'a>(
    text: &str,
    next: impl FnOnce() -> Option<&'a String>,
) -> Result<Given, Refusal> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let row = by_long_name(name)?;
    let argument = match (&row.argument, value) {
        (Argument::None, Some(_)) => {
            return Err(illegal(&format!("option '--{}' doesn't allow an argument", row.long)));
        }
        (Argument::Required(_), None) => next()
            .cloned()
            .ok_or_else(|| illegal(&format!("option '--{}' requires an argument", row.long)))?,
        (_, value) => value.unwrap_or_default().to_owned(),
    };
    Ok((row, argument.trim_start().to_owned()))
}

/// The option with this name, or the only one whose name begins so.
fn by_long_name(name: &str) -> Result<&'static Row, Refusal> {
    let mut named = OPTIONS.iter().filter(|row| !row.long.is_empty());
    if let Some(row) = named.clone().find(|row| row.long == name) {
        return Ok(row);
    }
    let mut starting = named.by_ref().filter(|row| row.long.starts_with(name));
    match (starting.next(), starting.next()) {
        (Some(row), None) => Ok(row),
        (None, _) => Err(illegal(&format!("unrecognized option '--{name}'"))),
        (Some(_), Some(_)) => Err(illegal(&format!("option '--{name}' is ambiguous"))),
    }
}

fn illegal(message: &str) -> Refusal {
    Refusal::failure(format!("memcached: {message}\nIllegal argument \"?\""))
}

#[cfg(test)]
mod tests {
    use super::{Refusal, parse};

    fn parsed(line: &str) -> Result<Vec<(char, String)>, Refusal> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let given = parse(&words)?;
        Ok(given.into_iter().map(|(row, argument)| (row.short, argument)).collect())
    }

    #[test]
    fn each_spelling_is_the_same_option() {
        for line in ["-p 7", "-p7", "--port=7", "--port 7", "--po 7"] {
            assert_eq!(parsed(line), Ok(vec![('p', "7".to_owned())]), "{line}");
        }
        let flags = |letters: &str| letters.chars().map(|letter| (letter, String::new())).collect();
        assert_eq!(
            parsed("-vvM word --verbose --verbose=2 -- -C").map(|all| all[..4].to_vec()),
            Ok(flags("vvMv"))
        );
        assert_eq!(parsed("-dm64"), Ok(vec![('d', String::new()), ('m', "64".to_owned())]));
    }

    #[test]
    fn what_is_no_option_is_refused() {
        for (line, message) in [
            ("-q", "invalid option -- 'q'"),
            ("-vq", "invalid option -- 'q'"),
            ("-p", "option requires an argument -- 'p'"),
            ("--port", "option '--port' requires an argument"),
            ("--daemon=1", "option '--daemon' doesn't allow an argument"),
            ("--memory 7", "option '--memory' is ambiguous"),
            ("--tls", "unrecognized option '--tls'"),
        ] {
            let refusal = parsed(line).expect_err(line);
            let said = format!("memcached: {message}\nIllegal argument \"?\"");
            assert_eq!((refusal.code, refusal.message), (1, said), "{line}");
        }
    }
}

//! What `-h`, `-i` and `-V` print.

use std::fmt::Write;

use super::{
    options::{Argument, OPTIONS, Page},
    suboptions::SUBOPTIONS,
};

/// Name and version of the memcached whose command line this is: scripts look at them.
const VERSION: &str = "memcached 1.6.45";

/// Width of the options in the help.
const OPTION_WIDTH: usize = 34;

/// Width of what is said about them.
const HELP_WIDTH: usize = 64;

/// The text of a page.
pub(super) fn text(page: Page) -> String {
    match page {
        Page::Help => help(),
        Page::Licence => format!(
            "{VERSION}\n\nThis is Kelvin {}, which has memcached's command line and none of its \
             code.\nLicensed under the Apache License, Version 2.0: \
             http://www.apache.org/licenses/LICENSE-2.0\n",
            env!("CARGO_PKG_VERSION")
        ),
        Page::Version => format!("{VERSION}\n"),
    }
}

fn help() -> String {
    let mut text = format!("{VERSION} (Kelvin {})\n", env!("CARGO_PKG_VERSION"));
    for row in OPTIONS.iter().filter(|row| !row.help.is_empty()) {
        let mut option = format!("-{}", row.short);
        if !row.long.is_empty() {
            write!(option, ", --{}", row.long).expect("invariant: text takes all");
        }
        if let Argument::Required(value) = row.argument {
            let equals = if row.long.is_empty() { " " } else { "=" };
            write!(option, "{equals}{value}").expect("invariant: text takes all");
        }
        entry(&mut text, &option, row.help);
    }
    for suboption in SUBOPTIONS.iter().filter(|suboption| !suboption.help.is_empty()) {
        entry(&mut text, &format!("   - {}", suboption.name), suboption.help);
    }
    text.push_str(
        "\nOther options of memcached are accepted; a warning tells that they have no \
                   effect.\n",
    );
    text
}

/// An option and what is said about it, folded.
fn entry(text: &mut String, option: &str, help: &str) {
    let mut line = format!("{option:<OPTION_WIDTH$}");
    let mut width = 0;
    for word in help.split_whitespace() {
        if width > 0 && width + word.len() > HELP_WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(OPTION_WIDTH);
            width = 0;
        }
        line.push_str(word);
        line.push(' ');
        width += word.len() + 1;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::{OPTIONS, Page, SUBOPTIONS, text};

    #[test]
    fn the_help_has_every_option_that_is_of_use() {
        let help = text(Page::Help);
        for row in OPTIONS.iter().filter(|row| !row.help.is_empty()) {
            assert!(help.contains(&format!("\n-{}", row.short)), "-{}", row.short);
            assert!(help.contains(&format!("--{}", row.long)), "--{}", row.long);
        }
        assert!(SUBOPTIONS.iter().any(|suboption| help.contains(suboption.name)));
        assert!(help.lines().all(|line| line.len() <= 100), "{help}");
    }

    #[test]
    fn the_version_is_that_of_the_command_line() {
        assert_eq!(text(Page::Version), "memcached 1.6.45\n");
    }
}

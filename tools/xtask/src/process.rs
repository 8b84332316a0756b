//! Running other programs: shown, never with a terminal's input, and judged by their exit status.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// The signal by which `abort` ends a process.
const SIGABRT: i32 = 6;

/// What a captured command did.
pub(crate) struct Captured {
    /// Whether it ended with status 0.
    pub(crate) success: bool,
    /// Whether it ended by `abort`.
    pub(crate) aborted: bool,
    /// Its standard output.
    pub(crate) stdout: String,
    /// Its standard output followed by its standard error.
    pub(crate) all: String,
}

/// The command as a person would type it, with the environment that was set for it.
pub(crate) fn display(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| {
            Some(format!("{}={}", name.to_string_lossy(), quote(&value?.to_string_lossy())))
        })
        .collect();
    words.push(quote(&command.get_program().to_string_lossy()));
    words.extend(command.get_args().map(|arg| quote(&arg.to_string_lossy())));
    words.join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Shows and runs a command with the caller's output streams.
///
/// # Errors
/// When it cannot be started or ends with another status than 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = display(command);
    println!("$ {shown}");
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot run: {shown}"))?;
    if !status.success() {
        bail!("failed ({status}): {shown}");
    }
    Ok(())
}

/// Runs a command in silence and keeps what it writes.
///
/// # Errors
/// When it cannot be started; its own failure is in the result.
pub(crate) fn capture(command: &mut Command) -> Result<Captured> {
    let shown = display(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run: {shown}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let aborted = output.status.signal() == Some(SIGABRT);
    Ok(Captured { success: output.status.success(), aborted, stdout, all })
}

/// Shows and runs a command with the caller's standard error, and returns its standard output.
///
/// # Errors
/// When it cannot be started or ends with another status than 0.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let shown = display(command);
    println!("$ {shown}");
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run: {shown}"))?;
    if !output.status.success() {
        bail!("failed ({}): {shown}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a test command's output is passed on as it comes, or only when it fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show<'a> {
    Always,
    /// With this before each line, among the lines of others.
    As(&'a str),
    OnFailure,
}

/// Shows and runs a test command, and returns how many tests it started.
///
/// # Errors
/// When it cannot be started, fails, or starts no test at all: a filter that matches nothing must
/// not pass for a suite that holds.
pub(crate) fn run_tests(command: &mut Command, show: Show<'_>) -> Result<usize> {
    let shown = display(command);
    println!("$ {shown}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run: {shown}"))?;
    let stdout = child.stdout.take().expect("invariant: stdout was piped");
    let mut kept = String::new();
    let mut started = 0;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.with_context(|| format!("cannot read the output of: {shown}"))?;
        let line = String::from_utf8_lossy(&line);
        started += tests_announced(&line).unwrap_or(0);
        match show {
            Show::Always => println!("{line}"),
            Show::As(name) => println!("{name} | {line}"),
            Show::OnFailure => kept.extend([&line, "\n"]),
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for: {shown}"))?;
    if !status.success() {
        print!("{kept}");
        bail!("failed ({status}): {shown}");
    }
    if started == 0 {
        bail!("no test ran, so nothing was checked: {shown}");
    }
    Ok(started)
}

/// The number in libtest's line `running 3 tests`.
pub(crate) fn tests_announced(line: &str) -> Option<usize> {
    let rest = line.trim_end().strip_prefix("running ")?;
    rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test"))?.parse().ok()
}

/// Finds a program on the search path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Show, capture, display, find_program, run, run_tests, tests_announced};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn counts_the_tests_that_libtest_announces() {
        assert_eq!(tests_announced("running 12 tests"), Some(12));
        assert_eq!(tests_announced("running 1 test\n"), Some(1));
        assert_eq!(tests_announced("test running 3 tests ... ok"), None);
        for show in [Show::Always, Show::As("base"), Show::OnFailure] {
            let mut command = shell("echo running 2 tests; echo running 1 test");
            assert_eq!(run_tests(&mut command, show).ok(), Some(3));
        }
    }

    #[test]
    fn a_test_command_that_starts_no_test_fails() {
        let error =
            run_tests(&mut shell("echo running 0 tests"), Show::Always).expect_err("must fail");
        assert!(error.to_string().starts_with("no test ran"), "{error}");
        assert!(run_tests(&mut shell("echo running 2 tests; exit 1"), Show::OnFailure).is_err());
    }

    #[test]
    fn failure_is_an_error_that_names_the_command() {
        let error = run(&mut shell("exit 3")).expect_err("must fail");
        assert_eq!(error.to_string(), "failed (exit status: 3): sh -c 'exit 3'");
        let captured = capture(&mut shell("echo out; echo err >&2; exit 1")).expect("starts");
        assert!(!captured.success && !captured.aborted);
        assert_eq!((captured.stdout.as_str(), captured.all.as_str()), ("out\n", "out\nerr\n"));
    }

    #[test]
    fn an_abort_is_known_through_a_program_that_limits_time() {
        for script in ["kill -ABRT $$", "exec timeout 60 sh -c 'kill -ABRT $$'"] {
            let captured = capture(&mut shell(script)).expect("starts");
            assert!(captured.aborted && !captured.success, "{script}");
        }
    }

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("cargo");
        command.env("RUSTFLAGS", "--cfg loom").args(["test", "a b"]);
        assert_eq!(display(&command), "RUSTFLAGS='--cfg loom' cargo test 'a b'");
    }

    #[test]
    fn finds_programs_on_the_search_path() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-anywhere").is_none());
    }
}

//! What a long command shows while it runs, and how it is told to stop.

use std::{
    io::{IsTerminal, stderr},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::{Context, Result};
use base::clock::Stopwatch;
use signal_hook::{consts::SIGINT, consts::SIGTERM, flag};

/// Where nobody watches, a line of progress comes this often.
const LINE_GAP_NS: u64 = 10_000_000_000;

/// Becomes true by the first signal to end: the command ends early and shows what it has. The
/// second one ends the process.
///
/// # Errors
/// When signals cannot be caught.
pub(crate) fn stop_by_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("catching signals")?;
    }
    Ok(stop)
}

/// Says on standard error what is being done: in place on a terminal, else a line now and then.
pub(crate) struct Progress {
    is_quiet: bool,
    is_terminal: bool,
    clock: Stopwatch,
    next_ns: u64,
}

impl Progress {
    pub(crate) fn new(is_quiet: bool) -> Self {
        let is_terminal = stderr().is_terminal();
        Self { is_quiet, is_terminal, clock: Stopwatch::start(), next_ns: LINE_GAP_NS }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.is_quiet {
            return;
        }
        if self.is_terminal {
            eprint!("\r\x1b[K{text}");
        } else if self.clock.elapsed_ns() >= self.next_ns {
            self.next_ns = self.clock.elapsed_ns() + LINE_GAP_NS;
            eprintln!("{text}");
        }
    }

    pub(crate) fn clear(&self) {
        if !self.is_quiet && self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

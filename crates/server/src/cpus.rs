//! Pinning threads to CPUs.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{Error, config::Cpus};

/// Looks whether this process may run on all of `cpus`.
pub(crate) fn check(cpus: &Cpus) -> Result<(), Error> {
    // If the system does not say what is allowed, pinning will.
    let Ok(allowed) = sched_getaffinity(None) else { return Ok(()) };
    match cpus.0.iter().find(|cpu| !allowed.is_set(**cpu)) {
        None => Ok(()),
        Some(cpu) => Err(Error::Cpu { cpu: *cpu }),
    }
}

/// Pins the calling thread, called `thread`, to `cpu`.
pub(crate) fn pin(thread: &str, cpu: usize) -> Result<(), Error> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus).map_err(|source| Error::Thread {
        thread: thread.to_owned(),
        what: "pin",
        source: source.into(),
    })
}

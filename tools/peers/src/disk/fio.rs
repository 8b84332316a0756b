//! What the disk gives to a program that does nothing but I/O: fio.

use std::{
    io::{self, ErrorKind},
    path::Path,
    process::Command,
    time::Duration,
};

use serde_json::Value;

use super::device::BLOCK_BYTES;

/// The I/O of an append, and how many are on their way at a time.
const APPEND_BYTES: u64 = 1 << 20;
const APPEND_DEPTH: u32 = 4;

/// What fio found.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Rate {
    pub(crate) ops_per_s: f64,
    pub(crate) bytes_per_s: f64,
}

/// How reads are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// So many threads with a read each.
    Threads(u32),
    /// One thread with so many reads on their way, by io_uring.
    Ring(u32),
}

/// Appends `bytes` to a new file in `directory`, past the page cache, and flushes it in the end.
/// `None` when there is no fio.
pub(crate) fn append(directory: &Path, bytes: u64) -> io::Result<Option<Rate>> {
    let job = [
        "--rw=write".to_owned(),
        format!("--bs={APPEND_BYTES}"),
        format!("--size={}", bytes.next_multiple_of(APPEND_BYTES)),
        format!("--iodepth={APPEND_DEPTH}"),
        "--ioengine=io_uring".to_owned(),
        "--end_fsync=1".to_owned(),
        "--unlink=1".to_owned(),
    ];
    run(directory, "append", &job, "write")
}

/// Reads at random from a file of `bytes`, which the first call writes, for `time`. Reads have
/// whole blocks, `mean_bytes` in the mean.
pub(crate) fn reads(
    directory: &Path,
    bytes: u64,
    mean_bytes: f64,
    readers: Readers,
    time: Duration,
) -> io::Result<Option<Rate>> {
    let mut job = vec![
        "--rw=randread".to_owned(),
        format!("--size={}", bytes.next_multiple_of(APPEND_BYTES)),
        format!("--bssplit={}", split(mean_bytes)),
        "--time_based=1".to_owned(),
        format!("--runtime={}ms", time.as_millis()),
    ];
    job.extend(match readers {
        Readers::Threads(count) => {
            vec!["--ioengine=psync".to_owned(), format!("--numjobs={count}")]
        }
        Readers::Ring(depth) => {
            vec!["--ioengine=io_uring".to_owned(), format!("--iodepth={depth}")]
        }
    });
    run(directory, "reads", &job, "read")
}

/// Two sizes of whole blocks, and the percentages at which their mean is `mean_bytes`.
fn split(mean_bytes: f64) -> String {
    let blocks = (mean_bytes / BLOCK_BYTES as f64).max(1.0);
    let (few, percent) = (blocks.floor(), (blocks.fract() * 100.0).round());
    let bytes = |blocks: f64| blocks as usize * BLOCK_BYTES;
    if percent == 0.0 {
        return format!("{}/100", bytes(few));
    }
    format!("{}/{}:{}/{percent}", bytes(few), 100.0 - percent, bytes(few + 1.0))
}

fn run(directory: &Path, name: &str, job: &[String], kind: &str) -> io::Result<Option<Rate>> {
    let mut command = Command::new("fio");
    command.arg(format!("--name={name}")).arg(format!("--filename={name}.fio"));
    command.args(["--directory=.", "--direct=1", "--thread=1", "--group_reporting=1"]);
    command.args(["--randrepeat=0", "--output-format=json"]).args(job);
    // Here, with the files that fio keeps beside: the path may be relative to where this runs.
    command.current_dir(directory);
    let out = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        out => out?,
    };
    let text = String::from_utf8_lossy(&out.stdout);
    match rate(&text, kind) {
        Some(rate) if out.status.success() => Ok(Some(rate)),
        _ => {
            let error = String::from_utf8_lossy(&out.stderr);
            Err(io::Error::other(format!("fio: {} {error}{text}", out.status)))
        }
    }
}

/// What stands in fio's report of one group of jobs. Notes may stand before it.
fn rate(text: &str, kind: &str) -> Option<Rate> {
    let report: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let [job] = report["jobs"].as_array()?.as_slice() else { return None };
    let number = |name: &str| job[kind][name].as_f64();
    Some(Rate { ops_per_s: number("iops")?, bytes_per_s: number("bw_bytes")? })
}

#[cfg(test)]
mod tests {
    use super::{Rate, rate, split};

    #[test]
    fn sizes_have_the_mean_that_was_asked_for() {
        assert_eq!(split(4096.0), "4096/100");
        assert_eq!(split(0.0), "4096/100");
        assert_eq!(split(5120.0), "4096/75:8192/25");
        assert_eq!(split(106_496.0), "106496/100");
        assert_eq!(split(104_000.0), "102400/61:106496/39");
    }

    #[test]
    fn a_report_is_read() {
        let text = r#"note: something
            {"jobs": [{"read": {"iops": 100.5, "bw_bytes": 411648},
                       "write": {"iops": 0.0, "bw_bytes": 0}}]}"#;
        let expected = Rate { ops_per_s: 100.5, bytes_per_s: 411_648.0 };
        assert_eq!(rate(text, "read"), Some(expected));
        assert_eq!(rate("no report", "read"), None);
    }
}

//! Kelvin beside other servers on the wire: every block of cells of docs/performance.md.
//!
//! Starts the servers, each with one thread on the same CPU, and `kelvin bench` on another one,
//! which measures them in turn, round by round. Beside them runs `bare`, a server that does
//! nothing: no server on this machine can cost less. Servers that are not there are left out.

mod block;
mod summary;

use std::{
    fs,
    io::{self, Error},
    path::Path,
    process::Command,
    time::Duration,
};

use self::{block::MEMORY_MIB, summary::Run};
use crate::{
    machine::{self, Machine},
    options::WireOptions,
    server::{Kind, Program, Server, Setup, build_kelvin, programs},
};

pub(crate) use self::block::{BLOCKS, Block};

/// Runs all blocks and writes what they gave.
///
/// # Errors
/// When Kelvin cannot be built, a server does not start, the bench fails or a file cannot be
/// written.
pub(crate) fn run(options: &WireOptions) -> io::Result<()> {
    let mut machine = Machine::read();
    let kelvin = match &options.kelvin {
        Some(path) => path.clone(),
        None => build_kelvin()?,
    };
    let (programs, absent) = programs(&kelvin)?;
    absent.iter().for_each(|line| eprintln!("{line}"));
    fs::create_dir_all(&options.out)?;
    let round = Duration::from_millis(options.warm_up_ms + options.duration_ms);
    let estimate: Duration =
        options.blocks.iter().map(|b| b.estimate(programs.len(), options.rounds, round)).sum();
    eprintln!("{} servers: some {} s, and loading", programs.len(), estimate.as_secs());
    let mut runs = Vec::new();
    for block in &options.blocks {
        eprintln!("{}", block.name);
        runs.push(measure(options, &kelvin, &programs, block)?);
    }
    machine.load_average_after = machine::load_average();
    let mut text = format!("{}\n\n", machine.line());
    absent.iter().for_each(|line| text.extend([line.as_str(), "\n\n"]));
    text.push_str(&summary::markdown(&runs));
    let path = options.out.join("summary.md");
    fs::write(&path, &text)?;
    print!("{text}");
    eprintln!("written: {} and each block's table, JSON and chart beside it", path.display());
    Ok(())
}

/// Runs a block: its servers live as long as it does.
fn measure(
    options: &WireOptions,
    kelvin: &Path,
    programs: &[Program],
    block: &Block,
) -> io::Result<Run> {
    let directory = std::env::temp_dir().join(format!("peers-wire-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let setup = Setup {
        is_unix: block.is_unix,
        memory_mib: MEMORY_MIB,
        value_bytes: block.value_bytes,
        keys: block.keys,
        cpus: vec![options.server_cpu],
    };
    let start = |program| Server::start(program, &setup, &directory);
    let started: io::Result<Vec<Server>> = programs.iter().map(start).collect();
    let measured = started.and_then(|servers| {
        let file = |ending: &str| options.out.join(format!("{}.{ending}", block.name));
        let mut command = Command::new(kelvin);
        command.args(arguments(options, block, &servers));
        command.arg("--json").arg(file("json")).arg("--svg").arg(file("svg"));
        let out = command.stderr(std::process::Stdio::inherit()).output()?;
        let table = String::from_utf8_lossy(&out.stdout);
        println!("{table}");
        fs::write(file("txt"), table.as_bytes())?;
        if !out.status.success() {
            return Err(Error::other(format!("kelvin bench: {}", out.status)));
        }
        let json = serde_json::from_slice(&fs::read(file("json"))?)?;
        let servers = servers.iter().map(|server| server.kind).collect();
        Ok(Run { name: block.name, servers, json })
    });
    let _ = fs::remove_dir_all(&directory);
    measured
}

/// Of `kelvin bench`.
fn arguments(options: &WireOptions, block: &Block, servers: &[Server]) -> Vec<String> {
    let numbers = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let cpus: Vec<String> = options.generator_cpus.iter().map(usize::to_string).collect();
    let mut all = vec!["bench".to_owned()];
    let mut add = |flag: &str, value: String| all.extend([flag.to_owned(), value]);
    for (number, server) in servers.iter().enumerate() {
        match number {
            0 => add("--server-pid", server.pid().to_string()),
            _ => {
                add("--against", server.address());
                add("--against-pid", server.pid().to_string());
            }
        }
        if server.kind == Kind::Bare {
            add("--unverified", server.address());
        }
    }
    add("--connections", numbers(block.connections));
    add("--depth", numbers(block.depths));
    add("--value-size", block.value_bytes.to_string());
    add("--keys", block.keys.to_string());
    add("--mix", "90:10".to_owned());
    add("--threads", cpus.len().to_string());
    add("--cpus", cpus.join(","));
    add("--rounds", options.rounds.to_string());
    add("--duration", format!("{}ms", options.duration_ms));
    add("--warm-up", format!("{}ms", options.warm_up_ms));
    if let Some(rate) = block.rate {
        add("--rate", rate.to_string());
    }
    all.push("--spin".to_owned());
    all.push(servers[0].address());
    all
}

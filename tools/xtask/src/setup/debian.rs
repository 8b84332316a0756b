//! Debian packages.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, bail};

use crate::process::{capture, find_program, run};

/// How the presence of a package's content is seen, so that other ways to install it count, too.
enum Sign {
    Program(&'static str),
    File(&'static str),
    /// A file below one of the system's directories of libraries.
    Library(&'static str),
    /// Modules that Debian's own Python can import.
    PythonModules(&'static str),
}

struct Need {
    package: &'static str,
    sign: Sign,
    /// What it is for.
    what: &'static str,
}

const NEEDS: [Need; 10] = [
    Need { package: "memcached", sign: Sign::Program("memcached"), what: "differential test" },
    Need {
        package: "libsasl2-modules",
        sign: Sign::Library("sasl2/libplain.so"),
        what: "logins of that memcached",
    },
    Need { package: "netcat-openbsd", sign: Sign::Program("nc"), what: "the README's example" },
    Need {
        package: "libmemcached-tools",
        // Debian's name for memcapable.
        sign: Sign::Program("memccapable"),
        what: "the drop-in tests",
    },
    Need { package: "golang-go", sign: Sign::Program("go"), what: "gomemcache, the exporter" },
    Need { package: "python3", sign: Sign::File("/usr/bin/python3"), what: "Python clients" },
    Need {
        package: "python3-venv",
        sign: Sign::PythonModules("ensurepip, venv"),
        what: "an environment for the Python clients",
    },
    Need {
        package: "libmemcached-dev",
        sign: Sign::File("/usr/include/libmemcached/memcached.h"),
        what: "pylibmc, where no wheel fits",
    },
    Need {
        package: "python3-dev",
        sign: Sign::PythonModules("os, sysconfig; os.stat(sysconfig.get_path(\"include\"))"),
        what: "pylibmc, where no wheel fits",
    },
    Need {
        package: "zlib1g-dev",
        sign: Sign::File("/usr/include/zlib.h"),
        what: "pylibmc, where no wheel fits",
    },
];

pub(super) fn install() -> Result<()> {
    let absent: Vec<&Need> = NEEDS.iter().filter(|need| !is_present(&need.sign)).collect();
    if absent.is_empty() {
        return Ok(());
    }
    for need in &absent {
        println!("{} is absent ({})", need.package, need.what);
    }
    let packages: Vec<&str> = absent.iter().map(|need| need.package).collect();
    let rights = rights(&packages)?;
    run(apt_get(rights).arg("update"))?;
    run(apt_get(rights).args(["install", "--yes", "--no-install-recommends"]).args(&packages))?;
    if packages.contains(&"memcached") && Path::new("/run/systemd/system").exists() {
        // The tests start their own; the package's service would hold the standard port.
        run(privileged(rights, "systemctl").args(["disable", "--now", "memcached"]))?;
    }
    if let Some(need) = absent.iter().find(|need| !is_present(&need.sign)) {
        bail!("{} was installed but is not found ({})", need.package, need.what);
    }
    Ok(())
}

fn is_present(sign: &Sign) -> bool {
    match sign {
        Sign::Program(name) => find_program(name).is_some(),
        Sign::File(path) => Path::new(path).exists(),
        Sign::Library(name) => has_library(name),
        Sign::PythonModules(import) => {
            let mut python = Command::new("/usr/bin/python3");
            python.args(["-c", &format!("import {import}")]);
            capture(&mut python).is_ok_and(|output| output.success)
        }
    }
}

/// Libraries lie in `/usr/lib`, or in a directory for the architecture below it.
fn has_library(name: &str) -> bool {
    let directories = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let directories = directories.map(|entry| entry.path());
    directories.chain(["/usr/lib".into()]).any(|directory| directory.join(name).exists())
}

#[derive(Clone, Copy)]
enum Rights {
    Root,
    Sudo,
}

/// How packages can be installed here.
fn rights(packages: &[&str]) -> Result<Rights> {
    let by_hand = format!("install by hand: {}", packages.join(" "));
    if find_program("apt-get").is_none() {
        bail!("this is no Debian, so nothing is installed here; {by_hand}");
    }
    let is_root = capture(Command::new("id").arg("-u"))?.stdout.trim() == "0";
    if is_root {
        return Ok(Rights::Root);
    }
    let may_sudo = find_program("sudo").is_some()
        && capture(Command::new("sudo").args(["--non-interactive", "true"]))?.success;
    if !may_sudo {
        bail!("packages need root, and sudo would ask for a password; {by_hand}");
    }
    Ok(Rights::Sudo)
}

fn apt_get(rights: Rights) -> Command {
    let mut command = privileged(rights, "env");
    // Single-user run level: where no systemd runs, packages must not start their services.
    command.args(["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "--quiet"]);
    command
}

fn privileged(rights: Rights, program: &str) -> Command {
    match rights {
        Rights::Root => Command::new(program),
        Rights::Sudo => {
            let mut command = Command::new("sudo");
            command.args(["--non-interactive", program]);
            command
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sign, is_present};

    #[test]
    fn a_sign_is_seen_only_where_it_is() {
        assert!(is_present(&Sign::Program("sh")));
        assert!(!is_present(&Sign::Program("no-such-program-anywhere")));
        assert!(is_present(&Sign::File("/")));
        assert!(is_present(&Sign::Library("libc.so.6")));
        assert!(!is_present(&Sign::Library("no-such-library.so")));
        assert!(!is_present(&Sign::File("/no/such/file")));
        assert!(!is_present(&Sign::PythonModules("no_such_module_anywhere")));
    }
}

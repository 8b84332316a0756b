//! `-d`, `-P`, `-u`: the process and what it leaves behind.

use std::{fs, path::Path};

use super::servers::{Directory, Program, Server, eventually, is_root, on_both, on_kelvin, signal};

/// The process that serves, which is not the one that was started.
fn serving_pid(server: &Server) -> u32 {
    let pid = server.stat("", "pid").expect("it tells its process");
    pid.parse().expect("a process has a number")
}

#[test]
fn a_daemon_writes_its_number_and_serves_when_its_parent_is_gone() {
    let options = ["-d", "-P", "{dir}/pid", "-s", "{dir}/socket"];
    on_both(&options, |server| {
        let status = server.wait().expect("the first process ends");
        let pid = serving_pid(server);
        let file = server.dir().path("pid");
        eventually("the file has its number", || {
            fs::read_to_string(&file).is_ok_and(|text| text == format!("{pid}\n"))
        });
        let status_file = format!("/proc/{pid}/stat");
        let stat = fs::read_to_string(&status_file).expect("it runs");
        let session = stat.rsplit(") ").next().expect("fields").split(' ').nth(3);
        assert_eq!(session, Some(pid.to_string().as_str()), "it leads a session of its own");
        let directory = fs::read_link(format!("/proc/{pid}/cwd")).expect("it is somewhere");
        let output = fs::read_link(format!("/proc/{pid}/fd/2")).expect("it has standard error");
        assert_eq!([directory.as_path(), &output], [Path::new("/"), Path::new("/dev/null")]);
        signal(pid, "TERM");
        eventually("the file is removed", || !Path::new(&file).exists());
        status.code()
    });
}

#[test]
fn who_starts_a_daemon_hears_why_it_does_not_serve() {
    let dir = Directory::new();
    let occupied = dir.file("socket", "no socket");
    let (code, _, said) = Program::Kelvin.run(&["-d", "-s", &occupied]);
    assert_eq!(code, Some(71));
    assert!(said.contains("it exists and is not a socket"), "{said}");
}

#[test]
fn the_file_of_another_process_is_told_of_and_taken_over() {
    let dir = Directory::new();
    let own = std::process::id();
    dir.file("pid", format!("{own}\n"));
    let options = ["-P", "{dir}/pid", "-s", "{dir}/socket"];
    let server = Server::start_in(dir, &Program::Kelvin, &options);
    let file = server.dir().path("pid");
    eventually("the number is the server's", || {
        fs::read_to_string(&file).is_ok_and(|text| text == format!("{}\n", server.pid()))
    });
    assert!(server.log().contains("has a running process"), "{}", server.log());
    // Whoever takes it over keeps it.
    fs::write(&file, "1\n").expect("it can be written");
    let dir = server.end_by("TERM");
    assert_eq!(fs::read_to_string(dir.path("pid")).expect("it is kept"), "1\n");
}

#[test]
fn the_superuser_becomes_who_is_named() {
    if !is_root() {
        eprintln!("skipped: only the superuser can become another user");
        return;
    }
    let options = ["-u", "nobody", "-s", "{dir}/socket"];
    let identity = |server: &mut Server| {
        let status = fs::read_to_string(format!("/proc/{}/status", serving_pid(server)));
        let status = status.expect("it runs");
        let line = |name| status.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        (line("Uid:"), line("Gid:"), line("Groups:"))
    };
    for program in [Program::Kelvin, Program::installed()] {
        let dir = Directory::new();
        dir.open_to_all();
        let mut server = Server::start_in(dir, &program, &options);
        let (uid, _, groups) = identity(&mut server);
        assert_eq!(uid.as_deref(), Some("Uid:\t65534\t65534\t65534\t65534"), "{program:?}");
        assert_eq!(groups.as_deref().map(str::trim_end), Some("Groups:"), "{program:?}");
    }
}

#[test]
fn a_user_must_be_named_and_exist() {
    if !is_root() {
        eprintln!("skipped: others than the superuser need not name a user");
        return;
    }
    for (user, code, words) in [("", 64, "root"), ("no such user", 67, "can't find the user")] {
        for program in [Program::Kelvin, Program::installed()] {
            let (ended, _, said) = program.run(&["-u", user, "-p", "-1", "-l", "127.0.0.1"]);
            assert_eq!(ended, Some(code), "{program:?} {user}");
            assert!(said.contains(words), "{program:?}: {said}");
        }
    }
}

#[test]
fn core_files_are_allowed() {
    on_kelvin(&["-r", "-k", "-s", "{dir}/socket"], |server| {
        let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).expect("it runs");
        let line = limits.lines().find(|line| line.starts_with("Max core file size"));
        let soft = line.and_then(|line| line.split_ascii_whitespace().nth(4)).map(str::to_owned);
        assert_ne!(soft.as_deref(), Some("0"));
        server.ask(b"mn\r\n", b"MN\r\n");
    });
}

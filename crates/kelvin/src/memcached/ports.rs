//! The file that tells which ports the system chose, named by `MEMCACHED_PORT_FILENAME`.

use std::{fmt::Write, fs, net::SocketAddr};

/// Names the file. It is complete when it is there: it is written under another name first.
const VARIABLE: &str = "MEMCACHED_PORT_FILENAME";

/// Writes the file, if one is named. One that cannot be written is no reason not to serve.
pub(super) fn write(tcp: &[SocketAddr], udp: &[SocketAddr]) {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let mut unfinished = path.clone();
    unfinished.push(".lck");
    let written =
        fs::write(&unfinished, text(tcp, udp)).and_then(|()| fs::rename(&unfinished, &path));
    if let Err(error) = written {
        tracing::warn!(path = %path.display(), %error, "{VARIABLE} cannot be written");
    }
}

fn text(tcp: &[SocketAddr], udp: &[SocketAddr]) -> String {
    let tcp = tcp.iter().map(|address| ("TCP", address));
    let all = tcp.chain(udp.iter().map(|address| ("UDP", address)));
    all.fold(String::new(), |mut text, (transport, address)| {
        let family = if address.is_ipv6() { "INET6" } else { "INET" };
        writeln!(text, "{transport} {family}: {}", address.port())
            .expect("invariant: text takes all");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_line_tells_a_port() {
        let all = ["127.0.0.1:7".parse().expect("one"), "[::1]:8".parse().expect("one")];
        let told = "TCP INET: 7\nTCP INET6: 8\nUDP INET: 7\n";
        assert_eq!(text(&all, &all[..1]), told);
    }
}

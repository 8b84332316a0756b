//! What `-l` says, and the ports of `-p` and `-U`: `ADDR`, `ADDR:PORT`, `[IPV6]:PORT`, a name, or
//! `*`, each perhaps behind `proto[NAME]:` and `tag[NAME]:`.

use super::{
    options::{Options, Protocol},
    refusal::Refusal,
};

/// Longest tag in bytes.
const TAG_BYTES_MAX: usize = 8;

/// A place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// As a setting has it.
    pub(super) address: String,
    /// The protocol that is asked for there; none for that of the server.
    pub(super) protocol: Option<Protocol>,
    pub(super) is_tagged: bool,
}

/// Where the TCP listeners are to be.
///
/// # Errors
/// A place that memcached does not understand, or has no part for.
pub(super) fn places(options: &Options) -> Result<Vec<Place>, Refusal> {
    // A port of UDP alone is meant for both.
    let stands_for_both = options.udp_port_given && options.udp_port != 0 && !options.port_given;
    places_at(options, if stands_for_both { options.udp_port } else { options.port })
}

/// Where datagrams are to be received: at the same places, if there is a port for them.
///
/// # Errors
/// As for TCP.
pub(super) fn datagram_places(options: &Options) -> Result<Vec<Place>, Refusal> {
    places_at(options, options.udp_port)
}

fn places_at(options: &Options, given: i32) -> Result<Vec<Place>, Refusal> {
    if options.unix.is_some() || given == 0 {
        return Ok(Vec::new());
    }
    if options.listen.is_empty() {
        return Ok(vec![Place {
            address: format!("*:{}", port(given)?),
            protocol: None,
            is_tagged: false,
        }]);
    }
    let all = options.listen.iter().flat_map(|list| list.split([',', ';']));
    all.filter(|text| !text.is_empty()).map(|text| place(text, options, given)).collect()
}

fn place(text: &str, options: &Options, given: i32) -> Result<Place, Refusal> {
    for tls in ["notls", "btls", "mtls"] {
        if text.starts_with(tls) {
            return Err(Refusal::system(format!(
                "'{tls}' option is valid only when SSL is enabled"
            )));
        }
    }
    let mut place = Place { address: String::new(), protocol: None, is_tagged: false };
    let mut rest = text;
    if let Some(behind) = rest.strip_prefix("proto[") {
        let (name, behind) = behind
            .split_once(']')
            .ok_or_else(|| Refusal::system(format!("Invalid protocol spec: \"{text}\"")))?;
        place.protocol = Some(protocol(name, options)?);
        rest = behind.strip_prefix(':').unwrap_or(behind);
    }
    for (open, close) in [("tag[", ']'), ("tag_", '_')] {
        if let Some(behind) = rest.strip_prefix(open) {
            let (tag, behind) = behind.split_once(close).ok_or_else(|| {
                Refusal::system(format!("Invalid tag in socket config: \"{text}\""))
            })?;
            if !(1..=TAG_BYTES_MAX).contains(&tag.len()) {
                return Err(Refusal::system(format!(
                    "Listener tags must be between 1 and 8 characters: \"{tag}\""
                )));
            }
            place.is_tagged = true;
            rest = behind.strip_prefix(':').unwrap_or(behind);
        }
    }
    place.address = address(rest, given)?;
    Ok(place)
}

fn protocol(name: &str, options: &Options) -> Result<Protocol, Refusal> {
    match name {
        "ascii" => Ok(Protocol::Ascii),
        "binary" if options.auth_file.is_some() => {
            Err(Refusal::system("Cannot use binary protocol when ascii authentication enabled"))
        }
        "binary" => Ok(Protocol::Binary),
        "negotiating" if options.auth_file.is_some() => Ok(Protocol::Ascii),
        "negotiating" => Ok(Protocol::Auto),
        "proxy" => Err(Refusal::system("Server not built with proxy")),
        _ => Err(Refusal::system(format!("Invalid protocol spec: \"{name}\""))),
    }
}

/// An address with its port; `given` is the port of those that have none.
fn address(text: &str, given: i32) -> Result<String, Refusal> {
    let wrong_port = |text: &str| Refusal::system(format!("Invalid port number: \"{text}\""));
    let with_port = |text: &str| text.trim().parse().map_err(|_| wrong_port(text)).and_then(port);
    if let Some(inside) = text.strip_prefix('[') {
        let (host, behind) = inside
            .split_once(']')
            .ok_or_else(|| Refusal::system(format!("Invalid IPV6 address: \"{text}\"")))?;
        let port = match behind.strip_prefix(':') {
            Some(text) => with_port(text)?,
            None => port(given)?,
        };
        return Ok(if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        });
    }
    match text.split_once(':') {
        // More than one colon is an address of IPv6 without a port.
        Some((_, behind)) if behind.contains(':') => Ok(format!("[{text}]:{}", port(given)?)),
        Some((host, behind)) => Ok(format!("{host}:{}", with_port(behind)?)),
        None => Ok(format!("{text}:{}", port(given)?)),
    }
}

/// A port as an option says it: -1 is any free one, which is 0 elsewhere.
pub(super) fn port(number: i32) -> Result<u16, Refusal> {
    if number == -1 {
        return Ok(0);
    }
    u16::try_from(number)
        .map_err(|_| Refusal::usage(format!("ERROR: Invalid port number {number}.")))
}

#[cfg(test)]
mod tests {
    use super::{Options, Place, Protocol, Refusal, datagram_places, places};

    fn addresses(port: i32, listen: &[&str]) -> Result<Vec<String>, Refusal> {
        let listen = listen.iter().map(|&text| text.to_owned()).collect();
        let options = Options { port, listen, ..Options::default() };
        Ok(places(&options)?.into_iter().map(|place| place.address).collect())
    }

    #[test]
    fn without_an_address_it_is_all_of_them() {
        assert_eq!(addresses(11211, &[]), Ok(vec!["*:11211".to_owned()]));
        assert_eq!(addresses(-1, &[]), Ok(vec!["*:0".to_owned()]));
        assert_eq!(addresses(0, &["127.0.0.1"]), Ok(vec![]));
    }

    #[test]
    fn a_port_of_udp_alone_is_for_tcp_as_well() {
        let told = |options: &Options| -> [Vec<String>; 2] {
            let [tcp, udp] = [places(options), datagram_places(options)];
            [tcp, udp]
                .map(|places| places.expect("places").into_iter().map(|p| p.address).collect())
        };
        let all = |tcp: &str, udp: &str| [vec![tcp.to_owned()], vec![udp.to_owned()]];
        let given = Options { udp_port: 7, udp_port_given: true, ..Options::default() };
        assert_eq!(told(&given), all("*:7", "*:7"));
        let both = Options { port: 8, port_given: true, ..given };
        assert_eq!(told(&both), all("*:8", "*:7"));
        let off = Options { udp_port: 0, udp_port_given: true, ..Options::default() };
        assert_eq!(told(&off), [vec!["*:11211".to_owned()], vec![]]);
    }

    #[test]
    fn lists_have_addresses_with_and_without_ports() {
        let all = addresses(7, &["127.0.0.1,localhost:8;::1", "[::1]:9,[::1],*,10.0.0.1:-1"]);
        let expected =
            ["127.0.0.1:7", "localhost:8", "[::1]:7", "[::1]:9", "[::1]:7", "*:7", "10.0.0.1:0"];
        assert_eq!(all, Ok(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn protocols_and_tags_come_before_an_address() {
        let listen = vec!["proto[ascii]:tag[one]:127.0.0.1:1,tag_two_:[::1]:2".to_owned()];
        let all = places(&Options { listen, ..Options::default() }).expect("it is understood");
        let place = |address: &str, protocol| Place {
            address: address.to_owned(),
            protocol,
            is_tagged: true,
        };
        assert_eq!(all, [place("127.0.0.1:1", Some(Protocol::Ascii)), place("[::1]:2", None)]);
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for (text, code, message) in [
            ("127.0.0.1:x", 71, "Invalid port number: \"x\""),
            ("[::1:7", 71, "Invalid IPV6 address: \"[::1:7\""),
            ("[::1]:70000", 64, "ERROR: Invalid port number 70000."),
            ("proto[http]:a", 71, "Invalid protocol spec: \"http\""),
            ("proto[ascii", 71, "Invalid protocol spec: \"proto[ascii\""),
            ("tag[]:a", 71, "Listener tags must be between 1 and 8 characters: \"\""),
            (
                "tag[123456789]:a",
                71,
                "Listener tags must be between 1 and 8 characters: \
                \"123456789\"",
            ),
            ("tag[a", 71, "Invalid tag in socket config: \"tag[a\""),
            ("mtls:127.0.0.1", 71, "'mtls' option is valid only when SSL is enabled"),
        ] {
            let refusal = addresses(1, &[text]).expect_err(text);
            assert_eq!((refusal.code, refusal.message.as_str()), (code, message), "{text}");
        }
        assert_eq!(addresses(70000, &[]).expect_err("no port").code, 64);
    }
}

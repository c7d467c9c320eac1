//! `address` of a server: `host:port`, `[ipv6]:port`, a port range `host:8000-8003`, each with `http://` or
//! `https://` in front if wanted (and then the scheme's own port if none is given).

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::super::document::{Node, Span, Value};
use super::super::settings::Address;
use super::collect::{Faults, Read};
use super::section::{At, string, wrong_type};
use super::words::{counted, quoted};

const FORMS: &str = "write host:port as 10.0.0.7:8000 or [::1]:8000, or a port range as 10.0.0.7:8000-8003; http:// or \
                     https:// may stand in front";

/// Hosts and ports seen so far, with the place of the first.
#[derive(Debug, Default)]
pub(super) struct KnownAddresses(HashMap<(String, u16), Span>);

/// The addresses of one `[[server]]` entry: one for each of its `count` servers.
pub(super) fn read(
    faults: &Faults<'_>,
    node: &Node<'_>,
    count: usize,
    known: &mut KnownAddresses,
) -> Read<Vec<Address>> {
    let addresses: Vec<_> = match &node.value {
        Value::String(_) => expanded(faults, node)?,
        Value::Array(items) => {
            let read: Vec<Read<_>> = items.iter().map(|item| expanded(faults, item)).collect();
            read.into_iter().collect::<Read<Vec<_>>>()?.into_iter().flatten().collect()
        }
        _ => return Err(wrong_type(faults, "address", node, "an address or a list of them")),
    };
    if addresses.len() != count {
        let message = format!("{} for {}", counted_addresses(addresses.len()), counted(count, "server"));
        let help = format!("give one for each: a list of {count}, or a port range of {count} as 10.0.0.7:8000-8003");
        let help = if count == 1 { "give one address, or a `count`".to_owned() } else { help };
        return Err(faults.at(&node.span, message).help(help).report());
    }
    addresses.into_iter().map(|(address, place)| known.add(faults, address, &place)).collect()
}

/// The address that a node holds, or all of its port range.
fn expanded(faults: &Faults<'_>, node: &Node<'_>) -> Read<Vec<(Address, Span)>> {
    let written = string(faults, "address", node)?;
    let (address, ports) = parse(written)
        .map_err(|why| faults.at(&node.span, format!("the address {} {why}", quoted(written))).help(FORMS).report())?;
    Ok(ports.map(|port| (Address { port, ..address.clone() }, node.span.clone())).collect())
}

/// `tls_name`: a host name or an IP address.
pub(super) fn tls_name(faults: &Faults<'_>, name: Option<At<&str>>) -> Read<Option<String>> {
    let Some(At { value, place }) = name else { return Ok(None) };
    match check_host(value, value.parse::<Ipv6Addr>().is_ok()) {
        Ok(()) => Ok(Some(value.to_owned())),
        Err(_) => {
            let message = format!("`tls_name` is {}, which is no host name", quoted(value));
            Err(faults.at(&place, message).help("write it without scheme and port").report())
        }
    }
}

fn counted_addresses(count: usize) -> String {
    if count == 1 { "1 address".to_owned() } else { format!("{count} addresses") }
}

impl KnownAddresses {
    fn add(&mut self, faults: &Faults<'_>, address: Address, place: &Span) -> Read<Address> {
        match self.0.insert(address.place(), place.clone()) {
            None => Ok(address),
            Some(first) => {
                let message = format!("two servers have the address {}", quoted(&address.to_string()));
                let draft = faults.at(place, message).help("each server needs an address of its own");
                Err(draft.also(&first, "the first").report())
            }
        }
    }
}

impl Address {
    /// Host and port, written the same for the same place: no two servers of a fleet file have equal ones. Hosts count
    /// without case, IPv6 addresses however they are shortened.
    ///
    /// ```
    /// use shortline_core::fleet::settings::Address;
    /// assert_eq!(Address::new(true, "GPU.example", 443).place(), ("gpu.example".to_owned(), 443));
    /// ```
    #[must_use]
    pub fn place(&self) -> (String, u16) {
        let host = match self.host.parse::<Ipv6Addr>() {
            Ok(ip) => ip.to_string(),
            Err(_) => self.host.to_ascii_lowercase(),
        };
        (host, self.port)
    }
}

/// One address as a fleet file writes it; the error says what is wrong with it, and how it is written.
impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let fault = |why: &str| format!("the address {} {why}; {FORMS}", quoted(written));
        match parse(written) {
            Ok((address, ports)) if ports.start() == ports.end() => Ok(address),
            Ok(_) => Err(fault("is a port range, and one address is asked for")),
            Err(why) => Err(fault(why)),
        }
    }
}

/// An address and the ports it stands for; or what is wrong with it.
fn parse(written: &str) -> Result<(Address, RangeInclusive<u16>), &'static str> {
    let (rest, scheme_port, https) = match written.split_once("://") {
        None => (written, None, false),
        Some(("http", rest)) => (rest, Some("80"), false),
        Some(("https", rest)) => (rest, Some("443"), true),
        Some(_) => return Err("has a scheme other than http:// and https://"),
    };
    let rest = rest.strip_suffix('/').filter(|_| scheme_port.is_some()).unwrap_or(rest);
    if rest.contains('/') {
        return Err("has a path; servers are addressed by host and port only");
    }
    let (host, ports) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("has no `]` after its IPv6 host")?,
        None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
    };
    check_host(host, rest.starts_with('['))?;
    let ports = match ports.strip_prefix(':') {
        Some(ports) => ports,
        None if ports.is_empty() => scheme_port.ok_or("has no port")?,
        None => return Err("has something other than a port after its host"),
    };
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err("has a port range that runs backwards");
    }
    Ok((Address::new(https, host, first), first..=last))
}

fn port(written: &str) -> Result<u16, &'static str> {
    let digits = !written.is_empty() && written.bytes().all(|byte| byte.is_ascii_digit());
    let port = written.parse().ok().filter(|&port| digits && port > 0);
    port.ok_or("has a port that is not a number from 1 to 65535; an IPv6 host stands in brackets")
}

fn check_host(host: &str, in_brackets: bool) -> Result<(), &'static str> {
    if in_brackets {
        return host.parse::<Ipv6Addr>().map(|_| ()).map_err(|_| "has no IPv6 address in its brackets");
    }
    if host.is_empty() {
        return Err("has no host");
    }
    if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        return Err("has a character in its host that no host name has");
    }
    let looks_like_ipv4 = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if looks_like_ipv4 && host.parse::<Ipv4Addr>().is_err() {
        return Err("has no IPv4 address: four numbers from 0 to 255");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(written: &str) -> String {
        match parse(written) {
            Ok((address, ports)) => format!("{address} to {}", ports.end()),
            Err(why) => why.to_owned(),
        }
    }

    #[test]
    fn all_forms_are_understood() {
        assert_eq!(shown("10.0.0.7:8000"), "10.0.0.7:8000 to 8000");
        assert_eq!(shown("10.0.0.7:8000-8003"), "10.0.0.7:8000 to 8003");
        assert_eq!(shown("http://gpu-1.example:80"), "gpu-1.example:80 to 80");
        assert_eq!(shown("https://gpu.example/"), "https://gpu.example:443 to 443");
        assert_eq!(shown("[::1]:8000-8001"), "[::1]:8000 to 8001");
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(shown("10.0.0.7"), "has no port");
        assert_eq!(shown("10.0.0.700:80"), "has no IPv4 address: four numbers from 0 to 255");
        assert_eq!(shown("ftp://a:1"), "has a scheme other than http:// and https://");
        assert_eq!(shown("a:8003-8000"), "has a port range that runs backwards");
        assert_eq!(shown("http://a/v1"), "has a path; servers are addressed by host and port only");
        assert_eq!(shown(":80"), "has no host");
        for bad in ["a:0", "a:65536", "a:", "a:+1", "::1:80", "a:1-2-3"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(
            parse("[::1").is_err() && parse("[x]:1").is_err() && parse("[::1]x").is_err() && parse("a b:1").is_err()
        );
    }
}

//! Decides which IP addresses a host name may resolve to: only those of the public internet.
//! Addresses of this machine and of local networks are reachable only if a grant names them
//! literally. Otherwise, the owner of a name could make it resolve to such an address and give a
//! guest access.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The name of this machine.
pub(super) const LOCALHOST: &str = "localhost";

/// Returns whether a host of this name may be at this address.
pub(super) fn is_allowed(name: &str, address: IpAddr) -> bool {
    // The name is reserved for this machine. Only a literal grant can match it; wildcards never do.
    if name == LOCALHOST {
        address.is_loopback()
    } else {
        is_public(address)
    }
}

/// Returns whether an address is one of the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Returns whether the host of a URL is this machine, or an address that is not one of the public
/// internet. `false` for other names, which are checked when they are looked up.
pub fn is_private(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse();
    host == LOCALHOST || address.is_ok_and(|address| !is_public(address))
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let reserved = match address.octets() {
        // This network, protocol assignments, benchmarks, multicast and reserved addresses. The
        // next line is the range that providers share among customers.
        [0, ..] | [192, 0, 0, _] | [198, 18..=19, ..] | [224..=255, ..] => true,
        [100, second, ..] => (64..128).contains(&second),
        // The deprecated anycast address for 6to4 relays.
        [192, 88, 99, _] => true,
        // A public address at which virtual machines of a cloud reach the service that configures
        // them and issues their credentials.
        [168, 63, 129, 16] => true,
        _ => false,
    };
    !(reserved
        || address.is_loopback()
        || address.is_private()
        // These include the addresses at which clouds issue credentials.
        || address.is_link_local()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // NAT64 and 6to4, which translate to the IPv4 address in these segments.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_public_v4(embedded_v4(high, low))
        }
        // Teredo tunnels, benchmarks and identifiers, and documentation.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..0x1000, ..] => false,
        // All global unicast addresses that are allocated so far. Loopback, local and IPv4-mapped
        // addresses are outside of this range.
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

fn embedded_v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &[&str] = &[
        "1.1.1.1",
        "93.184.216.34",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "168.63.129.15",
        "172.32.0.1",
        "192.0.1.1",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00::1",
        "64:ff9b::1.1.1.1",
        "2002:101:101::1",
    ];

    const NOT_PUBLIC: &[&str] = &[
        "127.0.0.1",
        "127.8.9.1",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.127.255.255",
        "0.0.0.0",
        "0.1.2.3",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.88.99.1",
        "168.63.129.16",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:1.1.1.1",
        "::127.0.0.1",
        "2001:db8::1",
        "2001::1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "2002:7f00:1::",
        "100::1",
    ];

    #[test]
    fn a_name_may_stand_for_public_addresses_and_localhost_for_this_machine_only() {
        let check = |name: &str, allowed: bool, addresses: &[&str]| {
            for text in addresses {
                let address: IpAddr = text.parse().expect("an address");
                assert_eq!(is_allowed(name, address), allowed, "{name} at {text}");
            }
        };
        check("example.com", true, PUBLIC);
        check("example.com", false, NOT_PUBLIC);
        check("localhost", true, &["127.0.0.1", "127.0.0.2", "::1"]);
        check(
            "localhost",
            false,
            &["1.1.1.1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"],
        );
        check("localhost.example.com", false, &["127.0.0.1"]);
    }
}

//! Simulated machines: network namespaces connected to this one by a virtual cable, so that packets can be lost on the
//! way. A silent relay is different, because its kernel still acknowledges packets.
//!
//! A namespace lives as long as its only program and the connections that are left of it, which may wait for a response
//! for some minutes. The cable lives as long as the namespace, unless it is removed first.

use std::{collections::BTreeSet, fs, net::Ipv4Addr, path::Path, process::Command};

use super::{
    READY_WITHIN, eventually, ports,
    process::{Process, run},
};

/// The network for benchmarks (RFC 2544), which is not used on the internet. Each address takes four of its addresses.
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// The capabilities for creating namespaces and cables, with their bits in `/proc/self/status`.
const NEEDED: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];

/// An address that is routed to one machine at a time.
pub struct Address {
    /// A number that no other running test on this machine has.
    number: u16,
    /// This machine's address, as the others see it.
    here: Ipv4Addr,
    pub there: Ipv4Addr,
}

/// A program on a machine of its own.
pub struct Machine {
    pub process: Process,
    /// This machine's end of the cable.
    cable: String,
    here: Ipv4Addr,
}

impl Address {
    /// Creates an address that is not routed anywhere yet.
    pub fn new() -> Self {
        let number = ports::free();
        let first = FIRST + 4 * u32::from(number - ports::FIRST);
        Self { number, here: (first + 1).into(), there: (first + 2).into() }
    }

    /// Starts `command` on a new machine with this address, which is not routed there yet.
    pub async fn start(&self, name: &str, folder: &Path, command: &Command) -> Machine {
        assert_can_make_networks();
        let mut alone = Command::new("unshare");
        alone.arg("--net").arg(command.get_program()).args(command.get_args());
        let process = Process::start(name, folder, &alone);
        let network = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).unwrap();
        let pid = process.pid().to_string();
        eventually(READY_WITHIN, "the program has a network of its own", async || network(&pid) != network("self"))
            .await;
        let machine = Machine { process, cable: format!("svc-{}-{name}", self.number), here: self.here };
        let (cable, here) = (machine.cable.as_str(), format!("{}/32", self.here));
        // It was left by a killed test: the number is ours now.
        remove(cable);
        ip(&["link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", &pid]);
        ip(&["address", "add", &here, "dev", cable]);
        ip(&["link", "set", cable, "up"]);
        machine.ip(&["address", "add", &self.there.to_string(), "peer", &here, "dev", "eth0"]);
        machine.ip(&["link", "set", "eth0", "up"]);
        machine
    }

    /// Routes the address to `machine`.
    pub fn lead_to(&self, machine: &Machine) {
        let (there, here) = (format!("{}/32", self.there), self.here.to_string());
        ip(&["route", "replace", &there, "dev", &machine.cable, "src", &here]);
    }

    /// Returns the local ports of established connections to the address.
    pub fn connections(&self) -> BTreeSet<u16> {
        let sockets = run(Command::new("ss").args(["-Htn", "state", "established", "dst", &self.there.to_string()]));
        let here = format!("{}:", self.here);
        sockets.split_whitespace().filter_map(|word| word.strip_prefix(&here)?.parse().ok()).collect()
    }
}

impl Machine {
    /// Drops everything that the machine sends. It still receives packets.
    pub fn fall_silent(&self) {
        self.ip(&["route", "replace", "blackhole", &format!("{}/32", self.here)]);
    }

    /// Drops everything that the machine sends over these connections, resets too, like a firewall.
    pub fn ignore(&self, connections: &BTreeSet<u16>) {
        for port in connections {
            let (here, port) = (self.here.to_string(), port.to_string());
            self.ip(&["rule", "add", "to", &here, "ipproto", "tcp", "dport", &port, "blackhole"]);
        }
    }

    fn ip(&self, arguments: &[&str]) {
        let pid = self.process.pid().to_string();
        run(Command::new("nsenter").args(["--target", &pid, "--net", "ip"]).args(arguments));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        remove(&self.cable);
    }
}

/// Removes a cable if it exists.
fn remove(cable: &str) {
    let _ = Command::new("ip").args(["link", "delete", cable]).output();
}

fn ip(arguments: &[&str]) {
    run(Command::new("ip").args(arguments));
}

#[track_caller]
fn assert_can_make_networks() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let has = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let has = u64::from_str_radix(has.trim(), 16).unwrap();
    let missing: Vec<_> = NEEDED.iter().filter(|(_, bit)| has >> bit & 1 == 0).map(|(name, _)| *name).collect();
    assert!(
        missing.is_empty(),
        "this test makes network namespaces, and lacks {}: run it as root (in a container, with these capabilities), or leave \
         it out by `-- --skip dropped_packets`",
        missing.join(" and ")
    );
}

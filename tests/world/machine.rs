//! Machines of their own, each a network namespace that a cable joins to this one, so that packets can be lost on the way. A relay
//! that falls silent is another matter: its kernel goes on acknowledging what it is sent.
//!
//! A namespace lives as long as the only program in it and the connections that this has left, which may wait for an answer for some
//! minutes; and the cable as long as the namespace, unless it is taken away before.

use std::{collections::BTreeSet, fs, net::Ipv4Addr, path::Path, process::Command};

use super::{
    READY_WITHIN, eventually, ports,
    process::{Process, run},
};

/// The networks that no machine on the internet has (RFC 2544), from which each address takes four.
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// What making namespaces and cables takes, with the bits of the capabilities in `/proc/self/status`.
const NEEDED: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];

/// An address that leads to one machine at a time.
pub struct Address {
    /// A number that no other test of this machine has at the same time.
    number: u16,
    /// Where the machines see this one.
    here: Ipv4Addr,
    /// The address itself.
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
    /// An address that leads to nobody yet.
    pub fn new() -> Self {
        let number = ports::free();
        let first = FIRST + 4 * u32::from(number - ports::FIRST);
        Self { number, here: (first + 1).into(), there: (first + 2).into() }
    }

    /// Starts `command` on a machine that has this address, and to which nothing leads yet. It may listen anywhere.
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
        // Of a test that was killed: the number is ours now.
        remove(cable);
        ip(&["link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", &pid]);
        ip(&["address", "add", &here, "dev", cable]);
        ip(&["link", "set", cable, "up"]);
        machine.ip(&["address", "add", &self.there.to_string(), "peer", &here, "dev", "eth0"]);
        machine.ip(&["link", "set", "eth0", "up"]);
        machine
    }

    /// Packets to the address go to `machine` from now on.
    pub fn lead_to(&self, machine: &Machine) {
        let (there, here) = (format!("{}/32", self.there), self.here.to_string());
        ip(&["route", "replace", &there, "dev", &machine.cable, "src", &here]);
    }

    /// The connections to the address that stand, by their ports here.
    pub fn connections(&self) -> BTreeSet<u16> {
        let sockets = run(Command::new("ss").args(["-Htn", "state", "established", "dst", &self.there.to_string()]));
        let here = format!("{}:", self.here);
        sockets.split_whitespace().filter_map(|word| word.strip_prefix(&here)?.parse().ok()).collect()
    }
}

impl Machine {
    /// What the machine sends is lost from now on. It hears what it is sent.
    pub fn fall_silent(&self) {
        self.ip(&["route", "replace", "blackhole", &format!("{}/32", self.here)]);
    }

    /// The machine says nothing over these connections from now on, as one does behind a firewall that does not know them: not even
    /// that they are not its own.
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

/// Takes a cable away, if it is there.
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

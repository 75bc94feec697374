//! The way between this machine and a node: a pair of interfaces, routes to pods and services, and the way out. All that
//! Kubernetes itself configures (bridges, iptables, ipsets) stays inside the node.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::addresses::Addresses;
use super::node::Node;
use super::record::Record;
use crate::command::Cmd;
use crate::{folders, say};

const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
const MTU: &str = "1400";

/// Connects the node.
///
/// # Errors
/// The kernel refuses an interface, an address or a route.
pub(crate) fn connect(node: &Node, addresses: Addresses) -> Result<()> {
    let outside = addresses.interface();
    let ip = |arguments: &[&str]| Cmd::new("ip").args(arguments).run();
    let within = |arguments: &[&str]| node.inside().arg("ip").args(arguments).run();
    // A remnant of a node that died with the machine's memory of it.
    let _ = Cmd::new("ip").args(["link", "del", &outside]).outcome();
    ip(&[
        "link",
        "add",
        &outside,
        "mtu",
        MTU,
        "type",
        "veth",
        "peer",
        "name",
        "uplink",
        "mtu",
        MTU,
        "netns",
        &node.pid.to_string(),
    ])?;
    ip(&["addr", "add", &format!("{}/30", addresses.machine()), "dev", &outside])?;
    ip(&["link", "set", &outside, "up"])?;
    within(&["link", "set", "lo", "up"])?;
    within(&["addr", "add", &format!("{}/30", addresses.node()), "dev", "uplink"])?;
    within(&["link", "set", "uplink", "up"])?;
    within(&["route", "add", "default", "via", &addresses.machine()])?;
    for range in [addresses.pods(), addresses.services()] {
        ip(&["route", "replace", &range, "via", &addresses.node()])
            .with_context(|| format!("{range} is in use on this machine; another cluster slot would be needed"))?;
    }
    // Every network namespace starts with its own defaults. Policies have to see packets that only cross the bridge.
    let settings = "echo 1 > /proc/sys/net/ipv4/ip_forward; \
                    for f in /proc/sys/net/bridge/bridge-nf-call-iptables /proc/sys/net/bridge/bridge-nf-call-ip6tables; do \
                    [ ! -e $f ] || echo 1 > $f; done";
    node.inside().args(["sh", "-c", settings]).run()?;
    open_way_out(addresses)
}

/// Lets pods reach what this machine reaches. Without it everything inside the cluster works all the same.
fn open_way_out(addresses: Addresses) -> Result<()> {
    let before = forwarding_note()?;
    let current = std::fs::read_to_string(FORWARDING)?;
    if current.trim() != "1" {
        if !before.exists() {
            std::fs::write(&before, current.trim())?;
        }
        std::fs::write(FORWARDING, "1").context("cannot switch on IP forwarding")?;
    }
    let rules = format!(
        "table ip {table} {{\n chain out {{\n  type nat hook postrouting priority 100;\n  ip saddr {link} oifname != \"{interface}\" masquerade\n }}\n}}\n",
        table = table(addresses),
        link = addresses.link(),
        interface = addresses.interface(),
    );
    let _ = Cmd::new("nft").args(["delete", "table", "ip", &table(addresses)]).outcome();
    if let Err(error) = Cmd::new("nft").args(["-f", "-"]).input(rules).run() {
        say::line(format!("  note  pods cannot leave this machine (nft: {error:#})"));
    }
    Ok(())
}

/// Removes what [`connect`] made on this machine. The last cluster to go restores IP forwarding.
///
/// # Errors
/// Something could not be removed.
pub(crate) fn disconnect(addresses: Addresses, others: &[Record]) -> Result<()> {
    if exists(addresses) {
        Cmd::new("ip").args(["link", "del", &addresses.interface()]).run()?;
    }
    if Cmd::new("nft").args(["list", "table", "ip", &table(addresses)]).succeeds() {
        Cmd::new("nft").args(["delete", "table", "ip", &table(addresses)]).run()?;
    }
    let before = forwarding_note()?;
    if others.is_empty() && before.exists() {
        std::fs::write(FORWARDING, std::fs::read_to_string(&before)?)?;
        std::fs::remove_file(&before)?;
    }
    Ok(())
}

/// Whether the pair of interfaces is there.
pub(crate) fn exists(addresses: Addresses) -> bool {
    PathBuf::from("/sys/class/net").join(addresses.interface()).exists()
}

fn table(addresses: Addresses) -> String {
    format!("openhands_{}", addresses.interface())
}

/// What IP forwarding was before the first cluster.
fn forwarding_note() -> Result<PathBuf> {
    Ok(folders::cache()?.join("ip_forward.before"))
}

//! Every address of a cluster follows from one small number, its slot, so that clusters side by side never meet. Knows no
//! state: who holds which slot is in the records.

use serde::{Deserialize, Serialize};

/// How many clusters fit beside each other.
pub(crate) const SLOTS: u8 = 32;

/// The addresses of the cluster in one slot. The node is reached from this machine over a pair of virtual interfaces; pods
/// and services over routes through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Addresses(u8);

impl Addresses {
    /// The lowest slot that is not taken.
    pub(crate) fn free(taken: &[Addresses]) -> Option<Self> {
        (0..SLOTS).map(Self).find(|slot| !taken.contains(slot))
    }

    /// This machine's end of the pair.
    pub(crate) fn machine(self) -> String {
        format!("10.210.{}.1", self.0)
    }

    /// The node's end of the pair: API server, kubelet, node ports.
    pub(crate) fn node(self) -> String {
        format!("10.210.{}.2", self.0)
    }

    /// The network of the pair.
    pub(crate) fn link(self) -> String {
        format!("10.210.{}.0/30", self.0)
    }

    /// Addresses of pods: 2,048 of them.
    pub(crate) fn pods(self) -> String {
        format!("10.211.{}.0/21", u16::from(self.0) * 8)
    }

    /// Addresses of services.
    pub(crate) fn services(self) -> String {
        format!("10.212.{}.0/21", u16::from(self.0) * 8)
    }

    /// The address of the service `kubernetes`.
    pub(crate) fn api_service(self) -> String {
        format!("10.212.{}.1", u16::from(self.0) * 8)
    }

    /// The address of the cluster's name server.
    pub(crate) fn dns_service(self) -> String {
        format!("10.212.{}.10", u16::from(self.0) * 8)
    }

    /// The interface on this machine.
    pub(crate) fn interface(self) -> String {
        format!("ohdev{}", self.0)
    }

    /// Where the API server answers.
    pub(crate) fn server(self) -> String {
        format!("https://{}:6443", self.node())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_handed_out_lowest_first_until_none_is_left() {
        assert_eq!(Addresses::free(&[]), Some(Addresses(0)));
        assert_eq!(Addresses::free(&[Addresses(0), Addresses(2)]), Some(Addresses(1)));
        let all: Vec<Addresses> = (0..SLOTS).map(Addresses).collect();
        assert_eq!(Addresses::free(&all), None);
    }

    #[test]
    fn addresses_of_the_first_and_the_last_slot() {
        let first = Addresses(0);
        assert_eq!(
            (first.link().as_str(), first.pods().as_str(), first.services().as_str()),
            ("10.210.0.0/30", "10.211.0.0/21", "10.212.0.0/21")
        );
        let last = Addresses(SLOTS - 1);
        assert_eq!(
            (last.node().as_str(), last.pods().as_str(), last.dns_service().as_str()),
            ("10.210.31.2", "10.211.248.0/21", "10.212.248.10")
        );
        assert!(last.interface().len() <= 15, "the kernel's limit for interface names");
    }
}

//! `kubectl port-forward` to a pod, ended when the value is dropped.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result};

use super::NAMESPACE;
use crate::cluster::target::Target;

/// A running port-forward.
#[derive(Debug)]
pub(crate) struct PortForward {
    child: Child,
    /// The port on this machine.
    pub(crate) port: u16,
}

impl PortForward {
    /// Forwards a free port of this machine to port 8000 of `pod`.
    ///
    /// # Errors
    /// kubectl does not say within ten seconds that it listens.
    pub(crate) fn open(target: &Target, pod: &str) -> Result<Self> {
        let command =
            target.kubectl()?.args(["--namespace", NAMESPACE, "port-forward", &format!("pod/{pod}"), ":8000"]);
        let mut child = command.spawn()?;
        let output = child.stdout.take().context("kubectl has no output")?;
        let (found, port) = channel();
        // The thread reads on to the end, so that kubectl never blocks on a full pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(port) = listening(&line) {
                    let _ = found.send(port);
                }
            }
        });
        match port.recv_timeout(Duration::from_secs(10)) {
            Ok(port) => Ok(Self { child, port }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error).context("kubectl port-forward does not listen")
            }
        }
    }
}

impl Drop for PortForward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port in `Forwarding from 127.0.0.1:40123 -> 8000`.
fn listening(line: &str) -> Option<u16> {
    line.strip_prefix("Forwarding from 127.0.0.1:")?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_says_where_it_listens() {
        assert_eq!(listening("Forwarding from 127.0.0.1:40123 -> 8000"), Some(40123));
        assert_eq!(listening("Forwarding from [::1]:40123 -> 8000"), None);
    }
}

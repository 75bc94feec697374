//! What the whole-system checks stand on: which tier is wanted, a real control plane, pods that answer without a kubelet, the
//! operator as a process, `kubectl` and `helm`; agent-servers, ours and the Python one, and other people's model servers.
//!
//! Nothing here links the operator or the server: the checks see what a user sees (resources, HTTP, processes). Only the model
//! layer is linked, to stand before those model servers without a server of ours around it. The wire shapes
//! of initialisation and report are written down a second time in [`fake_agent`], so that a mistake in the product's own types
//! cannot hide in its tests.

pub mod agent_server;
pub mod certificate;
pub mod command;
pub mod control_plane;
pub mod fake_agent;
pub mod fake_node;
pub mod helm;
pub mod http;
pub mod kubectl;
pub mod operator;
pub mod peer;
pub mod process;
pub mod requests;
pub mod resource;
pub mod tier;
pub mod wait;

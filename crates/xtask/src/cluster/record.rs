//! What is remembered of a cluster between commands: one small file in its state folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::addresses::{Addresses, SLOTS};
use super::node::Node;
use crate::folders;

/// One cluster of our own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its name.
    pub(crate) name: String,
    /// Its addresses.
    pub(crate) addresses: Addresses,
    /// The process that holds its namespaces, once there is one.
    pub(crate) node: Option<Node>,
    /// Process ids of the components inside the node's process namespace.
    pub(crate) components: BTreeMap<String, u32>,
    /// Folders outside the state folder that were made for it, parents first.
    pub(crate) made_folders: Vec<PathBuf>,
    /// Digests of the images that were imported, by name.
    pub(crate) images: BTreeMap<String, String>,
}

const FILE: &str = "cluster.json";

impl Record {
    /// The record of the cluster called `name`, when there is one.
    ///
    /// # Errors
    /// It is there but cannot be read.
    pub(crate) fn load(name: &str) -> Result<Option<Self>> {
        Self::read(&folders::clusters()?.join(name))
    }

    fn read(folder: &Path) -> Result<Option<Self>> {
        let file = folder.join(FILE);
        match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| {
                    format!("{} is damaged; `cargo xtask cluster down` removes the cluster", file.display())
                })
                .map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| file.display().to_string()),
        }
    }

    /// Every recorded cluster. Damaged records are left out.
    ///
    /// # Errors
    /// The folder of clusters cannot be read.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let mut records = Vec::new();
        for entry in std::fs::read_dir(folders::clusters()?)? {
            if let Ok(Some(record)) = Self::read(&entry?.path()) {
                records.push(record);
            }
        }
        Ok(records)
    }

    /// A new record with a free slot, saved.
    ///
    /// # Errors
    /// All slots are taken, or the record cannot be written.
    pub(crate) fn create(name: &str) -> Result<Self> {
        let _lock = folders::lock("cluster-slots")?;
        let taken: Vec<Addresses> = Self::all()?.iter().map(|record| record.addresses).collect();
        let Some(addresses) = Addresses::free(&taken) else {
            bail!("{SLOTS} clusters exist; take one down first (`cargo xtask cluster down --name ...`)");
        };
        let record = Self {
            name: name.to_owned(),
            addresses,
            node: None,
            components: BTreeMap::new(),
            made_folders: Vec::new(),
            images: BTreeMap::new(),
        };
        folders::made(record.folder()?)?;
        record.save()?;
        Ok(record)
    }

    /// Writes the record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn save(&self) -> Result<()> {
        let file = self.folder()?.join(FILE);
        let fresh = file.with_extension("fresh");
        std::fs::write(&fresh, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(&fresh, &file)?;
        Ok(())
    }

    /// The cluster's state folder.
    ///
    /// # Errors
    /// There is no cache folder.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        Ok(folders::clusters()?.join(&self.name))
    }

    /// The administrator's kubeconfig.
    ///
    /// # Errors
    /// There is no cache folder.
    pub(crate) fn kubeconfig(&self) -> Result<PathBuf> {
        Ok(self.folder()?.join("pki").join("admin.kubeconfig"))
    }

    /// The socket of the cluster's containerd, reachable from this machine.
    ///
    /// # Errors
    /// There is no cache folder.
    pub(crate) fn containerd(&self) -> Result<PathBuf> {
        Ok(self.folder()?.join("containerd.sock"))
    }
}

//! Who and where the shell is, as its prompt would say.

/// The user and the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's name, or the number when the system knows no name for it.
    pub user: String,
    /// The machine's name.
    pub host: String,
}

impl Account {
    /// The account of this process.
    #[must_use]
    pub fn current() -> Self {
        let id = rustix::process::geteuid().as_raw().to_string();
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let user = users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == id).then(|| name.to_owned())
        });
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { user: user.unwrap_or(id), host }
    }
}

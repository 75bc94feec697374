//! Starts a terminal: the shell, its reader, its preparation.

use std::{
    os::fd::AsFd as _,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use rustix::process::Pid;
use tokio::{sync::Mutex, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Dialect, Patience, Terminal, TerminalError, TerminalOptions, Waited,
    dialect::{self, bash_preparation, bash_token},
    reader,
    spawn::{self, Spawned},
    state::{Phase, Shared},
};

/// How long a shell may take to become ready; start files of users can be slow.
const READY: Duration = Duration::from_secs(10);

impl Terminal {
    /// Starts a shell and waits until it takes commands (a few milliseconds). When bash does not come up with its start
    /// files, it is started again without them.
    ///
    /// # Errors
    /// [`TerminalError`] when there is no shell, it cannot be started or does not become ready within ten seconds.
    pub async fn start(options: &TerminalOptions) -> Result<Self, TerminalError> {
        match Self::start_once(options).await {
            Err(TerminalError::NotReady(_)) if options.start_files => {
                tracing::warn!("the shell did not become ready with its start files, trying without");
                Self::start_once(&TerminalOptions { start_files: false, ..options.clone() }).await
            }
            result => result,
        }
    }

    async fn start_once(options: &TerminalOptions) -> Result<Self, TerminalError> {
        let (shell, dialect) = spawn::choose(options)?;
        let prompt_token = token();
        let Spawned { child, pty, modes, control } = spawn::spawn(options, &shell, dialect, &prompt_token)?;
        let name = shell.display().to_string();
        let failed = |source| TerminalError::Start {
            shell: name.clone(),
            directory: options.directory.display().to_string(),
            source,
        };
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leader = leader.ok_or_else(|| TerminalError::NotReady(name.clone()))?;
        let terminal = pty.as_fd().try_clone_to_owned().map_err(failed)?;
        let (output, input) = pty.into_split();
        let shared = Arc::new(Shared::new(prompt_token.clone()));
        let reader = tokio::spawn(reader::read(output, child, Arc::clone(&shared)));
        let posix = match dialect {
            Dialect::Bash => None,
            Dialect::Posix => Some((tempfile::tempdir().map_err(failed)?, prompt_token)),
        };
        let (control, wiring) = control.unzip();
        let this = Self {
            shared,
            dialect,
            leader,
            terminal,
            modes,
            input: Mutex::new(input),
            control: Mutex::new(control),
            sync: wiring.as_ref().map(|wiring| wiring.sync.clone()).unwrap_or_default(),
            posix,
            reader,
            closed: AtomicBool::new(false),
        };
        // What the start files print is no output: nothing counts before the first mark.
        this.shared.lock().phase = Phase::Starting;
        let prepare = async {
            if let Some(wiring) = &wiring {
                let token = token();
                this.shared.lock().scanner.expect(token.clone());
                let mut record = bash_preparation(wiring).into_bytes();
                record.push(0);
                record.extend(bash_token(&wiring.sync, &token));
                this.write_control(&record).await?;
            } else {
                this.write_posix(dialect::posix_preparation).await?;
            }
            this.ready(&name).await
        };
        let ready = timeout(READY, prepare).await.unwrap_or_else(|_| Err(TerminalError::NotReady(name.clone())));
        ready.map(|()| this)
    }

    async fn ready(&self, name: &str) -> Result<(), TerminalError> {
        let patience = Patience { quiet: None, total: READY, until_input: false };
        match self.wait(&patience, &CancellationToken::new()).await {
            Waited::Finished(_) => {
                let _ = self.take_output();
                Ok(())
            }
            _ => Err(TerminalError::NotReady(name.to_owned())),
        }
    }
}

/// A word that nobody can guess.
pub(super) fn token() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

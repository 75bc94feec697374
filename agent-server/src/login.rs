//! The commands that sign somebody in with a vendor's plan on this machine, and out again. They use the files of the server that
//! runs for the same user; it need not run.

use std::{io::Write as _, path::Path, process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use openhands_subscription::{
    CredentialStore, LoginMethod, LoginOptions, Person, Service, Subscription, SubscriptionError, Terminal, Vendor,
    subscription_login,
};
use tokio_util::sync::CancellationToken;

/// What to do with the sign-in.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Sign in with a ChatGPT plan, in a browser on this machine or with a code
    Login(Login),
    /// Say whether somebody is signed in
    Status,
    /// List the models that a plan pays for
    Models,
    /// Forget the stored tokens
    Logout,
}

/// How to sign in.
#[derive(Debug, Args)]
pub struct Login {
    /// Use a code that is entered in any browser, for machines without one
    #[arg(long)]
    device: bool,
    /// Show the address instead of opening a browser
    #[arg(long, conflicts_with = "device")]
    no_browser: bool,
    /// Sign in anew even if the stored tokens are good
    #[arg(long)]
    force: bool,
    /// Leave the notice out: the vendor's terms are agreed to already
    #[arg(long)]
    accept_terms: bool,
}

/// Does it, with the tokens of the user who runs this.
#[must_use]
pub fn main(command: Command) -> ExitCode {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let configured = std::env::var("OH_PERSISTENCE_DIR").ok();
    let folder = openhands_settings::persistence_dir(configured.as_deref(), home.as_deref());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match (runtime, std::path::absolute(&folder)) {
        (Ok(runtime), Ok(folder)) => {
            let code = runtime.block_on(run(command, &folder));
            // A question that nobody answers must not hold the process.
            runtime.shutdown_background();
            code
        }
        (Err(error), _) | (_, Err(error)) => {
            Terminal.tell(&format!("error: cannot start: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Does it, with tokens below `folder`.
async fn run(command: Command, folder: &Path) -> ExitCode {
    let cancel = CancellationToken::new();
    let interrupted = cancel.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupted.cancel();
        }
    });
    match carry_out(command, folder, &cancel).await {
        Ok(text) => {
            // The result alone goes to standard output, for programs that read it.
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            Terminal.tell(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn carry_out(command: Command, folder: &Path, cancel: &CancellationToken) -> Result<String, SubscriptionError> {
    let store = CredentialStore::new(folder.join("auth"));
    let subscription = Subscription::new(store, Service::openai(|name| std::env::var(name).ok())?);
    match command {
        Command::Login(Login { device, no_browser, force, accept_terms }) => {
            let options = LoginOptions {
                force_login: force,
                open_browser: !no_browser,
                method: if device { LoginMethod::DeviceCode } else { LoginMethod::Browser },
                skip_consent: accept_terms,
                ..LoginOptions::default()
            };
            subscription_login(&subscription, Arc::new(Terminal), options, cancel).await?;
            status(&subscription).await
        }
        Command::Status => status(&subscription).await,
        Command::Models => Ok(Vendor::OpenAi.models().join("\n")),
        Command::Logout => Ok(match subscription.logout().await? {
            true => "Signed out.".to_owned(),
            false => "Nobody was signed in.".to_owned(),
        }),
    }
}

async fn status(subscription: &Subscription) -> Result<String, SubscriptionError> {
    let status = subscription.status().await?.ok_or(SubscriptionError::NotSignedIn)?;
    let who = status.account_email.map(|email| format!(" as {email}")).unwrap_or_default();
    Ok(format!("Signed in{who}. The tokens are kept in {}.", subscription.store().dir().display()))
}

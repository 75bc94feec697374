//! The `openhands-agent-server` command: parses the command line, sets up logging, and becomes a parent or a server.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::Parser;
use openhands_agent_server::{
    login,
    run::{Options, run},
    supervise,
};
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// What most people set; all of them are in docs/server.md.
const VARIABLES: &str = "\
Variables:
  OH_SESSION_API_KEYS_0  Key that clients send as X-Session-API-Key; without it all may do all
  OH_SECRET_KEY          Encrypts stored keys and secrets; without it they are not kept
  OH_CONVERSATIONS_PATH  Where conversations are stored [default: workspace/conversations]
  OH_PERSISTENCE_DIR     Where model profiles and settings are stored [default: ~/.openhands]
  LLM_MODEL              Model of agents that name none, with LLM_API_KEY, LLM_BASE_URL, ...
  LOG_LEVEL              error, warning, info, debug or trace [default: info]";

/// An agent-server: conversations with agents over REST and WebSocket. Configured by OH_* variables.
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = VARIABLES)]
struct Arguments {
    /// Address to listen on [default: 127.0.0.1, or 0.0.0.0 when session keys are set]
    #[arg(long)]
    host: Option<String>,
    /// Port to listen on
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Seconds that runs and commands may take to end after SIGTERM
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(0..=600))]
    grace_seconds: u64,
    /// Run below a parent process that reaps orphans and restarts a crashed server (as process 1 always)
    #[arg(long)]
    supervise: bool,
    #[arg(long, hide = true)]
    supervised: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Copy this program to a path and end; for pods whose image has no server
    Install {
        /// Where to, a file in a folder that exists
        target: std::path::PathBuf,
    },
    /// Sign in with a model vendor's plan instead of a key
    Subscription {
        #[command(subcommand)]
        command: login::Command,
    },
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    log();
    let command = arguments.command.take();
    if let Some(Command::Subscription { command }) = command {
        return login::main(command);
    }
    if let Some(Command::Install { target }) = &command {
        return match openhands_agent_server::install::install(target) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, "cannot install the server");
                ExitCode::FAILURE
            }
        };
    }
    let grace = Duration::from_secs(arguments.grace_seconds);
    if !arguments.supervised && (arguments.supervise || supervise::is_first_process()) {
        let child: Vec<OsString> = std::env::args_os().skip(1).filter(|argument| argument != "--supervise").collect();
        return supervise::run(child, grace).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot supervise the server");
            ExitCode::FAILURE
        });
    }
    supervise::hide_memory();
    // Few threads: a server of one pod waits most of its time, and each thread costs memory.
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(32)
        .thread_keep_alive(Duration::from_secs(5))
        .enable_all()
        .build();
    let Arguments { host, port, grace_seconds: _, supervise: _, supervised, command: _ } = arguments;
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(run(Options { host, port, grace, supervised }));
            // Blocked threads must not hold the process: everything that matters has been written.
            runtime.shutdown_timeout(Duration::from_millis(200));
            code
        }
        Err(error) => {
            tracing::error!(%error, "cannot start the runtime");
            ExitCode::FAILURE
        }
    }
}

/// `LOG_LEVEL` (error, warning, info, debug; `DEBUG=1` is debug) for our own messages, warnings of others; `LOG_JSON=1` for
/// JSON lines.
fn log() {
    let is_yes = |name: &str| std::env::var(name).is_ok_and(|text| text == "1" || text.eq_ignore_ascii_case("true"));
    let level = match std::env::var("LOG_LEVEL").unwrap_or_default().to_ascii_lowercase().as_str() {
        "error" | "critical" | "fatal" => tracing::Level::ERROR,
        "warn" | "warning" => tracing::Level::WARN,
        "debug" => tracing::Level::DEBUG,
        "trace" => tracing::Level::TRACE,
        _ if is_yes("DEBUG") => tracing::Level::DEBUG,
        _ => tracing::Level::INFO,
    };
    let ours = [
        "agent_server",
        "conversation",
        "agent",
        "llm",
        "tools",
        "workspace",
        "store",
        "secrets",
        "prompts",
        "subscription",
    ];
    let targets = Targets::new()
        .with_default(level.min(tracing::Level::WARN))
        .with_targets(ours.map(|name| (format!("openhands_{name}"), level)));
    let registry = tracing_subscriber::registry();
    if is_yes("LOG_JSON") {
        registry.with(tracing_subscriber::fmt::layer().json().with_writer(std::io::stderr).with_filter(targets)).init();
    } else {
        let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
        registry.with(layer.with_filter(targets)).init();
    }
}

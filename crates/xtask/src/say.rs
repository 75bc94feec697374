//! What a person sees: lines and timed steps, all on standard error. Standard output is left to results that another
//! program may read. Knows nothing of what the steps do.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// How often a long step tells that it is still alive when nobody watches a spinner.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// What the program that a step runs has said last.
static HEARD: Mutex<String> = Mutex::new(String::new());

/// Keeps what a program said, for whoever watches the step that runs it.
pub(crate) fn heard(text: &str) {
    let text = text.trim();
    if let (false, Ok(mut heard)) = (text.is_empty(), HEARD.lock()) {
        heard.clear();
        heard.extend(text.chars().filter(|c| !c.is_control()).take(70));
    }
}

/// The same for printing, behind a colon; nothing when nothing was said.
fn last_heard() -> String {
    HEARD.lock().map(|heard| if heard.is_empty() { String::new() } else { format!(": {heard}") }).unwrap_or_default()
}

/// Writes one line for the person.
pub(crate) fn line(text: impl Display) {
    // Nobody is left to be told when the terminal is gone.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes one line that is the result of the command.
pub(crate) fn result(text: impl Display) {
    // As with `| head`: whoever stopped reading has seen enough.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Runs `work` under a name, shows that it is alive, and tells how long it took.
///
/// # Errors
/// The error of `work`, unchanged.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    if let Ok(mut heard) = HEARD.lock() {
        heard.clear();
    }
    let signal = Signal::start(name);
    let outcome = work();
    signal.end();
    let took = seconds(started.elapsed());
    match &outcome {
        Ok(_) => line(format!("  ok    {name} ({took})")),
        Err(_) => line(format!("  FAIL  {name} ({took})")),
    }
    outcome
}

/// A duration as a person reads it: `0.4 s`, `12.3 s`, `3 min 05 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole >= 120 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

/// A spinner on a terminal, a line now and then elsewhere.
enum Signal {
    Spinner(ProgressBar),
    Lines(Sender<()>, JoinHandle<()>),
}

impl Signal {
    fn start(name: &str) -> Self {
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg} ({elapsed}){heard}") {
                let heard = |_: &ProgressState, out: &mut dyn std::fmt::Write| {
                    let _ = out.write_str(&last_heard());
                };
                bar.set_style(style.with_key("heard", heard));
            }
            bar.set_message(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            return Self::Spinner(bar);
        }
        line(format!("  ...   {name}"));
        let (stop, stopped) = channel::<()>();
        let name = name.to_owned();
        let started = Instant::now();
        let beat = std::thread::spawn(move || {
            while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
                line(format!("  ...   {name}: {}{}", seconds(started.elapsed()), last_heard()));
            }
        });
        Self::Lines(stop, beat)
    }

    fn end(self) {
        match self {
            Self::Spinner(bar) => bar.finish_and_clear(),
            Self::Lines(stop, beat) => {
                drop(stop);
                // A heartbeat that panicked has nothing to tell.
                let _ = beat.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_a_person_says_them() {
        assert_eq!(seconds(Duration::from_millis(420)), "0.4 s");
        assert_eq!(seconds(Duration::from_secs(119)), "119.0 s");
        assert_eq!(seconds(Duration::from_secs(185)), "3 min 05 s");
    }
}

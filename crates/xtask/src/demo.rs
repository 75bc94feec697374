//! `cargo xtask demo`: from nothing to a Conversation whose agent made a file in its pod, told step by step.

mod events;
mod http;
mod model;
mod objects;
mod port;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;

use crate::cluster::target::Target;
use crate::cluster::{self, Provider};
use crate::command::Cmd;
use crate::image::rust::Profile;
use crate::image::{build, deliver};
use crate::{folders, say, wait};
use model::Model;

/// The cluster that the demo makes for itself.
const CLUSTER: &str = "demo";
/// Where the operator lives.
const SYSTEM: &str = "openhands-system";
/// Where the conversation lives.
pub(crate) const NAMESPACE: &str = "openhands-demo";
/// The file that the agent is asked to make.
const PROOF: &str = "hello.txt";

/// How the demo is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// An existing cluster, by a context of your kubeconfig; its nodes must find the images
    #[arg(long)]
    context: Option<String>,
    /// Leave everything running, to look around
    #[arg(long)]
    keep: bool,
    /// How the binaries are built
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,
}

/// Runs the demo and cleans up after it.
///
/// # Errors
/// A step failed; the message has what the cluster says about it.
pub(crate) fn run(options: &Options) -> Result<()> {
    let started = Instant::now();
    say::line(
        "From nothing to an agent's finished work on a real Kubernetes. Everything built is kept for the next run.",
    );
    let _turn = folders::turn(CLUSTER)?;
    let target = match &options.context {
        Some(context) => Target::Context(context.clone()),
        None => cluster::ensure(CLUSTER, Provider::Auto)?,
    };
    let outcome = show(&target, options).with_context(|| "the demo stopped");
    if outcome.is_err() {
        say::line(story(&target));
    }
    if options.keep {
        tell_how_to_look(&target, options)?;
    } else {
        clean_up(&target, options)?;
    }
    outcome?;
    say::line(format!("Done in {}.", say::seconds(started.elapsed())));
    Ok(())
}

fn show(target: &Target, options: &Options) -> Result<()> {
    let images = build::all(options.profile)?;
    deliver::to(target, &images)?;
    if target.kubectl()?.args(["get", "namespace", NAMESPACE]).succeeds() {
        // A kept demo has used up its script, and its pods run the images of that time.
        say::step("remove what an earlier demo left", || {
            kubectl(target, &["delete", "conv,wp", "--all", "--timeout=90s"])?;
            target.kubectl()?.args(["delete", "namespace", NAMESPACE, "--timeout=100s"]).run()
        })?;
    }
    apply(target, &objects::namespace())?;
    say::step("install the operator by Helm", || install(target, &images))?;
    let model = Model::from_environment()?;
    say::line(format!("  model {}", model.describe()));
    say::step("model and warm pool", || {
        for object in model.objects()? {
            apply(target, &object)?;
        }
        if model.is_scripted() {
            kubectl(target, &["wait", "--for=condition=Ready", "--timeout=120s", "pod/model"])?;
        }
        apply(target, &objects::warm_pool())
    })?;
    say::step("the pool gets warm", || {
        wait::until(Duration::from_secs(180), "two ready members of the pool", || {
            let pool = get(target, &["wp", objects::POOL])?;
            Ok((pool.pointer("/status/ready").and_then(Value::as_i64).unwrap_or(0) >= 2).then_some(()))
        })
    })?;
    say::line(kubectl(target, &["get", "wp"])?.trim_end());

    let key = model.address(target)?;
    let applied = Instant::now();
    apply(target, &objects::conversation(&model, key.as_deref(), PROOF))?;
    let conversation = wait::until(Duration::from_secs(120), "a pod for the conversation", || {
        let conversation = get(target, &["conv", objects::CONVERSATION])?;
        Ok(is_true(&conversation, "Ready").then_some(conversation))
    })?;
    let ready = applied.elapsed();
    say::line(format!("  ok    claimed and ready {} after kubectl apply began", say::seconds(ready)));
    let pod = text(&conversation, "/status/sandbox/pod")?.to_owned();
    events::follow(target, &conversation, &pod)?;

    kubectl(target, &["wait", "--for=condition=Finished", "--timeout=60s", "conv", objects::CONVERSATION])?;
    let finished = applied.elapsed();
    let conversation = get(target, &["conv", objects::CONVERSATION])?;
    ensure!(
        conversation.pointer("/status/sandbox/warm") == Some(&Value::Bool(true)),
        "the claim was cold: {}",
        conversation.pointer("/status").unwrap_or(&Value::Null)
    );
    let reason =
        condition(&conversation, "Finished").and_then(|c| c.get("reason")).and_then(Value::as_str).unwrap_or("unknown");
    let content = proof(target, &pod)?;
    say::line(kubectl(target, &["get", "wp,conv", "-o", "wide"])?.trim_end());
    say::line(format!("\n  the file in pod {pod}: {}", content.trim_end()));
    say::line(format!("  Finished=True ({reason}), the claim was warm"));
    if let Ok(words) = text(&conversation, "/status/finalMessage") {
        say::line(format!("  final message: {words}"));
    }
    let bound = between(&conversation, "/metadata/creationTimestamp", "/status/sandbox/readyAt");
    say::line(format!("  apply to Ready {}{bound}, apply to Finished {}", say::seconds(ready), say::seconds(finished)));
    Ok(())
}

/// The file, wherever the agent's working folder is.
fn proof(target: &Target, pod: &str) -> Result<String> {
    let script = format!("cat \"$(find / -name {PROOF} -not -path '/proc/*' 2>/dev/null | head -n 1)\"");
    kubectl(target, &["exec", pod, "--", "sh", "-c", &script]).context("the agent made no file in its pod")
}

fn install(target: &Target, images: &[build::Image]) -> Result<()> {
    let chart = folders::repository().join("charts").join("openhands-operator");
    let fenced = format!("sandbox.networkPolicy.namespaces={{{NAMESPACE}}}");
    // The tag stays the same, so an operator that runs already would not notice that its image is another one.
    let digest =
        images.iter().find(|image| image.name == crate::image::OPERATOR).map_or("", |image| image.digest.as_str());
    let built = format!("podAnnotations.openhands\\.dev/image={digest}");
    target
        .helm()?
        .args(["upgrade", "--install", "openhands-operator"])
        .arg(chart)
        .args(["--namespace", SYSTEM, "--create-namespace", "--wait", "--timeout=180s"])
        .args(["--set", "image.tag=dev", "--set", "replicas=1", "--set", &fenced, "--set-string", &built])
        .limit(Duration::from_secs(240))
        .run()
        .map(|_| ())
}

fn clean_up(target: &Target, options: &Options) -> Result<()> {
    if options.context.is_none() {
        return cluster::down(CLUSTER);
    }
    say::step("clean up", || {
        kubectl(target, &["delete", "conv,wp", "--all", "--ignore-not-found", "--timeout=90s"])?;
        target.kubectl()?.args(["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false"]).run()?;
        target
            .helm()?
            .args(["uninstall", "openhands-operator", "--namespace", SYSTEM, "--ignore-not-found", "--wait"])
            .run()?;
        target.kubectl()?.args(["delete", "namespace", SYSTEM, "--ignore-not-found", "--wait=false"]).run().map(|_| ())
    })
}

fn tell_how_to_look(target: &Target, options: &Options) -> Result<()> {
    if options.context.is_none() {
        say::line(format!("Kept. Look around:  eval \"$(cargo xtask cluster env --name {CLUSTER})\""));
        if let Some(file) = target.kubeconfig()? {
            say::line(format!(
                "                    kubectl --kubeconfig {} -n {NAMESPACE} get conv,wp,pods",
                file.display()
            ));
        }
        say::line(format!("Take it down:       cargo xtask cluster down --name {CLUSTER}"));
    }
    Ok(())
}

/// What helps to understand a failure.
fn story(target: &Target) -> String {
    let questions: [&[&str]; 4] = [
        &["get", "conv,wp,pods", "--all-namespaces", "-o", "wide"],
        &["describe", "conv,wp", "-n", NAMESPACE],
        &["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"],
        &["logs", "-n", SYSTEM, "-l", "app.kubernetes.io/name=openhands-operator", "--tail=40", "--prefix"],
    ];
    let mut told = String::new();
    for question in questions {
        let answer = target.kubectl().and_then(|command| command.args(question).outcome());
        let answer = answer.map_or_else(
            |error| error.to_string(),
            |outcome| if outcome.stdout.is_empty() { outcome.tail } else { outcome.stdout },
        );
        told.push_str(&format!("--- kubectl {}\n{answer}\n", question.join(" ")));
    }
    told
}

/// Runs kubectl in the demo's namespace.
pub(crate) fn kubectl(target: &Target, arguments: &[&str]) -> Result<String> {
    target.kubectl()?.args(["--namespace", NAMESPACE]).args(arguments).run()
}

fn apply(target: &Target, object: &Value) -> Result<()> {
    let command: Cmd = target.kubectl()?.args(["apply", "--filename", "-"]).input(object.to_string());
    command.run().map(|_| ())
}

/// One object as JSON.
pub(crate) fn get(target: &Target, what: &[&str]) -> Result<Value> {
    let answer = kubectl(target, &[&["get", "-o", "json"], what].concat())?;
    serde_json::from_str(&answer).context("kubectl printed no JSON")
}

/// The text at a JSON pointer.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Result<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).with_context(|| format!("{pointer} is not set"))
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).and_then(|condition| condition.get("status")).and_then(Value::as_str) == Some("True")
}

/// The two times as the API server and the operator wrote them, when both are there.
fn between(object: &Value, from: &str, to: &str) -> String {
    match (text(object, from), text(object, to)) {
        (Ok(from), Ok(to)) => format!(" (created {from}, ready {to})"),
        _ => String::new(),
    }
}

/// A model's answer that says what went wrong is worth more than a time-out.
pub(crate) fn refuse_failed(conversation: &Value) -> Result<()> {
    if is_true(conversation, "Failed") {
        bail!("the conversation failed: {}", condition(conversation, "Failed").unwrap_or(&Value::Null));
    }
    Ok(())
}

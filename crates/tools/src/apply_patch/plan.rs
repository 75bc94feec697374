//! Works out what a patch does to the files of a workspace before any is touched, then does it.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    locate,
    parse::{Change, Section},
};
use crate::file::{LARGEST_CONTENT, Refusal, text::TextFile, write};

/// What will be done to one file.
#[derive(Debug)]
struct Step {
    /// As the patch spells it.
    shown: String,
    path: PathBuf,
    deed: Deed,
}

#[derive(Debug)]
enum Deed {
    Add { text: String },
    Delete { old: Option<String> },
    Update { old: String, new: String, bytes: Vec<u8>, move_to: Option<(String, PathBuf)> },
}

/// All steps of a patch, none done yet.
#[derive(Debug)]
pub(super) struct Plan {
    steps: Vec<Step>,
    /// How forgiving the search for places had to be; 0 is exact.
    pub(super) fuzz: u32,
}

impl Plan {
    /// Checks every section against the files.
    ///
    /// # Errors
    /// A text about the first section that does not fit.
    pub(super) fn new(sections: &[Section<'_>], workspace: &Path) -> Result<Self, Refusal> {
        let mut plan = Self { steps: Vec::with_capacity(sections.len()), fuzz: 0 };
        for section in sections {
            let path = inside(workspace, section.path)?;
            let about = |refusal: Refusal| Refusal(format!("{}: {}", section.path, refusal.0));
            let deed = match &section.change {
                Change::Add(lines) => {
                    free(&path, "change it with `*** Update File`").map_err(about)?;
                    Deed::Add { text: lines.iter().flat_map(|line| [line, "\n"]).collect() }
                }
                Change::Delete => {
                    there(&path).map_err(about)?;
                    // A binary file can go as well; it is only not shown.
                    Deed::Delete { old: TextFile::read(&path).ok().map(|file| file.text) }
                }
                Change::Update { move_to, hunks } => {
                    there(&path).map_err(about)?;
                    let file = TextFile::read(&path)?;
                    let (new, fuzz) = locate::apply(&file.text, hunks, file.has_crlf()).map_err(about)?;
                    plan.fuzz = plan.fuzz.saturating_add(fuzz);
                    let move_to = move_to.map(|to| target(workspace, to)).transpose().map_err(about)?;
                    let (bytes, _) = file.encode(&new);
                    Deed::Update { old: file.text, new, bytes, move_to }
                }
            };
            plan.steps.push(Step { shown: section.path.to_owned(), path, deed });
        }
        plan.check_distinct()?;
        Ok(plan)
    }

    /// Two spellings of one file would undo each other.
    fn check_distinct(&self) -> Result<(), Refusal> {
        let mut seen: Vec<&Path> = Vec::new();
        for step in &self.steps {
            let target = match &step.deed {
                Deed::Update { move_to: Some((_, target)), .. } => Some(target.as_path()),
                _ => None,
            };
            for path in [Some(step.path.as_path()), target].into_iter().flatten() {
                if seen.contains(&path) {
                    return Err(Refusal(format!(
                        "{} occurs twice in the patch; give each file one section",
                        step.shown
                    )));
                }
                seen.push(path);
            }
        }
        Ok(())
    }

    /// Does it.
    ///
    /// # Errors
    /// A text about the step that failed and what was done before it.
    pub(super) fn carry_out(&self) -> Result<(), Refusal> {
        for (index, step) in self.steps.iter().enumerate() {
            if let Err(Refusal(why)) = step.carry_out() {
                let done: Vec<String> = self.steps.iter().take(index).map(Step::told).collect();
                let before = if done.is_empty() {
                    "Nothing was changed.".to_owned()
                } else {
                    format!("Done before: {}.", done.join(", "))
                };
                return Err(Refusal(format!("{}: {why}. {before}", step.shown)));
            }
        }
        Ok(())
    }

    /// What was done, for the model.
    pub(super) fn told(&self) -> String {
        let done: Vec<String> = self.steps.iter().map(Step::told).collect();
        let note = if self.fuzz == 0 {
            ""
        } else {
            " Some lines differed in white space from the patch; the file's were kept."
        };
        format!("Done: {}.{note}", done.join(", "))
    }

    /// What was done, for clients (`commit` of the observation).
    pub(super) fn commit(&self) -> Value {
        let changes: Map<String, Value> = self.steps.iter().map(|step| (step.shown.clone(), step.change())).collect();
        json!({ "changes": changes })
    }
}

impl Step {
    fn carry_out(&self) -> Result<(), Refusal> {
        let failed = |error: io::Error| Refusal(error.to_string());
        match &self.deed {
            Deed::Add { text } => write::create(&self.path, text.as_bytes()),
            Deed::Delete { .. } => fs::remove_file(&self.path).map_err(failed),
            Deed::Update { old, new, bytes, move_to } => {
                if old != new {
                    write::replace(&self.path, bytes)?;
                }
                let Some((_, target)) = move_to else { return Ok(()) };
                if let Some(parent) = target.parent() {
                    fs::create_dir_all(parent).map_err(failed)?;
                }
                fs::rename(&self.path, target).map_err(failed)
            }
        }
    }

    fn told(&self) -> String {
        match &self.deed {
            Deed::Add { .. } => format!("{} added", self.shown),
            Deed::Delete { .. } => format!("{} deleted", self.shown),
            Deed::Update { move_to: Some((to, _)), old, new, .. } if old == new => {
                format!("{} moved to {to}", self.shown)
            }
            Deed::Update { move_to: Some((to, _)), .. } => format!("{} updated and moved to {to}", self.shown),
            Deed::Update { move_to: None, .. } => format!("{} updated", self.shown),
        }
    }

    fn change(&self) -> Value {
        let (kind, old, new, to) = match &self.deed {
            Deed::Add { text } => ("add", None, Some(text), None),
            Deed::Delete { old } => ("delete", old.as_ref(), None, None),
            Deed::Update { old, new, move_to, .. } => ("update", Some(old), Some(new), move_to.as_ref()),
        };
        let mut change = Map::from_iter([("type".to_owned(), kind.into())]);
        for (name, content) in [("old_content", old), ("new_content", new)] {
            if let Some(content) = content.filter(|content| content.len() <= LARGEST_CONTENT) {
                change.insert(name.to_owned(), content.as_str().into());
            }
        }
        if let Some((to, _)) = to {
            change.insert("move_path".to_owned(), to.as_str().into());
        }
        Value::Object(change)
    }
}

/// Where a file is moved to: a new name inside the workspace.
fn target(workspace: &Path, shown: &str) -> Result<(String, PathBuf), Refusal> {
    let path = inside(workspace, shown)?;
    free(&path, "delete it first, or choose another name")?;
    Ok((shown.to_owned(), path))
}

/// The path a patch means; links are followed as far as there is something, and must not lead out (F2-GPT5-07r).
fn inside(workspace: &Path, shown: &str) -> Result<PathBuf, Refusal> {
    let root = workspace
        .canonicalize()
        .map_err(|error| Refusal(format!("the working directory {} cannot be read: {error}", workspace.display())))?;
    let outside =
        || Refusal(format!("{shown} is outside of the working directory {}; patches stay inside", workspace.display()));
    let mut path = if Path::new(shown).is_absolute() { PathBuf::from("/") } else { root.clone() };
    for part in Path::new(shown).components() {
        match part {
            Component::Normal(name) => {
                path.push(name);
                // What does not exist yet has nothing to follow.
                if let Ok(real) = path.canonicalize() {
                    path = real;
                } else if path.symlink_metadata().is_ok() {
                    return Err(Refusal(format!("{shown} is, or leads through, a link to nowhere")));
                }
            }
            Component::ParentDir => {
                path.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    if path.starts_with(&root) && path != root { Ok(path) } else { Err(outside()) }
}

fn there(path: &Path) -> Result<(), Refusal> {
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(Refusal("it is no regular file".to_owned())),
        Err(_) => Err(Refusal("there is no such file".to_owned())),
    }
}

fn free(path: &Path, otherwise: &str) -> Result<(), Refusal> {
    if path.symlink_metadata().is_ok() {
        return Err(Refusal(format!("it exists already; {otherwise}")));
    }
    Ok(())
}

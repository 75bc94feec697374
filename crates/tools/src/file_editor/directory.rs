//! Shows directories.

use std::{fs, path::Path};

use super::numbered::LONGEST;
use crate::file::Refusal;

/// Entries read of one directory at most.
const MOST_ENTRIES: usize = 2000;

/// The entries of a directory two levels deep, without hidden ones.
pub(super) fn listing(path: &Path) -> Result<String, Refusal> {
    let (entries, hidden) =
        entries(path).map_err(|error| Refusal(format!("{} cannot be read: {error}", path.display())))?;
    let mut lines = vec![format!("{}/", path.display().to_string().trim_end_matches('/'))];
    for (name, is_directory) in entries {
        let child = path.join(&name);
        lines.push(line(&child, is_directory));
        if is_directory {
            // What may not be read is shown as empty.
            let (below, _) = self::entries(&child).unwrap_or_default();
            lines.extend(below.into_iter().map(|(name, is_directory)| line(&child.join(name), is_directory)));
        }
    }
    let total = lines.len();
    let mut room = LONGEST - 500;
    let shown: Vec<String> = lines
        .into_iter()
        .take_while(|line| {
            let length = line.chars().count() + 1;
            let fits = length <= room;
            room = room.saturating_sub(length);
            fits
        })
        .collect();
    let mut text = format!("Two levels of {}:\n{}\n", path.display(), shown.join("\n"));
    if shown.len() < total {
        text.push_str(&format!(
            "[... {} more entries are left out; use `ls` or `find` in the terminal ...]\n",
            total - shown.len()
        ));
    }
    if hidden > 0 {
        text.push_str(&format!("{hidden} hidden entries of {} are not shown (`ls -A` lists them).\n", path.display()));
    }
    Ok(text)
}

/// Names a file with the same name, whatever its letters' case, beside a path that does not exist, or the directory that is missing.
pub(super) fn nearest(path: &Path) -> String {
    let Some(parent) = path.parent() else { return String::new() };
    if !parent.is_dir() {
        return format!("; there is no directory {}", parent.display());
    }
    let wanted = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let (entries, _) = entries(parent).unwrap_or_default();
    entries
        .into_iter()
        .find(|(name, _)| Some(name.to_lowercase()) == wanted)
        .map(|(name, _)| format!("; did you mean {}?", parent.join(name).display()))
        .unwrap_or_default()
}

/// Sorted visible entries with whether they are directories, and the number of hidden ones.
fn entries(path: &Path) -> std::io::Result<(Vec<(String, bool)>, usize)> {
    let mut hidden = 0;
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            hidden += 1;
        } else if entries.len() < MOST_ENTRIES {
            entries.push((name, entry.path().is_dir()));
        }
    }
    entries.sort();
    Ok((entries, hidden))
}

fn line(path: &Path, is_directory: bool) -> String {
    format!("{}{}", path.display(), if is_directory { "/" } else { "" })
}

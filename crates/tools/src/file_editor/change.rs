//! `create`, `str_replace`, `insert` and `undo_edit`.

use std::path::Path;

use openhands_protocol::Content;

use super::{Reply, history::History, numbered::numbered};
use crate::file::{
    Refusal,
    text::{TextFile, lines},
    write,
};

/// Lines shown before and after a change.
const CONTEXT: usize = 4;

pub(super) fn create(path: &Path, text: &str) -> Result<Reply, Refusal> {
    write::create(path, text.as_bytes())?;
    let count = lines(text).len();
    let text_lines = if count == 1 { "1 line".to_owned() } else { format!("{count} lines") };
    Ok(Reply {
        content: vec![Content::text(format!("{} was created with {text_lines}.", path.display()))],
        existed: false,
        old: None,
        new: Some(text.to_owned()),
    })
}

pub(super) fn replace(path: &Path, old: &str, new: &str, history: &mut History) -> Result<Reply, Refusal> {
    if old.is_empty() {
        return Err(Refusal("`old_str` is empty; add text with `insert`".to_owned()));
    }
    if old == new {
        return Err(Refusal("`old_str` and `new_str` are the same, so nothing would change".to_owned()));
    }
    let file = TextFile::read(path)?;
    let (old, new) = as_in_file(&file, old, new);
    let places: Vec<usize> = file.text.match_indices(&old).map(|(at, _)| at).collect();
    let at = match places.as_slice() {
        [at] => *at,
        [] => return Err(Refusal(not_found(path, &file, &old))),
        many => {
            let numbers: Vec<String> = many.iter().take(20).map(|at| line_of(&file.text, *at).to_string()).collect();
            return Err(Refusal(format!(
                "`old_str` is in {} {} times, at lines {}; add neighbouring lines to make it unique",
                path.display(),
                many.len(),
                numbers.join(", ")
            )));
        }
    };
    let (before, rest) = file.text.split_at(at);
    let after = rest.get(old.len()..).unwrap_or_default();
    let text = format!("{before}{new}{after}");
    let first = line_of(&file.text, at);
    finish(path, &file, text, first, lines(&new).len().max(1), history)
}

pub(super) fn insert(path: &Path, line: usize, new: &str, history: &mut History) -> Result<Reply, Refusal> {
    let file = TextFile::read(path)?;
    let count = file.lines().len();
    if line > count {
        return Err(Refusal(format!("`insert_line` is {line}, but {} has {count} lines", path.display())));
    }
    let end = if file.has_crlf() { "\r\n" } else { "\n" };
    let mut added = new.replace("\r\n", "\n");
    if !added.ends_with('\n') {
        added.push('\n');
    }
    let added_lines = lines(&added).len();
    let added = added.replace('\n', end);
    let at = file.text.match_indices('\n').nth(line.wrapping_sub(1)).map(|(at, _)| at + 1);
    let text = match at {
        _ if line == 0 => format!("{added}{}", file.text),
        Some(at) => {
            let (before, after) = file.text.split_at(at);
            format!("{before}{added}{after}")
        }
        // Behind a last line that has no end yet.
        None => format!("{}{end}{added}", file.text),
    };
    finish(path, &file, text, line + 1, added_lines, history)
}

pub(super) fn undo(path: &Path, history: &mut History) -> Result<Reply, Refusal> {
    let file = TextFile::read(path)?;
    let version =
        history.pop(path).ok_or_else(|| Refusal(format!("there is no edit of {} to take back", path.display())))?;
    let foreign = if version.left(&file.bytes) {
        ""
    } else {
        " The file had been changed by something else since; that is gone, too."
    };
    write::replace(path, &version.before)?;
    let restored = TextFile::read(path)?;
    let text = format!(
        "The last edit of {} is taken back.{foreign} It now reads:\n{}",
        path.display(),
        numbered(&restored.lines(), 1)
    );
    Ok(Reply { content: vec![Content::text(text)], existed: true, old: Some(file.text), new: Some(restored.text) })
}

/// Writes the new text, remembers the old one and shows the lines around the change.
fn finish(
    path: &Path,
    file: &TextFile,
    text: String,
    first: usize,
    changed: usize,
    history: &mut History,
) -> Result<Reply, Refusal> {
    let (bytes, lost_encoding) = file.encode(&text);
    write::replace(path, &bytes)?;
    history.push(path, file.bytes.clone(), &bytes);
    let all = lines(&text);
    let from = first.saturating_sub(CONTEXT).max(1);
    let part: Vec<&str> = all.iter().skip(from - 1).take(first - from + changed + CONTEXT).copied().collect();
    let note = lost_encoding
        .map(|encoding| format!(" It is UTF-8 now: its encoding before, {encoding}, does not have all characters."))
        .unwrap_or_default();
    let shown = if part.is_empty() {
        "It is empty now.\n".to_owned()
    } else {
        format!("Around the change it now reads:\n{}", numbered(&part, from))
    };
    let answer = format!("{} was edited.{note} {shown}Check that this is what you meant.", path.display());
    Ok(Reply { content: vec![Content::text(answer)], existed: true, old: Some(file.text.clone()), new: Some(text) })
}

/// The texts with the file's line ends, and without surplus empty lines at the edges that both have.
fn as_in_file(file: &TextFile, old: &str, new: &str) -> (String, String) {
    let mut forms = vec![(old.to_owned(), new.to_owned())];
    if file.text.contains("\r\n") {
        let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
        forms.insert(usize::from(!file.has_crlf()), (crlf(old), crlf(new)));
    }
    let trimmed: Vec<(String, String)> = forms
        .iter()
        .filter_map(|(old, new)| {
            let start = old.len() - old.trim_start_matches(['\n', '\r']).len();
            let end = old.trim_end_matches(['\n', '\r']).len();
            let (lead, core, tail) = (old.get(..start)?, old.get(start..end)?, old.get(end..)?);
            let new = new.strip_prefix(lead)?.strip_suffix(tail)?;
            (!core.is_empty() && core.len() < old.len()).then(|| (core.to_owned(), new.to_owned()))
        })
        .collect();
    let found = forms.iter().chain(&trimmed).find(|(old, _)| file.text.contains(old.as_str()));
    found.cloned().unwrap_or_else(|| (old.to_owned(), new.to_owned()))
}

/// Says that a text is not there, and where something is that differs only in white space.
fn not_found(path: &Path, file: &TextFile, old: &str) -> String {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted: Vec<String> = lines(old).into_iter().map(squeezed).filter(|line| !line.is_empty()).collect();
    let there: Vec<(usize, String)> = file
        .lines()
        .into_iter()
        .enumerate()
        .map(|(at, line)| (at + 1, squeezed(line)))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    let hint = if wanted.is_empty() {
        None
    } else {
        there
            .windows(wanted.len())
            .find(|window| window.iter().zip(&wanted).all(|((_, line), wanted)| line == wanted))
            .and_then(|window| window.first())
            .map(|(number, _)| format!("; line {number} and what follows differ from it in white space only"))
    };
    let first = || wanted.first().and_then(|wanted| there.iter().find(|(_, line)| line == wanted));
    let hint = hint
        .or_else(|| first().map(|(number, _)| format!("; its first line is at line {number}, but the rest differs")));
    format!(
        "`old_str` is not in {}{}; view the file and copy the text exactly",
        path.display(),
        hint.unwrap_or_default()
    )
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

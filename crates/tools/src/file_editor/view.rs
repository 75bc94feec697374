//! `view`.

use std::path::Path;

use base64::Engine as _;
use openhands_protocol::Content;

use super::{Reply, directory, numbered::numbered};
use crate::file::{
    Refusal,
    text::{TextFile, read_bytes},
};

const IMAGES: &[&str] = &["png", "jpg", "jpeg", "gif", "webp", "bmp"];

/// What providers accept in one image.
const LARGEST_IMAGE: usize = 5 * 1024 * 1024;

pub(super) fn view(path: &Path, range: Option<&[i64]>) -> Result<Reply, Refusal> {
    if path.is_dir() {
        if range.is_some_and(|range| !range.is_empty()) {
            return Err(Refusal(format!("{} is a directory; `view_range` is for files", path.display())));
        }
        return Ok(shown(directory::listing(path)?));
    }
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    if extension.is_some_and(|extension| IMAGES.contains(&extension.as_str())) {
        return image(path);
    }
    let file = TextFile::read(path)?;
    let lines = file.lines();
    let Some(range) = range.filter(|range| !range.is_empty()) else {
        let text = if lines.is_empty() {
            format!("{} is empty.\n", path.display())
        } else {
            format!("{} ({}):\n{}", path.display(), counted(lines.len()), numbered(&lines, 1))
        };
        return Ok(shown(text));
    };
    let (first, last, note) = bounds(range, lines.len())?;
    let part: Vec<&str> = lines.into_iter().skip(first - 1).take(last + 1 - first).collect();
    Ok(shown(format!("{}, lines {first} to {last}{note}:\n{}", path.display(), numbered(&part, first))))
}

/// First and last line, and what to say when the file is shorter than asked for.
fn bounds(range: &[i64], lines: usize) -> Result<(usize, usize, String), Refusal> {
    let [first, last] = range else {
        return Err(Refusal(format!("`view_range` {range:?} must have two numbers, the first and the last line")));
    };
    let first_line = usize::try_from(*first)
        .ok()
        .filter(|first| (1..=lines).contains(first))
        .ok_or_else(|| Refusal(format!("`view_range` begins at line {first}, but the file has {}", counted(lines))))?;
    if *last == -1 {
        return Ok((first_line, lines, String::new()));
    }
    match usize::try_from(*last) {
        Ok(last) if last > lines => Ok((first_line, lines, format!(" (the file has {})", counted(lines)))),
        Ok(last) if last >= first_line => Ok((first_line, last, String::new())),
        _ => Err(Refusal(format!(
            "`view_range` ends at line {last}, before its beginning {first}; -1 is the end of the file"
        ))),
    }
}

fn image(path: &Path) -> Result<Reply, Refusal> {
    let bytes = read_bytes(path)?;
    if bytes.len() > LARGEST_IMAGE {
        return Err(Refusal(format!(
            "{} is larger than the {} MiB that models take; make a smaller copy first",
            path.display(),
            LARGEST_IMAGE >> 20
        )));
    }
    let kind = infer::get(&bytes).filter(|kind| kind.mime_type().starts_with("image/"));
    let Some(kind) = kind else {
        return Err(Refusal(format!("{} is called an image but its content is none", path.display())));
    };
    let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
    let url = format!("data:{};base64,{data}", kind.mime_type());
    let about = Content::text(format!("The image {} ({} bytes):", path.display(), bytes.len()));
    Ok(Reply {
        content: vec![about, Content::Image { cache_prompt: false, image_urls: vec![url] }],
        existed: true,
        ..Reply::default()
    })
}

fn shown(text: String) -> Reply {
    Reply { content: vec![Content::text(text)], existed: true, ..Reply::default() }
}

fn counted(lines: usize) -> String {
    if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") }
}

//! Keeps what a command wrote: beginning and end in memory, all of it in a file once it is too much to show.
//!
//! Memory is bounded whatever is written, and so is the file. Secrets are masked before text is kept anywhere.

use std::{
    collections::VecDeque,
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Replaces secrets in a text.
pub type Mask = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// How much of an output is shown, and where all of it goes.
#[derive(Clone, Default)]
pub struct OutputPolicy {
    /// Characters shown at most; 0 takes the default of 29,500, which leaves room for notes within 30,000.
    pub shown: usize,
    /// Where files with full outputs go. `None`: nowhere, what is not shown is lost.
    pub directory: Option<PathBuf>,
    /// Masks secrets.
    pub mask: Option<Mask>,
}

const SHOWN: usize = 29_500;
/// Room for the note about what was left out.
const NOTE: usize = 400;
/// The largest file with a full output.
const LARGEST_FILE: u64 = 64 * 1024 * 1024;
/// A secret is found across pieces if it is shorter than this.
const MASK_REACH: usize = 4096;

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The text, cut in the middle when it is too long.
    pub text: String,
    /// Characters written in all.
    pub characters: u64,
    /// The file that has all of it, if the text is cut and there is one.
    pub file: Option<PathBuf>,
}

#[derive(Default)]
pub(super) struct Transcript {
    policy: OutputPolicy,
    /// Not masked yet: may hold the first part of a secret.
    unmasked: String,
    head: String,
    head_characters: usize,
    tail: VecDeque<char>,
    characters: u64,
    file: Option<Spill>,
}

struct Spill {
    path: PathBuf,
    file: File,
    written: u64,
}

impl Transcript {
    /// Sets the policy for what comes next.
    pub(super) fn set_policy(&mut self, policy: OutputPolicy) {
        self.policy = policy;
    }

    pub(super) fn push(&mut self, text: &str) {
        let Some(mask) = self.policy.mask.clone() else { return self.keep(text) };
        self.unmasked.push_str(text);
        if self.unmasked.len() <= 2 * MASK_REACH {
            return;
        }
        if let Some(cut) = safe_cut(&self.unmasked, mask.as_ref()) {
            let rest = self.unmasked.split_off(cut);
            let ready = std::mem::replace(&mut self.unmasked, rest);
            self.keep(&mask(&ready));
        }
    }

    /// Gives what was written since the last time and starts anew.
    pub(super) fn take(&mut self) -> Output {
        let unmasked = std::mem::take(&mut self.unmasked);
        if !unmasked.is_empty() {
            let text = self.policy.mask.clone().map_or(unmasked.clone(), |mask| mask(&unmasked));
            self.keep(&text);
        }
        let head = std::mem::take(&mut self.head);
        let tail: String = std::mem::take(&mut self.tail).into_iter().collect();
        let characters = std::mem::take(&mut self.characters);
        let shown = std::mem::take(&mut self.head_characters) + tail.chars().count();
        let file = self.file.take();
        let left_out = characters.saturating_sub(shown as u64);
        if left_out == 0 {
            return Output { text: head + &tail, characters, file: None };
        }
        let where_all = match &file {
            Some(spill) if spill.written < LARGEST_FILE => format!("the whole output is in {}", spill.path.display()),
            Some(spill) => format!("its first {} MiB are in {}", LARGEST_FILE >> 20, spill.path.display()),
            None => "they were not kept; redirect long output to a file".to_owned(),
        };
        let text = format!("{head}\n[... {left_out} characters left out here; {where_all} ...]\n{tail}");
        Output { text, characters, file: file.map(|spill| spill.path) }
    }

    fn limit(&self) -> usize {
        if self.policy.shown == 0 { SHOWN } else { self.policy.shown.max(2 * NOTE) }
    }

    fn keep(&mut self, text: &str) {
        let limit = self.limit();
        let half = (limit - NOTE) / 2;
        let before = self.characters;
        let mut rest = text;
        if self.head_characters < half {
            let end = text.char_indices().nth(half - self.head_characters).map_or(text.len(), |(at, _)| at);
            let (head, after) = text.split_at(end);
            self.head.push_str(head);
            let added = head.chars().count();
            self.head_characters += added;
            self.characters += added as u64;
            rest = after;
        }
        // Until the limit everything is kept, so that the file can still begin at the beginning.
        let room = limit - half;
        let added = rest.chars().count();
        if self.characters <= limit as u64 && self.characters + added as u64 > limit as u64 {
            self.spill(text, before);
        }
        self.characters += added as u64;
        if added >= room {
            self.tail.clear();
            self.tail.extend(rest.chars().skip(added - room));
        } else {
            self.tail.drain(..(self.tail.len() + added).saturating_sub(room).min(self.tail.len()));
            self.tail.extend(rest.chars());
        }
        if before > limit as u64 {
            self.write(text);
        }
        // What is shown beyond the limit is smaller, to make room for the note.
        if self.characters > limit as u64 {
            while self.tail.len() > half {
                self.tail.pop_front();
            }
        }
    }

    /// Opens the file before the first character is lost, and writes what was kept and all of `text`.
    fn spill(&mut self, text: &str, before: u64) {
        let Some(directory) = self.policy.directory.clone() else { return };
        let Some(spill) = Spill::create(&directory) else { return };
        self.file = Some(spill);
        // What came before `text`: as many characters of head and tail as there were then.
        let earlier: String =
            self.head.chars().chain(self.tail.iter().copied()).take(usize::try_from(before).unwrap_or(0)).collect();
        self.write(&earlier);
        self.write(text);
    }

    fn write(&mut self, text: &str) {
        let Some(spill) = &mut self.file else { return };
        let room = usize::try_from(LARGEST_FILE - spill.written).unwrap_or(0);
        let part = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
        let full = part.len() < text.len();
        match spill.file.write_all(part.as_bytes()) {
            Ok(()) if full => spill.written = LARGEST_FILE,
            Ok(()) => spill.written += part.len() as u64,
            Err(error) => {
                tracing::warn!(path = %spill.path.display(), %error, "writing a full output failed");
                self.file = None;
            }
        }
    }
}

impl Spill {
    fn create(directory: &Path) -> Option<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = directory.join(format!("terminal_output_{}.txt", uuid::Uuid::new_v4().simple()));
        let opened = std::fs::create_dir_all(directory)
            .and_then(|()| File::options().write(true).create_new(true).mode(0o600).open(&path));
        match opened {
            Ok(file) => Some(Self { path, file, written: 0 }),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "no file for a full output");
                None
            }
        }
    }
}

/// Where `text` can be cut without cutting a secret: masking the parts gives the same as masking the whole.
fn safe_cut(text: &str, mask: &(dyn Fn(&str) -> String + Send + Sync)) -> Option<usize> {
    let whole = mask(text);
    let mut at = text.floor_char_boundary(text.len().saturating_sub(MASK_REACH));
    for _ in 0..8 {
        let (left, right) = text.split_at(at);
        if mask(left) + &mask(right) == whole {
            return Some(at);
        }
        at = text.floor_char_boundary(at.saturating_sub(MASK_REACH / 8));
        if at == 0 {
            break;
        }
    }
    // A text that is one long secret: give up on what is beyond reach rather than keep everything.
    (text.len() > 16 * MASK_REACH).then(|| text.floor_char_boundary(text.len() - MASK_REACH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(shown: usize, directory: Option<&Path>) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.set_policy(OutputPolicy { shown, directory: directory.map(Path::to_owned), mask: None });
        transcript
    }

    #[test]
    fn short_output_is_whole_and_taken_once() {
        let mut transcript = transcript(1000, None);
        transcript.push(&"ä".repeat(500));
        transcript.push(&"b".repeat(500));
        assert_eq!(
            transcript.take(),
            Output { text: "ä".repeat(500) + &"b".repeat(500), characters: 1000, file: None }
        );
        assert_eq!(transcript.take(), Output::default());
    }

    #[test]
    fn long_output_is_cut_in_the_middle_and_whole_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        for step in [1, 7, 333, 5000] {
            let mut transcript = transcript(1000, Some(directory.path()));
            let text: String = (0..5000).map(|n| char::from(b'a' + u8::try_from(n % 26).unwrap())).collect();
            for piece in text.as_bytes().chunks(step) {
                transcript.push(std::str::from_utf8(piece).unwrap());
            }
            let output = transcript.take();
            assert_eq!(output.characters, 5000);
            assert!(output.text.chars().count() <= 1000);
            assert!(output.text.starts_with(&text[..300]) && output.text.ends_with(&text[4700..]), "{step}");
            assert_eq!(std::fs::read_to_string(output.file.unwrap()).unwrap(), text, "{step}");
        }
    }

    #[test]
    fn secrets_are_masked_across_pieces() {
        let mut transcript = Transcript::default();
        let mask: Mask = Arc::new(|text| text.replace("hunter2hunter2", "<secret-hidden>"));
        transcript.set_policy(OutputPolicy { shown: 1_000_000, directory: None, mask: Some(mask) });
        let text = format!("{}hunter2hunter2", "x".repeat(99)).repeat(500);
        for piece in text.as_bytes().chunks(13) {
            transcript.push(std::str::from_utf8(piece).unwrap());
        }
        assert_eq!(transcript.take().text, text.replace("hunter2hunter2", "<secret-hidden>"));
    }
}

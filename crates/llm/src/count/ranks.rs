//! A tokenizer out of a file: `tokenizer.json` with a byte-level BPE model (Llama 3, Qwen, DeepSeek, GPT-2 and their like), or a
//! `.tiktoken` list of ranks. Merges are found by the rank of what they make, which is how these vocabularies are built.

use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::pieces::{CL100K, GPT2, O200K, Style, pieces};

/// The largest file that is read, bytes.
const FILE_LIMIT: u64 = 64 * 1024 * 1024;
/// Longer pieces are counted in parts: merging is quadratic.
const PIECE_LIMIT: usize = 256;

/// A tokenizer by its file's name, read when it is first needed, and once for all slots that use it.
pub(super) struct Tokenizer {
    path: PathBuf,
    ranks: OnceLock<Option<Ranks>>,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tokenizer").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Tokenizer {
    pub(super) fn named(name: &str) -> Arc<Self> {
        static IN_USE: OnceLock<Mutex<HashMap<PathBuf, Weak<Tokenizer>>>> = OnceLock::new();
        let mut in_use = IN_USE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        in_use.retain(|_, tokenizer| tokenizer.strong_count() > 0);
        let path = PathBuf::from(name);
        if let Some(known) = in_use.get(&path).and_then(Weak::upgrade) {
            return known;
        }
        let tokenizer = Arc::new(Self { path: path.clone(), ranks: OnceLock::new() });
        in_use.insert(path, Arc::downgrade(&tokenizer));
        tokenizer
    }

    pub(super) fn ranks(&self) -> Option<&Ranks> {
        let read = || match Ranks::read(&self.path) {
            Ok(ranks) => Some(ranks),
            Err(reason) => {
                tracing::warn!(
                    custom_tokenizer = %self.path.display(),
                    reason,
                    "llm.custom_tokenizer is not supported, tokens are estimated; give the path of a tokenizer.json or .tiktoken file"
                );
                None
            }
        };
        self.ranks.get_or_init(read).as_ref()
    }
}

/// Tokens by their bytes, with their ranks.
pub(super) struct Ranks {
    ranks: HashMap<Box<[u8]>, u32>,
    style: Style,
}

impl Ranks {
    fn read(path: &Path) -> Result<Self, String> {
        let kind = std::fs::metadata(path).map_err(|error| error.to_string())?;
        if !kind.is_file() {
            return Err("it is no regular file".to_owned());
        }
        let file = File::open(path).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        file.take(FILE_LIMIT + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() as u64 > FILE_LIMIT {
            return Err(format!("it is larger than {} MiB", FILE_LIMIT >> 20));
        }
        let name = path.to_string_lossy();
        if bytes.first() == Some(&b'{') { Self::of_json(&bytes) } else { Self::of_list(&bytes, &name) }
    }

    /// Lines of base64 and rank.
    pub(super) fn of_list(bytes: &[u8], name: &str) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is neither JSON nor a list of ranks".to_owned())?;
        let entry = |line: &str| {
            let (token, rank) = line.split_once(' ')?;
            Some((STANDARD.decode(token).ok()?.into_boxed_slice(), rank.trim().parse().ok()?))
        };
        let ranks: Option<HashMap<_, _>> = text.lines().filter(|line| !line.is_empty()).map(entry).collect();
        let ranks = ranks.ok_or("a line is no base64 text with a rank")?;
        if ranks.len() < 256 {
            return Err("it has too few tokens".to_owned());
        }
        Ok(Self { ranks, style: if name.contains("o200k") { O200K } else { CL100K } })
    }

    pub(super) fn of_json(bytes: &[u8]) -> Result<Self, String> {
        let document: Value = serde_json::from_slice(bytes).map_err(|error| format!("it is no JSON: {error}"))?;
        let model = document.get("model").ok_or("it has no model")?;
        let kind = model.get("type").and_then(Value::as_str).unwrap_or("BPE");
        if kind != "BPE" {
            return Err(format!("its model is {kind}, only BPE is supported"));
        }
        let cutting = document.get("pre_tokenizer").map(Value::to_string).unwrap_or_default();
        if !cutting.contains("ByteLevel") {
            return Err("its BPE is not byte-level".to_owned());
        }
        let bytes_of = alphabet();
        let in_bytes =
            |token: &str| token.chars().map(|letter| bytes_of.get(&letter).copied()).collect::<Option<Vec<u8>>>();
        let mut ranks = HashMap::new();
        for byte in 0..=u8::MAX {
            ranks.insert(Box::from([byte]), u32::from(byte));
        }
        for merge in model.get("merges").and_then(Value::as_array).into_iter().flatten() {
            let pair = match merge {
                Value::String(pair) => pair.replacen(' ', "", 1),
                Value::Array(pair) => pair.iter().filter_map(Value::as_str).collect(),
                _ => return Err("its merges are of an unknown form".to_owned()),
            };
            let token = in_bytes(&pair).ok_or("a merge is not byte-level")?;
            let next = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
            ranks.entry(token.into_boxed_slice()).or_insert(next);
        }
        Ok(Self { ranks, style: style(&cutting) })
    }

    pub(super) fn count(&self, text: &str) -> u64 {
        pieces(text, self.style).map(|piece| self.count_piece(piece.as_bytes())).sum()
    }

    fn count_piece(&self, piece: &[u8]) -> u64 {
        if self.ranks.contains_key(piece) {
            return 1;
        }
        piece.chunks(PIECE_LIMIT).map(|part| self.merged(part) as u64).sum()
    }

    /// Tokens that are left when nothing can be merged any more.
    fn merged(&self, piece: &[u8]) -> usize {
        // Where each token begins, and the end.
        let mut ends: Vec<usize> = (0..=piece.len()).collect();
        loop {
            let pairs = ends.windows(3).enumerate().filter_map(|(at, pair)| {
                let token = piece.get(*pair.first()?..*pair.last()?)?;
                Some((*self.ranks.get(token)?, at + 1))
            });
            let Some((_, between)) = pairs.min() else { return ends.len() - 1 };
            ends.remove(between);
        }
    }
}

/// The family by the pattern that the file names.
fn style(cutting: &str) -> Style {
    if !cutting.contains("\"Split\"") {
        return GPT2;
    }
    let digits = if cutting.contains(r"\\p{N}{1,3}") {
        3
    } else if cutting.contains(r"\\p{N}+") {
        usize::MAX
    } else {
        1
    };
    Style { digits, any_sign: true, humps: cutting.contains(r"\\p{Lu}") }
}

/// The letters that stand for bytes in byte-level vocabularies: printable ones for themselves, the others from 256 on.
fn alphabet() -> HashMap<char, u8> {
    let mut next = 256u32;
    let mut letters = HashMap::new();
    for byte in 0..=u8::MAX {
        let letter = if matches!(byte, 33..=126 | 161..=172 | 174..=255) {
            char::from(byte)
        } else {
            let letter = char::from_u32(next).unwrap_or_default();
            next += 1;
            letter
        };
        letters.insert(letter, byte);
    }
    letters
}

//! Finds the places of hunks in a file and makes its new text.
//!
//! Models repeat lines nearly word for word. A place is looked for in three passes, each more forgiving than the last: exact,
//! without white space at line ends, without white space at both ends. `fuzz` says how forgiving it had to be, with the
//! reference's weights (F2-GPT5-06r).

use super::parse::{Hunk, Line};
use crate::file::Refusal;

/// Fuzz of a place found without white space at line ends.
const TRAILING: u32 = 1;
/// Fuzz of a place found without white space at both ends.
const INDENTED: u32 = 100;
/// Fuzz of a hunk that was to be at the end of the file and is not.
const NOT_AT_END: u32 = 10_000;

type Alike = fn(&str, &str) -> bool;

const PASSES: [(Alike, u32); 3] = [
    (|line, wanted| line == wanted, 0),
    (|line, wanted| line.trim_end() == wanted.trim_end(), TRAILING),
    (|line, wanted| line.trim() == wanted.trim(), INDENTED),
];

/// The new text of a file and how much fuzz its hunks needed.
///
/// # Errors
/// A text that shows the lines that are not in the file.
pub(super) fn apply(text: &str, hunks: &[Hunk<'_>], crlf: bool) -> Result<(String, u32), Refusal> {
    let pieces: Vec<&str> = text.split_inclusive('\n').collect();
    let lines: Vec<&str> = pieces.iter().map(|piece| bare(piece)).collect();
    let end = if crlf { "\r\n" } else { "\n" };
    let mut out = Output { text: String::with_capacity(text.len()), end };
    let (mut done, mut fuzz) = (0, 0);
    for hunk in hunks {
        let place = place(&lines, hunk, done)?;
        fuzz += place.fuzz;
        out.copy(pieces.get(done..place.at).unwrap_or_default());
        let mut at = place.at;
        for line in &hunk.lines {
            match line {
                // What stays, stays as it is in the file.
                Line::Keep(_) => {
                    out.copy(pieces.get(at..=at).unwrap_or_default());
                    at += 1;
                }
                Line::Remove(_) => at += 1,
                Line::Insert(line) => out.insert(line),
            }
        }
        done = at;
    }
    out.copy(pieces.get(done..).unwrap_or_default());
    Ok((out.text, fuzz))
}

struct Output<'a> {
    text: String,
    end: &'a str,
}

impl Output<'_> {
    fn copy(&mut self, pieces: &[&str]) {
        if let Some(first) = pieces.first()
            && !first.is_empty()
        {
            self.end_line();
        }
        self.text.extend(pieces.iter().copied());
    }

    fn insert(&mut self, line: &str) {
        self.end_line();
        self.text.push_str(line);
        self.text.push_str(self.end);
    }

    /// A last line without an end gets one when something comes behind it.
    fn end_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push_str(self.end);
        }
    }
}

fn bare(piece: &str) -> &str {
    let line = piece.strip_suffix('\n').unwrap_or(piece);
    line.strip_suffix('\r').unwrap_or(line)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    at: usize,
    fuzz: u32,
}

fn place(lines: &[&str], hunk: &Hunk<'_>, from: usize) -> Result<Place, Refusal> {
    let context: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Keep(text) | Line::Remove(text) => Some(*text),
            Line::Insert(_) => None,
        })
        .collect();
    let mut start = Place { at: from, fuzz: 0 };
    let mut lost = None;
    for anchor in &hunk.anchors {
        match anchored(lines, anchor, start.at) {
            Some(found) => start = Place { at: found.at, fuzz: start.fuzz + found.fuzz },
            // Perhaps a hunk before has gone past it; then it helps no more, but does no harm.
            None if lines.get(..start.at).unwrap_or_default().iter().any(|line| line.trim() == anchor.trim()) => {}
            None => lost = Some(*anchor),
        }
    }
    let found = if hunk.at_end { at_end(lines, &context, start.at) } else { search(lines, &context, start.at) };
    let Some(found) = found else { return Err(missing(&context, hunk, from)) };
    if let Some(anchor) = lost
        && (context.is_empty() || search(lines, &context, found.at + 1).is_some())
    {
        return Err(Refusal(format!("the line `{anchor}` behind `@@` is not in the file{}", below(from))));
    }
    Ok(Place { at: found.at, fuzz: start.fuzz + found.fuzz })
}

/// The place behind a line; only its white space may differ.
fn anchored(lines: &[&str], anchor: &str, from: usize) -> Option<Place> {
    let rest = || lines.iter().enumerate().skip(from);
    if let Some((index, _)) = rest().find(|(_, line)| **line == anchor) {
        return Some(Place { at: index + 1, fuzz: 0 });
    }
    rest().find(|(_, line)| line.trim() == anchor.trim()).map(|(index, _)| Place { at: index + 1, fuzz: TRAILING })
}

fn at_end(lines: &[&str], context: &[&str], from: usize) -> Option<Place> {
    if let Some(last) = lines.len().checked_sub(context.len())
        && last >= from
        && let Some(place) = search(lines, context, last)
    {
        return Some(place);
    }
    search(lines, context, from).map(|place| Place { fuzz: place.fuzz + NOT_AT_END, ..place })
}

fn search(lines: &[&str], context: &[&str], from: usize) -> Option<Place> {
    if context.is_empty() {
        return (from <= lines.len()).then_some(Place { at: from, fuzz: 0 });
    }
    let rest = lines.get(from..)?;
    PASSES.iter().find_map(|(alike, fuzz)| {
        let at = rest
            .windows(context.len())
            .position(|window| window.iter().zip(context).all(|(line, wanted)| alike(line, wanted)))?;
        Some(Place { at: from + at, fuzz: *fuzz })
    })
}

fn missing(context: &[&str], hunk: &Hunk<'_>, from: usize) -> Refusal {
    let anchor = hunk.anchors.last().map(|anchor| format!(" behind `{anchor}`")).unwrap_or_default();
    Refusal(format!(
        "these lines are not in the file{anchor}{}; look at it and repeat them as they are there:\n{}",
        below(from),
        context.join("\n")
    ))
}

fn below(from: usize) -> String {
    if from == 0 { String::new() } else { format!(" below line {from}, where the hunk before ends") }
}

#[cfg(test)]
mod tests {
    use super::{super::parse, *};

    fn patched(text: &str, body: &str) -> Result<(String, u32), String> {
        let patch = format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch");
        let sections = parse::parse(&patch).unwrap();
        let parse::Change::Update { hunks, .. } = &sections.first().unwrap().change else { panic!("no update") };
        apply(text, hunks, text.contains("\r\n")).map_err(|refusal| refusal.0)
    }

    #[test]
    fn hunks_are_found_one_below_the_other() {
        let text = "a\nb\nc\na\nb\nc\n";
        assert_eq!(patched(text, "@@\n a\n-b\n+B\n@@\n a\n-b\n+X"), Ok(("a\nB\nc\na\nX\nc\n".to_owned(), 0)));
        assert_eq!(patched(text, "@@ c\n a\n-b\n+X"), Ok(("a\nb\nc\na\nX\nc\n".to_owned(), 0)));
        assert_eq!(patched(text, "+top"), Ok(("top\na\nb\nc\na\nb\nc\n".to_owned(), 0)));
        assert_eq!(patched(text, "@@ b\n+x"), Ok(("a\nb\nx\nc\na\nb\nc\n".to_owned(), 0)));
        assert_eq!(patched(text, "-b\n c\n*** End of File"), Ok(("a\nb\nc\na\nc\n".to_owned(), 0)));
        assert_eq!(patched(text, "+end\n*** End of File"), Ok(("a\nb\nc\na\nb\nc\nend\n".to_owned(), 0)));
    }

    #[test]
    fn white_space_is_forgiven_and_kept() {
        let text = "class A:\n    def f(self):  \n        return 1\n";
        let expected = "class A:\n    def f(self):  \n        return 2\n".to_owned();
        let change = "-        return 1\n+        return 2";
        assert_eq!(patched(text, &format!("     def f(self):\n{change}")), Ok((expected.clone(), 1)));
        assert_eq!(patched(text, &format!(" def f(self):\n{change}")), Ok((expected.clone(), 100)));
        assert_eq!(patched(text, &format!("@@ def f(self):\n{change}")), Ok((expected, 1)));
        assert_eq!(patched("a\nb\nc", "-a\n+x\n*** End of File"), Ok(("x\nb\nc".to_owned(), 10_000)));
    }

    #[test]
    fn line_ends_stay() {
        assert_eq!(patched("a\r\nb\r\n", "-a\n+x\n+y"), Ok(("x\r\ny\r\nb\r\n".to_owned(), 0)));
        assert_eq!(patched("a\nb", " b\n+c"), Ok(("a\nb\nc\n".to_owned(), 0)));
        assert_eq!(patched("a\nb", "-a\n b"), Ok(("b".to_owned(), 0)));
        assert_eq!(patched("", "+a"), Ok(("a\n".to_owned(), 0)));
        assert_eq!(patched("a\n", "-a"), Ok((String::new(), 0)));
    }

    #[test]
    fn says_what_is_not_there() {
        let wrong = |text: &str, body: &str| patched(text, body).unwrap_err();
        assert!(wrong("a\nb\n", "-x\n+y").ends_with("as they are there:\nx"));
        assert!(wrong("a\nb\n", " b\n-a").contains("not in the file"));
        assert!(wrong("a\nb\na\n", "@@ nowhere\n-a").contains("`nowhere` behind `@@`"));
        assert!(wrong("a\nb\n", "@@ nowhere\n+x").contains("`nowhere` behind `@@`"));
        assert!(wrong("a\nb\n", "-b\n+x\n@@\n-a\n+y").contains("below line 2"));
        // Without it the place is clear, too.
        assert_eq!(patched("a\nb\n", "@@ nowhere\n-a"), Ok(("b\n".to_owned(), 0)));
    }
}

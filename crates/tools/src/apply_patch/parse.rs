//! A patch's text becomes sections. Looks at no file.

use crate::file::Refusal;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";

/// What happens to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section<'a> {
    /// As the patch spells it.
    pub(super) path: &'a str,
    pub(super) change: Change<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    Add(Vec<&'a str>),
    Delete,
    Update { move_to: Option<&'a str>, hunks: Vec<Hunk<'a>> },
}

/// One place in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk<'a> {
    /// Lines somewhere above, from the outermost to the innermost.
    pub(super) anchors: Vec<&'a str>,
    pub(super) lines: Vec<Line<'a>>,
    /// The hunk's last line is the file's last line.
    pub(super) at_end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Keep(&'a str),
    Remove(&'a str),
    Insert(&'a str),
}

impl Hunk<'_> {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.anchors.is_empty()
    }
}

/// Lines of the patch that are left to read.
struct Reader<'a> {
    lines: Vec<&'a str>,
    next: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.next).copied()
    }

    /// The rest of the next line if it begins with `mark`.
    fn take(&mut self, mark: &str) -> Option<&'a str> {
        let rest = self.peek()?.strip_prefix(mark)?;
        self.next += 1;
        Some(rest.trim())
    }

    /// A line that ends the section before it.
    fn at_section_end(&self) -> bool {
        self.peek().is_none_or(|line| [ADD, DELETE, UPDATE].iter().any(|mark| line.starts_with(mark)))
    }

    fn wrong(&self, what: &str) -> Refusal {
        // The line with `*** Begin Patch` is number 1.
        Refusal(format!("line {} of the patch {what}: {:?}", self.next + 2, self.peek().unwrap_or_default()))
    }
}

/// Reads a patch.
///
/// # Errors
/// A text that names the line and what was expected.
pub(super) fn parse(text: &str) -> Result<Vec<Section<'_>>, Refusal> {
    let all: Vec<&str> = text.trim().split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let [first, lines @ .., last] = all.as_slice() else {
        return Err(Refusal(format!("the patch must have a first line `{BEGIN}` and a last line `{END}`")));
    };
    if first.trim_end() != BEGIN {
        return Err(Refusal(format!("the first line of the patch must be `{BEGIN}`, not {first:?}")));
    }
    if last.trim_end() != END {
        return Err(Refusal(format!("the last line of the patch must be `{END}`, not {last:?}")));
    }
    let mut reader = Reader { lines: lines.to_vec(), next: 0 };
    let mut sections: Vec<Section<'_>> = Vec::new();
    while reader.peek().is_some() {
        let section = section(&mut reader)?;
        if section.path.is_empty() {
            return Err(Refusal("a section of the patch names no file".to_owned()));
        }
        if sections.iter().any(|other| other.path == section.path) {
            return Err(Refusal(format!("{} has two sections; put its changes into one", section.path)));
        }
        sections.push(section);
    }
    if sections.is_empty() {
        return Err(Refusal("the patch changes nothing: it has no section".to_owned()));
    }
    Ok(sections)
}

fn section<'a>(reader: &mut Reader<'a>) -> Result<Section<'a>, Refusal> {
    if let Some(path) = reader.take(ADD) {
        return Ok(Section { path, change: Change::Add(added(reader)?) });
    }
    if let Some(path) = reader.take(DELETE) {
        return Ok(Section { path, change: Change::Delete });
    }
    if let Some(path) = reader.take(UPDATE) {
        let move_to = reader.take(MOVE);
        let hunks = hunks(reader)?;
        if hunks.is_empty() && move_to.is_none() {
            return Err(Refusal(format!("the section for {path} has no changes")));
        }
        return Ok(Section { path, change: Change::Update { move_to, hunks } });
    }
    Err(reader.wrong(
        "is outside of any file; a section begins with `*** Add File: `, `*** Update File: ` or `*** Delete File: `",
    ))
}

fn added<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a str>, Refusal> {
    let mut lines = Vec::new();
    while !reader.at_section_end() {
        let line = reader.peek().and_then(|line| line.strip_prefix('+'));
        lines.push(line.ok_or_else(|| reader.wrong("must begin with `+`, as all lines of a new file"))?);
        reader.next += 1;
    }
    Ok(lines)
}

fn hunks<'a>(reader: &mut Reader<'a>) -> Result<Vec<Hunk<'a>>, Refusal> {
    let mut hunks: Vec<Hunk<'_>> = Vec::new();
    let mut hunk = Hunk::default();
    while !reader.at_section_end() {
        let Some(line) = reader.peek() else { break };
        if let Some(anchor) = line.strip_prefix("@@") {
            if !hunk.lines.is_empty() {
                hunks.push(std::mem::take(&mut hunk));
            }
            hunk.anchors.extend(anchor_text(anchor));
        } else if line.trim_end() == END_OF_FILE {
            hunk.at_end = true;
            hunks.push(std::mem::take(&mut hunk));
        } else {
            hunk.lines.push(body_line(line).ok_or_else(|| {
                reader.wrong("must begin with a space (stays), `-` (goes), `+` (comes) or `@@` (where to look)")
            })?);
        }
        reader.next += 1;
    }
    if !hunk.is_empty() {
        hunks.push(hunk);
    }
    match hunks.iter().find(|hunk| !hunk.lines.iter().any(|line| !matches!(line, Line::Keep(_)))) {
        Some(idle) => {
            let place = idle.anchors.last().map(|anchor| format!(" at `{anchor}`")).unwrap_or_default();
            Err(Refusal(format!("a hunk{place} neither removes nor adds a line")))
        }
        None => Ok(hunks),
    }
}

fn body_line(line: &str) -> Option<Line<'_>> {
    // Models leave out the space of an empty line that stays.
    if line.is_empty() {
        return Some(Line::Keep(""));
    }
    let (mark, rest) = line.split_at_checked(1)?;
    match mark {
        " " => Some(Line::Keep(rest)),
        "-" => Some(Line::Remove(rest)),
        "+" => Some(Line::Insert(rest)),
        _ => None,
    }
}

/// Line numbers, which models add by habit (`@@ -1,4 +1,5 @@`), say nothing here: only what stands behind them does.
fn anchor_text(rest: &str) -> Option<&str> {
    let text = rest.strip_prefix(' ').unwrap_or(rest);
    let text = match text.trim_start().strip_prefix('-').and_then(|numbers| numbers.split_once("@@")) {
        Some((numbers, behind)) if is_range(numbers) => behind.trim_start(),
        _ => text,
    };
    (!text.trim().is_empty()).then_some(text)
}

fn is_range(text: &str) -> bool {
    text.chars().all(|character| character.is_ascii_digit() || matches!(character, ',' | '+' | ' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_kinds_of_sections() {
        let patch = "\
*** Begin Patch
*** Update File: a.py
*** Move to: b.py
@@ class A
@@     def f(self):
 keep

-old
+new
@@ -3,4 +3,5 @@ def g():
+last
*** End of File
*** Add File: c.txt
+one
+
*** Delete File: d
*** End Patch
";
        let hunk = |anchors: &[&'static str], lines: Vec<Line<'static>>, at_end| Hunk {
            anchors: anchors.to_vec(),
            lines,
            at_end,
        };
        let expected = vec![
            Section {
                path: "a.py",
                change: Change::Update {
                    move_to: Some("b.py"),
                    hunks: vec![
                        hunk(
                            &["class A", "    def f(self):"],
                            vec![Line::Keep("keep"), Line::Keep(""), Line::Remove("old"), Line::Insert("new")],
                            false,
                        ),
                        hunk(&["def g():"], vec![Line::Insert("last")], true),
                    ],
                },
            },
            Section { path: "c.txt", change: Change::Add(vec!["one", ""]) },
            Section { path: "d", change: Change::Delete },
        ];
        assert_eq!(parse(patch), Ok(expected.clone()));
        assert_eq!(parse(&patch.replace('\n', "\r\n")), Ok(expected));
    }

    #[test]
    fn says_which_line_is_wrong() {
        let wrong = |body: &str| parse(&format!("*** Begin Patch\n{body}*** End Patch")).unwrap_err().0;
        for (body, part) in [
            ("", "no section"),
            ("hello\n", "line 2 of the patch is outside of any file"),
            ("*** Update File: a\n*** Update File: b\n-x\n", "for a has no changes"),
            ("*** Add File: a\n+x\ny\n", "line 4 of the patch must begin with `+`"),
            ("*** Update File: a\n@@ f\nx\n", "line 4 of the patch must begin with a space"),
            ("*** Update File: a\n@@ f\n x\n", "neither removes nor adds"),
            ("*** Delete File: a\n*** Delete File: a\n", "two sections"),
            ("*** Delete File: \n", "names no file"),
        ] {
            assert!(wrong(body).contains(part), "{body:?}: {}", wrong(body));
        }
        assert!(parse("").unwrap_err().0.contains("first line"));
        assert!(parse("x\n*** End Patch").unwrap_err().0.contains("first line"));
        assert!(parse("*** Begin Patch\n*** Delete File: a").unwrap_err().0.contains("last line"));
    }
}

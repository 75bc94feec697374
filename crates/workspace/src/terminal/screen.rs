//! Renders what programs write to a terminal into plain text.
//!
//! The last rows stay editable, so that carriage returns, cursor movements and erasing (progress bars) leave what a person
//! would see; rows that move out of that window are final. Lines are not wrapped. While a program uses the alternate screen
//! (an editor, a pager) a real screen is kept beside, and its picture is what it has to show. Colours and queries are dropped.

use std::{collections::VecDeque, num::NonZeroU16};

/// Rows of the terminal, and how many stay editable.
pub(super) const ROWS: u16 = 50;
/// Columns of the terminal.
pub(super) const COLUMNS: u16 = 200;
/// Longer lines are given out in pieces.
const LONGEST_LINE: usize = 16 * 1024;
/// Parameters of a control sequence; longer ones are cut.
const LONGEST_PARAMETERS: usize = 64;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// `ESC (` and its like: one more character.
    Charset,
    /// `ESC [`: parameters, then a final character.
    Control,
    /// OSC, DCS, PM, APC: up to BEL or ESC \.
    String,
    /// An ESC inside a string.
    StringEscape,
}

#[derive(Default)]
pub(super) struct Screen {
    rows: VecDeque<Vec<char>>,
    row: usize,
    column: usize,
    state: State,
    parameters: String,
    alternate: Option<Box<vt100::Parser>>,
}

impl Screen {
    /// Takes output and appends the text of final rows to `out`.
    pub(super) fn feed(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            if self.state == State::Text && self.alternate.is_none() {
                let plain = rest.find(|character: char| character < ' ' || character == '\x7f').unwrap_or(rest.len());
                if plain > 0 {
                    let (run, after) = rest.split_at(plain);
                    self.put_all(run, out);
                    rest = after;
                    continue;
                }
            }
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
            if let Some(alternate) = &mut self.alternate {
                let mut bytes = [0; 4];
                alternate.process(character.encode_utf8(&mut bytes).as_bytes());
            }
            self.state = match self.state {
                State::Text => self.text(character, out),
                State::Escape => self.escape(character),
                State::Charset => State::Text,
                State::Control => self.control(character),
                State::String => match character {
                    '\x07' | '\u{9c}' => State::Text,
                    '\x1b' => State::StringEscape,
                    _ => State::String,
                },
                // ESC \ ends a string; a new sequence ends it too.
                State::StringEscape if character == '\\' => State::Text,
                State::StringEscape => self.escape(character),
            };
        }
    }

    /// Appends everything that is there to `out` and starts with an empty screen.
    pub(super) fn take(&mut self, out: &mut String) {
        let rows = std::mem::take(&mut self.rows);
        let last = rows.len().saturating_sub(1);
        for (at, row) in rows.into_iter().enumerate() {
            out.extend(row);
            if at < last {
                out.push('\n');
            }
        }
        (self.row, self.column) = (0, 0);
        if let Some(alternate) = &self.alternate {
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
            out.push_str(alternate.screen().contents().trim_end());
        }
    }

    fn text(&mut self, character: char, out: &mut String) -> State {
        match character {
            '\x1b' => return State::Escape,
            _ if self.alternate.is_some() => {}
            '\r' => self.column = 0,
            '\n' | '\x0b' | '\x0c' => self.line_feed(out),
            '\x08' => self.column = self.column.saturating_sub(1),
            '\t' if self.rows.get(self.row).is_some_and(|row| self.column < row.len()) => self.column += 1,
            '\t' => self.put('\t', out),
            character if character < ' ' || character == '\x7f' => {}
            character => self.put(character, out),
        }
        State::Text
    }

    fn escape(&mut self, character: char) -> State {
        match character {
            '[' => {
                self.parameters.clear();
                State::Control
            }
            ']' | 'P' | '^' | '_' | 'X' => State::String,
            '(' | ')' | '*' | '+' | '#' | '%' => State::Charset,
            '\x1b' => State::Escape,
            _ => State::Text,
        }
    }

    fn control(&mut self, character: char) -> State {
        match character {
            '\x1b' => return State::Escape,
            '\x20'..='\x3f' => {
                if self.parameters.len() < LONGEST_PARAMETERS {
                    self.parameters.push(character);
                }
                return State::Control;
            }
            '\x40'..='\x7e' => {}
            // A control character inside a sequence: not ours to understand.
            _ => return State::Control,
        }
        let parameters = std::mem::take(&mut self.parameters);
        if let Some(modes) = parameters.strip_prefix('?') {
            if matches!(character, 'h' | 'l') && modes.split(';').any(|mode| matches!(mode, "47" | "1047" | "1049")) {
                self.switch(character == 'h');
            }
        } else if self.alternate.is_none() {
            self.edit(character, &parameters);
        }
        State::Text
    }

    fn switch(&mut self, on: bool) {
        match (on, self.alternate.is_some()) {
            (true, false) => {
                if let (Some(rows), Some(columns)) = (NonZeroU16::new(ROWS), NonZeroU16::new(COLUMNS)) {
                    self.alternate = Some(Box::new(vt100::Parser::new(rows, columns, 0)));
                }
            }
            (false, true) => self.alternate = None,
            _ => {}
        }
    }

    fn edit(&mut self, character: char, parameters: &str) {
        let mut numbers = parameters.split(';').map(|number| number.parse::<usize>().ok());
        let first = numbers.next().flatten();
        let second = numbers.next().flatten();
        let count = first.unwrap_or(1).max(1);
        let lowest = usize::from(ROWS) - 1;
        match character {
            'A' | 'F' => self.row = self.row.saturating_sub(count),
            'B' | 'E' => self.move_to(self.row.saturating_add(count)),
            'C' => self.column = self.column.saturating_add(count).min(LONGEST_LINE - 1),
            'D' => self.column = self.column.saturating_sub(count),
            'G' | '`' => self.column = (count - 1).min(LONGEST_LINE - 1),
            'd' => self.move_to(count - 1),
            'H' | 'f' => {
                self.move_to((count - 1).min(lowest));
                self.column = (second.unwrap_or(1).max(1) - 1).min(LONGEST_LINE - 1);
            }
            'J' => self.erase_display(first.unwrap_or(0)),
            'K' => self.erase_line(first.unwrap_or(0)),
            'P' => self.row(|row, column| {
                let from = column.min(row.len());
                row.drain(from..from.saturating_add(count).min(row.len()));
            }),
            'X' => self.row(|row, column| row.iter_mut().skip(column).take(count).for_each(|place| *place = ' ')),
            '@' => self.row(|row, column| {
                if column < row.len() && count <= LONGEST_LINE - row.len().min(LONGEST_LINE) {
                    row.splice(column..column, std::iter::repeat_n(' ', count));
                }
            }),
            _ => {}
        }
        if matches!(character, 'E' | 'F') {
            self.column = 0;
        }
    }

    fn erase_display(&mut self, what: usize) {
        match what {
            0 => {
                self.erase_line(0);
                self.rows.truncate(self.row + 1);
            }
            1 => {
                for row in self.rows.iter_mut().take(self.row) {
                    row.clear();
                }
                self.erase_line(1);
            }
            _ => {
                self.rows.clear();
                self.row = 0;
            }
        }
    }

    fn erase_line(&mut self, what: usize) {
        self.row(|row, column| match what {
            0 => row.truncate(column),
            1 => row.iter_mut().take(column + 1).for_each(|place| *place = ' '),
            _ => row.clear(),
        });
    }

    /// Changes the current row, which is made when it is not there. The second argument is the column.
    fn row(&mut self, change: impl FnOnce(&mut Vec<char>, usize)) {
        if self.rows.len() <= self.row {
            self.rows.resize_with(self.row + 1, Vec::new);
        }
        if let Some(row) = self.rows.get_mut(self.row) {
            change(row, self.column);
        }
    }

    fn move_to(&mut self, row: usize) {
        self.row = row.min(usize::from(ROWS) - 1);
    }

    fn put(&mut self, character: char, out: &mut String) {
        if self.column >= LONGEST_LINE {
            self.give_long_line(out);
        }
        self.row(|row, column| {
            if let Some(place) = row.get_mut(column) {
                *place = character;
            } else {
                row.resize(column, ' ');
                row.push(character);
            }
        });
        self.column += 1;
    }

    /// Puts text without control characters. At the end of a line, where nearly all text goes, in one piece.
    fn put_all(&mut self, text: &str, out: &mut String) {
        let mut fits = false;
        self.row(|row, column| fits = column == row.len() && column + text.len() < LONGEST_LINE);
        if fits {
            let mut added = 0;
            self.row(|row, _| row.extend(text.chars().inspect(|_| added += 1)));
            self.column += added;
        } else {
            text.chars().for_each(|character| self.put(character, out));
        }
    }

    /// The rows above and the current one so far are final; the line goes on with the next character.
    fn give_long_line(&mut self, out: &mut String) {
        self.rows.truncate(self.row + 1);
        let last = self.rows.len().saturating_sub(1);
        for (at, row) in std::mem::take(&mut self.rows).into_iter().enumerate() {
            out.extend(row);
            if at < last {
                out.push('\n');
            }
        }
        (self.row, self.column) = (0, 0);
    }

    fn line_feed(&mut self, out: &mut String) {
        self.row(|_, _| {});
        self.row += 1;
        // Programs that write without the line discipline's help mean a new line by a bare line feed, too.
        self.column = 0;
        self.row(|_, _| {});
        while self.rows.len() > usize::from(ROWS) {
            if let Some(row) = self.rows.pop_front() {
                out.extend(row);
                out.push('\n');
            }
            self.row = self.row.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut screen = Screen::default();
        let mut out = String::new();
        screen.feed(text, &mut out);
        screen.take(&mut out);
        out
    }

    #[test]
    fn plain_text_and_tabs_stay() {
        assert_eq!(shown("a\tb\r\n\tc ä€\r\n"), "a\tb\n\tc ä€\n");
    }

    #[test]
    fn colours_titles_and_queries_go() {
        assert_eq!(shown("\x1b[1;31mred\x1b[0m\x1b]0;title\x07\x1b]8;;x\x1b\\link\x1b[6n\x1b(B\x1b[?25l."), "redlink.");
    }

    #[test]
    fn progress_shows_its_last_state() {
        assert_eq!(shown(" 10%\r 50%\r100% done\r\n"), "100% done\n");
        assert_eq!(shown("abc\x08\x08X\r\n"), "aXc\n");
        assert_eq!(shown("one\r\ntwo\r\n\x1b[2A\x1b[2KONE\r\n\x1b[KTWO\r\n"), "ONE\nTWO\n");
        assert_eq!(shown("old\r\n\x1b[H\x1b[2Jnew"), "new");
    }

    #[test]
    fn many_rows_and_long_lines_are_whole() {
        let rows: String = (0..500).map(|n| format!("row {n}\n")).collect();
        assert_eq!(shown(&rows.replace('\n', "\r\n")), rows);
        let line = "x".repeat(3 * LONGEST_LINE + 5);
        assert_eq!(shown(&line), line);
    }

    #[test]
    fn the_alternate_screen_is_a_picture() {
        let mut screen = Screen::default();
        let mut out = String::new();
        screen.feed("before\r\n\x1b[?1049h\x1b[H\x1b[2Jfile\x1b[2;1H~", &mut out);
        screen.take(&mut out);
        assert_eq!(out, "before\nfile\n~");
        out.clear();
        screen.feed("\x1b[?1049lafter", &mut out);
        screen.take(&mut out);
        assert_eq!(out, "after");
    }
}

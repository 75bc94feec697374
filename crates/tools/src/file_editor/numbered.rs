//! Lines with their numbers, cut to a length.

/// Characters of an answer.
pub(super) const LONGEST: usize = 16_000;
/// Characters of one line.
const LONGEST_LINE: usize = 4_000;

/// The lines with numbers from `first`, each with its end. When they are too many, those in the middle are left out, which is
/// said in their place with their numbers.
pub(super) fn numbered(lines: &[&str], first: usize) -> String {
    let rendered: Vec<String> =
        lines.iter().enumerate().map(|(at, line)| format!("{:6}\t{}\n", first + at, cut(line))).collect();
    let lengths: Vec<usize> = rendered.iter().map(|line| line.chars().count()).collect();
    if lengths.iter().sum::<usize>() <= LONGEST {
        return rendered.concat();
    }
    let head = fitting(lengths.iter());
    let tail = fitting(lengths.iter().rev()).min(rendered.len() - head);
    let gap = format!(
        "[... lines {} to {} are left out; see them with `view_range` ...]\n",
        first + head,
        first + rendered.len() - tail - 1
    );
    let start = rendered.iter().take(head).map(String::as_str);
    let end = rendered.iter().skip(rendered.len() - tail).map(String::as_str);
    start.chain([gap.as_str()]).chain(end).collect()
}

/// How many of the lines fit into half an answer.
fn fitting<'a>(lengths: impl Iterator<Item = &'a usize>) -> usize {
    let mut room = LONGEST / 2 - 100;
    lengths
        .take_while(|length| {
            let fits = **length <= room;
            room = room.saturating_sub(**length);
            fits
        })
        .count()
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LONGEST_LINE) {
        None => line.to_owned(),
        Some((end, _)) => {
            let left_out = line.chars().count() - LONGEST_LINE;
            format!("{} [... {left_out} characters left out ...]", line.get(..end).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_like_cat() {
        assert_eq!(numbered(&["one", "\ttwo"], 9), "     9\tone\n    10\t\ttwo\n");
        assert_eq!(numbered(&[], 1), "");
    }

    #[test]
    fn cuts_between_lines_and_says_so() {
        let lines: Vec<String> = (1..=3000).map(|n| format!("line {n}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let text = numbered(&lines, 1);
        assert!(text.chars().count() <= LONGEST);
        assert!(text.starts_with("     1\tline 1\n") && text.ends_with("  3000\tline 3000\n"));
        let gap = text.lines().find(|line| line.starts_with("[...")).unwrap();
        let (before, after) = text.split_once(gap).unwrap();
        let last_before = before.lines().count();
        let first_after = 3000 - after.trim_start().lines().count() + 1;
        assert_eq!(
            gap,
            format!(
                "[... lines {} to {} are left out; see them with `view_range` ...]",
                last_before + 1,
                first_after - 1
            )
        );
    }

    #[test]
    fn cuts_long_lines() {
        let text = numbered(&[&"x".repeat(50_000)], 1);
        assert!(text.chars().count() < LONGEST && text.contains("46000 characters left out"), "{text}");
    }
}

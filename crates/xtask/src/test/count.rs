//! Reads how many tests passed and failed out of what a test runner printed. Pure.

/// Passed and failed tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed.
    pub(crate) failed: u64,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Sums the closing lines of `cargo test` and `cargo nextest run`.
pub(crate) fn read(output: &str) -> Count {
    let mut count = Count::default();
    for line in output.lines().map(plain) {
        let line = line.trim();
        if line.starts_with("test result:") || (line.starts_with("Summary [") && line.contains(" run:")) {
            count +=
                Count { passed: before(line, "passed"), failed: before(line, "failed") + before(line, "timed out") };
        }
    }
    count
}

/// The number in front of `word`.
fn before(line: &str, word: &str) -> u64 {
    let Some((head, _)) = line.split_once(&format!(" {word}")) else { return 0 };
    let digits = head.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// Without the colours that a runner may add.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for c in line.chars() {
        match (inside, c) {
            (false, '\u{1b}') => inside = true,
            (false, c) => text.push(c),
            (true, c) => inside = !c.is_ascii_alphabetic(),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_runners() {
        let cargo = "running 2 tests\ntest a ... ok\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
                     test result: FAILED. 3 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(read(cargo), Count { passed: 5, failed: 4 });
        let nextest = "     Summary [   1.204s] 12 tests run: 10 passed (1 slow), 1 failed, 1 timed out, 3 skipped";
        assert_eq!(read(nextest), Count { passed: 10, failed: 2 });
        let coloured = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.010s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped";
        assert_eq!(read(coloured), Count { passed: 2, failed: 0 });
        assert_eq!(read("5 passed by the way\nerror: could not compile"), Count::default());
    }
}

//! The table of known models: prices, limits, abilities; trimmed from LiteLLM's (see `prices/refresh.py`). Read where it lies, line
//! by line: it is asked once a client.

use openhands_protocol::LlmConfig;

static TABLE: &str = include_str!("../prices/models.tsv");

/// Prices for prompts that are longer than `above` tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tier {
    pub(crate) above: u64,
    pub(crate) input: Option<f64>,
    pub(crate) output: Option<f64>,
    pub(crate) cache_read: Option<f64>,
    pub(crate) cache_write: Option<f64>,
}

/// One model. Prices are US dollars a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) input: Option<f64>,
    pub(crate) output: Option<f64>,
    pub(crate) cache_read: Option<f64>,
    pub(crate) cache_write: Option<f64>,
    pub(crate) reasoning: Option<f64>,
    pub(crate) tier: Option<Tier>,
    pub(crate) context_window: Option<u64>,
    pub(crate) max_output: Option<u64>,
    pub(crate) flags: &'static str,
    /// How many times dearer the provider's fastest service is.
    pub(crate) priority: Option<f64>,
}

impl Row {
    /// Whether the row carries this letter; see `prices/refresh.py` for their meanings.
    pub(crate) fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    fn parse(cells: &'static str) -> Self {
        let mut cells = cells.split('\t');
        let mut next = || cells.next().unwrap_or_default();
        let number = |text: &str| text.parse::<f64>().ok();
        let (input, output, cache_read, cache_write, reasoning) =
            (number(next()), number(next()), number(next()), number(next()), number(next()));
        let mut tier = next().split(':');
        let tier = tier.next().and_then(|above| above.parse().ok()).map(|above| {
            let mut price = || tier.next().and_then(number);
            Tier { above, input: price(), output: price(), cache_read: price(), cache_write: price() }
        });
        let (context_window, max_output) = (next().parse().ok(), next().parse().ok());
        let (flags, priority) = (next(), number(next()));
        Self { input, output, cache_read, cache_write, reasoning, tier, context_window, max_output, flags, priority }
    }
}

/// The names of all models.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.split_once('\t')?.0))
}

/// The name that abilities are looked up by, lower case.
pub(crate) fn canonical(config: &LlmConfig) -> String {
    config.model_canonical_name.as_deref().unwrap_or(&config.model).trim().to_ascii_lowercase()
}

/// The row of a model, under any of the spellings that users write.
pub(crate) fn find(name: &str) -> Option<Row> {
    spellings(name).iter().find_map(|name| row(name))
}

fn row(name: &str) -> Option<Row> {
    let line = TABLE.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('\t')))?;
    Some(Row::parse(line.get(name.len() + 1..)?))
}

/// From the most exact spelling to the loosest.
fn spellings(name: &str) -> Vec<String> {
    let mut name = name;
    for routing in ["litellm_proxy/", "openhands/"] {
        name = name.strip_prefix(routing).unwrap_or(name);
    }
    for stage in ["prod/", "dev/", "staging/", "test/"] {
        name = name.strip_prefix(stage).unwrap_or(name);
    }
    let mut names = vec![name.to_owned()];
    let mut add = |name: &str| {
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    };
    if let Some((_, rest)) = name.split_once('/') {
        add(rest);
    }
    let last = name.rsplit('/').next().unwrap_or(name);
    add(last);
    // Cross-region profiles of Bedrock.
    for region in ["us.", "eu.", "apac.", "global.", "jp.", "au.", "ca.", "us-gov."] {
        if let Some(rest) = last.strip_prefix(region) {
            add(rest);
        }
    }
    for family in ["gemini", "deepseek", "mistral", "moonshot"] {
        let begins = if family == "moonshot" { "kimi" } else { family };
        if last.starts_with(begins) {
            add(&format!("{family}/{last}"));
        }
    }
    if last.starts_with("grok") {
        add(&format!("xai/{last}"));
    }
    if last.starts_with("claude") {
        let dashed = last.replace('.', "-");
        add(&dashed);
        add(dashed.split(':').next().unwrap_or_default());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_as_users_write_them() {
        let sonnet = find("claude-sonnet-4-5").unwrap();
        assert_eq!((sonnet.input, sonnet.output, sonnet.max_output), (Some(3.0), Some(15.0), Some(64_000)));
        for name in [
            "anthropic/claude-sonnet-4-5",
            "litellm_proxy/claude-sonnet-4-5",
            "litellm_proxy/prod/claude-sonnet-4-5",
            "openhands/claude-sonnet-4-5",
            "openrouter/anthropic/claude-sonnet-4.5",
        ] {
            assert_eq!(find(name), Some(sonnet), "{name}");
        }
        assert!(find("bedrock/us.anthropic.claude-opus-4-8").unwrap().has('a'));
        assert!(find("gemini-2.5-pro").unwrap().tier.is_some());
        assert!(find("openai/gpt-5.2").unwrap().has('R'));
        for name in ["openai/mock-model", "", "/", "claude"] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn every_line_is_whole() {
        let mut names = std::collections::HashSet::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let (name, cells) = line.split_once('\t').unwrap();
            assert!(names.insert(name), "{name} is there twice");
            let row = Row::parse(cells);
            assert!(row.flags.chars().all(|flag| "fpvrcaoxmhFSRC".contains(flag)), "{line}");
            assert!(row.input.is_none_or(|price| (0.0..1000.0).contains(&price)), "{line}");
        }
        assert!(names.len() > 800);
        assert!(TABLE.len() < 150 * 1024);
    }
}

//! What a call cost (F1-LLM-23): by the configuration's prices, else what the provider says, else by the table, else nothing.

use openhands_protocol::{LlmConfig, metrics::TokenUsage};

use crate::{
    answer::{Billing, Service},
    table::{self, Row},
};

/// Writing to the cache for an hour, beside writing for five minutes; the same for every model that has it.
const HOUR: f64 = 1.6;
/// Slower answers, where they are to be had.
const FLEX: f64 = 0.5;

/// Models behind these run on the user's own machines.
const OWN: [&str; 6] = ["hosted_vllm/", "vllm/", "lm_studio/", "ollama/", "ollama_chat/", "custom_openai/"];

/// US dollars. `reported` is the provider's own figure.
pub(crate) fn cost(
    config: &LlmConfig,
    row: Option<&Row>,
    usage: &TokenUsage,
    billing: Billing,
    reported: Option<f64>,
) -> f64 {
    let configured = match (config.input_cost_per_token, config.output_cost_per_token) {
        (None, None) => None,
        (input, output) => Some(
            input.unwrap_or(0.0) * tokens(usage.prompt_tokens)
                + output.unwrap_or(0.0) * tokens(usage.completion_tokens),
        ),
    };
    // A proxy that charges nothing says 0; one that does not know its price says so too.
    let reported = reported.filter(|cost| *cost > 0.0);
    let listed = || row.map(|row| by_table(row, usage, billing));
    let own = OWN.iter().any(|prefix| table::canonical(config).starts_with(prefix));
    let cost = configured.or(reported).or_else(|| if own { None } else { listed() });
    cost.filter(|cost| cost.is_finite() && *cost >= 0.0).unwrap_or(0.0)
}

/// Every kind of token at its price. Cached tokens cost as much as others where the table has no price for them.
fn by_table(row: &Row, usage: &TokenUsage, billing: Billing) -> f64 {
    let tier = row.tier.filter(|tier| usage.prompt_tokens > tier.above).unwrap_or_default();
    let input = tier.input.or(row.input).unwrap_or(0.0);
    let output = tier.output.or(row.output).unwrap_or(0.0);
    let read = tier.cache_read.or(row.cache_read).unwrap_or(input);
    let write = tier.cache_write.or(row.cache_write).unwrap_or(input);
    // What is kept for an hour costs more to write, where the provider tells it apart.
    let hour = if row.has('h') { HOUR } else { 1.0 };
    let kept = billing.hour_written.min(usage.cache_write_tokens);
    let speed = match billing.service {
        Service::Standard => 1.0,
        Service::Priority => row.priority.unwrap_or(1.0),
        Service::Flex if row.has('F') => FLEX,
        Service::Flex => 1.0,
    };
    let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
    let fresh = usage.prompt_tokens.saturating_sub(cached);
    let (reasoning, written) = match row.reasoning {
        Some(price) => {
            (price * tokens(usage.reasoning_tokens), usage.completion_tokens.saturating_sub(usage.reasoning_tokens))
        }
        None => (0.0, usage.completion_tokens),
    };
    let dollars = input * tokens(fresh)
        + read * tokens(usage.cache_read_tokens)
        + write * (tokens(usage.cache_write_tokens) + (hour - 1.0) * tokens(kept))
        + output * tokens(written)
        + reasoning;
    dollars * speed / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
fn tokens(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(cost: f64, expected: f64) {
        assert!((cost - expected).abs() < 1e-12, "{cost} is not {expected}");
    }

    #[test]
    fn the_configuration_comes_first() {
        let usage = TokenUsage { prompt_tokens: 100, completion_tokens: 10, ..TokenUsage::default() };
        let row = table::find("gpt-4o").unwrap();
        let mut config = LlmConfig { model: "openai/gpt-4o".to_owned(), ..LlmConfig::default() };
        near(cost(&config, None, &usage, Billing::default(), None), 0.0);
        near(cost(&config, None, &usage, Billing::default(), Some(0.5)), 0.5);
        near(cost(&config, Some(&row), &usage, Billing::default(), Some(0.5)), 0.5);
        near(cost(&config, Some(&row), &usage, Billing::default(), None), (100.0 * 2.5 + 10.0 * 10.0) / 1e6);
        near(cost(&config, None, &usage, Billing::default(), Some(-1.0)), 0.0);
        near(cost(&config, None, &usage, Billing::default(), Some(f64::NAN)), 0.0);
        config.input_cost_per_token = Some(0.001);
        near(cost(&config, Some(&row), &usage, Billing::default(), Some(0.5)), 0.1);
        config.output_cost_per_token = Some(0.01);
        near(cost(&config, Some(&row), &usage, Billing::default(), None), 0.2);
        config.model = "ollama/gpt-4o".to_owned();
        (config.input_cost_per_token, config.output_cost_per_token) = (None, None);
        near(cost(&config, Some(&row), &usage, Billing::default(), None), 0.0);
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let usage = |prompt: u64| TokenUsage {
            prompt_tokens: prompt,
            completion_tokens: 1000,
            cache_read_tokens: 10_000,
            cache_write_tokens: 20_000,
            reasoning_tokens: 500,
            ..TokenUsage::default()
        };
        let row = table::find("anthropic.claude-sonnet-4-5-20250929-v1:0").unwrap();
        let price = |prompt, [input, output, read, write]: [f64; 4]| {
            near(
                by_table(&row, &usage(prompt), Billing::default()),
                (input * (tokens(prompt) - 30_000.0) + read * 10_000.0 + write * 20_000.0 + output * 1000.0) / 1e6,
            );
        };
        price(200_000, [3.0, 15.0, 0.3, 3.75]);
        price(200_001, [6.0, 22.5, 0.6, 7.5]);
        let priced = Row { input: Some(1.0), output: Some(2.0), reasoning: Some(4.0), ..Row::default() };
        near(by_table(&priced, &usage(30_000), Billing::default()), (30_000.0 + 500.0 * 2.0 + 500.0 * 4.0) / 1e6);
    }

    #[test]
    fn kept_prefixes_and_speeds_have_their_prices() {
        let usage = TokenUsage {
            prompt_tokens: 30_000,
            completion_tokens: 1000,
            cache_write_tokens: 20_000,
            ..TokenUsage::default()
        };
        let claude = table::find("claude-sonnet-4-5").unwrap();
        let hour = |hour_written| by_table(&claude, &usage, Billing { hour_written, ..Billing::default() });
        near(hour(0), (10_000.0 * 3.0 + 20_000.0 * 3.75 + 1000.0 * 15.0) / 1e6);
        near(hour(20_000), (10_000.0 * 3.0 + 20_000.0 * 6.0 + 1000.0 * 15.0) / 1e6);
        near(hour(99_000), hour(20_000));
        let gpt = table::find("gpt-5").unwrap();
        let served = |service| by_table(&gpt, &usage, Billing { service, ..Billing::default() });
        near(served(Service::Priority), served(Service::Standard) * 2.0);
        near(served(Service::Flex), served(Service::Standard) / 2.0);
        let none = Row { input: Some(1.0), ..Row::default() };
        near(by_table(&none, &usage, Billing { hour_written: 9, service: Service::Flex }), 0.03);
    }
}

//! Two reports of the server's yardstick become one table with ratios. Pure.

use serde_json::Value;

/// What is compared: name, place in the report, unit, and the share of the reference that is the goal.
const ROWS: &[(&str, &str, &str, Option<f64>)] = &[
    ("exec to first 200 on /ready", "/start_ready_s", "s", Some(0.01)),
    ("idle memory (RSS)", "/idle/server_rss_mb", "MB", Some(0.05)),
    ("idle CPU", "/idle/cpu_percent", "%", None),
    ("first conversation to finished, median", "/first_finish_ms/median", "ms", None),
    ("the same with one terminal command", "/first_tool_ms/median", "ms", None),
    ("one turn", "/long/per_turn_ms", "ms", None),
    ("CPU of one turn", "/long/cpu_per_turn_ms", "ms", Some(0.05)),
    ("memory after the long conversation", "/long/server_rss_mb", "MB", None),
    ("many conversations at once, total", "/many/total_s", "s", Some(0.1)),
    ("events/search, 100 of 1000, median", "/search/first_page/p50_ms", "ms", None),
    ("POST message without a run", "/append_message_ms", "ms", None),
    ("memory at the end", "/end/server_rss_mb", "MB", None),
];

/// The table. Without a reference only our figures are in it.
pub(crate) fn table(ours: &Value, reference: Option<&Value>) -> String {
    let mut text = format!("{:<42} {:>12} {:>12} {:>9} {:>9}\n", "", "ours", "reference", "ratio", "goal");
    for (name, place, unit, goal) in ROWS {
        let number = |report: &Value| report.pointer(place).and_then(Value::as_f64);
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2} {unit}"));
        let (mine, theirs) = (number(ours), reference.and_then(number));
        let ratio = match (mine, theirs) {
            (Some(mine), Some(theirs)) if theirs > 0.0 => Some(mine / theirs),
            _ => None,
        };
        let mark = match (ratio, goal) {
            (Some(ratio), Some(goal)) if ratio > *goal => "  missed",
            _ => "",
        };
        let one_in = |share: f64| if share > 0.0 { format!("1/{:.0}", 1.0 / share) } else { "0".to_owned() };
        let line = format!(
            "{name:<42} {:>12} {:>12} {:>9} {:>9}{mark}",
            shown(mine),
            shown(theirs),
            ratio.map_or_else(
                || "-".to_owned(),
                |ratio| if ratio <= 0.67 { one_in(ratio) } else { format!("{ratio:.2}") }
            ),
            goal.map_or_else(|| "-".to_owned(), one_in),
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ratios_and_missed_goals() {
        let ours = json!({"start_ready_s": 0.02, "idle": {"server_rss_mb": 30.0}});
        let reference = json!({"start_ready_s": 10.0, "idle": {"server_rss_mb": 300.0}});
        let text = table(&ours, Some(&reference));
        let rows: Vec<&str> = text.lines().skip(1).take(2).collect();
        assert!(rows[0].ends_with("1/500     1/100"), "{text}");
        assert!(rows[1].ends_with("1/10      1/20  missed"), "{text}");
        assert!(table(&ours, None).lines().nth(1).unwrap().contains("0.02 s            -"));
    }
}

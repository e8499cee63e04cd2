//! Metrics in Prometheus's text format for subjects that come and go: a recorder's gauge would keep its last value.

use std::fmt::Write as _;

/// The type of a metric in Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only rises.
    Counter,
    /// A value that rises and falls.
    Gauge,
}

/// Adds a metric to `page`: its description, and a line for each of `samples`. Adds nothing if there are no samples.
pub fn family<'a>(
    page: &mut String,
    name: &str,
    kind: MetricKind,
    help: &str,
    samples: impl IntoIterator<Item = (Vec<(&'static str, &'a str)>, f64)>,
) {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return;
    }
    let kind = match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
    };
    // Writing to a `String` does not fail.
    let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    for (labels, value) in samples {
        let labels: Vec<String> = labels.iter().map(|(label, of)| format!("{label}=\"{}\"", escaped(of))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(page, "{name}{labels} {value}");
    }
    page.push('\n');
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_out_of_its_line() {
        let mut page = String::new();
        family(&mut page, "x", MetricKind::Gauge, "Help.", [(vec![("name", "a\"b\\\nc")], 1.5), (vec![], 2.0)]);
        assert_eq!(page, "# HELP x Help.\n# TYPE x gauge\nx{name=\"a\\\"b\\\\\\nc\"} 1.5\nx 2\n\n");
        family(&mut page, "y", MetricKind::Gauge, "Help.", []);
        assert!(!page.contains('y'));
    }
}

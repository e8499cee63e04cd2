//! The tables about the gateway: targets, cost, latency, open streams.

use std::fmt::Write as _;

use super::{
    peers,
    provider::{CHUNK, CHUNKS, JSON},
    refusals::RefusalFigures,
    round::{CLIENTS, GatewayFigures, OPEN, ProviderBaseline},
};
use crate::{
    BenchEffort,
    figures::{format_number, format_rounds, median, uneven_rounds},
    ranges::{RatioMap, RatioRanges},
};

const NOTHING: &str = "–";
/// Our gateway with the responses API, which is translated.
pub(super) const RESPONSES: &str = "svc, responses";
/// Our gateway with the messages API, which is translated.
pub(super) const MESSAGES: &str = "svc, messages";

pub(super) fn text(
    all: &[(&str, &GatewayFigures)],
    alone: &ProviderBaseline,
    refusals: &RefusalFigures,
    ranges: &RatioRanges,
    missing: &[String],
    effort: BenchEffort,
) -> String {
    let mut text = format!(
        "{rounds} of {seconds} s for each figure, interleaved; medians, and in brackets how far the rounds are apart. Each gateway is started afresh for a round and \
         has a core to itself; clients and provider share the other. Clear text on both sides unless said. A request is of \
         about 130 bytes, a JSON answer of {json}; a stream is of {CHUNKS} chunks of {chunk} bytes, each sent by itself.\n\
         Versions: {versions}.\n",
        rounds = if effort.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", effort.rounds) },
        seconds = effort.seconds,
        json = JSON.len(),
        chunk = CHUNK.len(),
        versions = peers::versions().join(", "),
    );
    // A gateway without any figure is listed as missing.
    let all: Vec<_> = all.iter().filter(|(_, figures)| !figures.json_per_cpu.is_empty()).copied().collect();
    aims(&mut text, &all, refusals, ranges);
    cost(&mut text, &all);
    latency(&mut text, &all, alone);
    open(&mut text, &all);
    for reason in missing {
        let _ = writeln!(text, "\nNot measured, or not to the end: {reason}");
    }
    text
}

/// Targets for our requests per CPU second relative to a peer's: name, peer, JSON or streams, target, stretch target.
const AIMS: [(&str, &str, bool, f64, f64); 4] = [
    ("JSON per CPU second, against nginx", "nginx", true, 0.22, 0.35),
    ("JSON per CPU second, against TensorZero", "TensorZero", true, 2.0, 3.0),
    ("JSON per CPU second, against LiteLLM", "LiteLLM", true, 2.0, 60.0),
    ("streams per CPU second, against TensorZero", "TensorZero", false, STREAMS, 3.0),
];

/// The target for streams per CPU second against `TensorZero`.
const STREAMS: f64 = 2.0;

const REFUSALS: f64 = 50_000.0;

/// The limit of the latency that a request may add, as a multiple of nginx's, by the name of our candidate.
const ADDED: [(&str, f64); 3] = [("svc", 1.3), (RESPONSES, 2.0), (MESSAGES, 2.0)];

/// The limit of the CPU of a translated stream, as a multiple of the same stream untranslated.
const TRANSLATED: f64 = 1.5;

/// Returns the measured ratio of each of [`AIMS`] by its name, omitting peers that were not measured.
pub(super) fn ratios(all: &[(&str, &GatewayFigures)]) -> RatioMap {
    let per_cpu = |name: &str, is_json: bool| {
        let (_, figures) = all.iter().find(|(other, _)| *other == name)?;
        median_of(if is_json { &figures.json_per_cpu } else { &figures.streams_per_cpu })
    };
    let ratio = |peer, is_json| Some(per_cpu("svc", is_json)? / per_cpu(peer, is_json)?);
    AIMS.iter().filter_map(|&(what, peer, is_json, ..)| Some((what.to_owned(), ratio(peer, is_json)?))).collect()
}

/// Returns the lowest ratio over the rounds of streams per CPU second to `TensorZero`'s.
fn least_of_streams(all: &[(&str, &GatewayFigures)]) -> Option<f64> {
    let of = |name: &str| Some(all.iter().find(|(other, _)| *other == name)?.1.streams_per_cpu.iter());
    of("svc")?.zip(of("TensorZero")?).map(|(own, theirs)| own / theirs).reduce(f64::min)
}

fn aims(text: &mut String, all: &[(&str, &GatewayFigures)], refusals: &RefusalFigures, ranges: &RatioRanges) {
    let Some((_, svc)) = all.iter().find(|(name, _)| *name == "svc") else { return };
    text.push_str("\n| svc, clear text | aim | stretch | measured | | on every machine |\n|---|--:|--:|--:|---|--:|\n");
    let measured = ratios(all);
    for (what, _, _, aim, stretch) in AIMS {
        let (measured, verdict) = match measured.get(what) {
            None => (NOTHING.to_owned(), "not measured"),
            Some(ratio) if *ratio >= stretch => (format!("{ratio:.2}×"), "stretch reached"),
            Some(ratio) if *ratio >= aim => (format!("{ratio:.2}×"), "reached"),
            Some(ratio) => (format!("{ratio:.2}×"), "not reached"),
        };
        let _ = writeln!(text, "| {what} | {aim}× | {stretch}× | {measured} | {verdict} | {} |", ranges.shown(what));
    }
    if let Some(least) = least_of_streams(all) {
        let verdict = if least >= STREAMS { "reached" } else { "not reached" };
        let _ = writeln!(text, "| the same in every round | {STREAMS}× | | {least:.2}× and more | {verdict} | |");
    }
    multiples(text, all);
    let below = |measured: f64, aim: f64| if measured < aim { "reached" } else { "not reached" };
    for (what, seconds, aim) in [
        ("added to JSON, median", &svc.json_p50, 0.15),
        ("added to JSON, 99th percentile", &svc.json_p99, 1.0),
        ("added to a stream's first byte, median", &svc.first_p50, 0.2),
    ] {
        let ms = median(seconds) * 1e3;
        let _ = writeln!(text, "| {what} | < {aim} ms | | {ms:.3} ms | {} | |", below(ms, aim));
    }
    if let (Some(per_cpu), Some(redis)) = (median_of(&refusals.per_cpu), median_of(&refusals.redis)) {
        let verdict = if per_cpu >= REFUSALS { "reached" } else { "not reached" };
        let _ = writeln!(
            text,
            "| refusals (429) of an account at its limit, per CPU second | {} | | {} | {verdict} | |",
            format_number(REFUSALS),
            format_rounds(&refusals.per_cpu)
        );
        let _ = writeln!(
            text,
            "| Redis meanwhile, of a core | < 5% | | {:.1}% | {} | |",
            redis * 100.0,
            below(redis, 0.05)
        );
    }
    let share = svc.stalled.iter().copied().fold(0.0, f64::max) * 100.0;
    let verdict = if svc.has_stalls() { "not reached" } else { "reached" };
    let _ = writeln!(
        text,
        "| streams that wait 30 ms or more for bytes that are there | none but by chance | | {share:.1}% | {verdict} | |"
    );
    let [.., most] = &svc.open;
    if let Some(bytes) = middle(most, |open| open.bytes) {
        let kb = bytes / 1024.0;
        let _ = writeln!(
            text,
            "| memory of an open stream, of 1,000 | < 64 KB | | {} KB | {} | |",
            format_number(kb),
            below(kb, 64.0)
        );
    }
}

/// Formats the added latency and the cost of each of our formats, as multiples.
fn multiples(text: &mut String, all: &[(&str, &GatewayFigures)]) {
    let of = |name: &str| all.iter().find(|(other, _)| *other == name).map(|(_, figures)| *figures);
    let mut row = |what: String, own: &[f64], theirs: &[f64], most: f64| {
        if let (Some(own), Some(theirs)) = (median_of(own), median_of(theirs)) {
            let verdict = if own <= most * theirs { "reached" } else { "not reached" };
            let _ = writeln!(text, "| {what} | ≤ {most}× | | {:.2}× | {verdict} | |", own / theirs);
        }
    };
    for (name, most) in ADDED {
        if let (Some(own), Some(nginx)) = (of(name), of("nginx")) {
            row(format!("{name}: added to JSON, against nginx"), &own.json_p50, &nginx.json_p50, most);
            row(
                format!("{name}: added to a stream's first byte, against nginx"),
                &own.first_p50,
                &nginx.first_p50,
                most,
            );
        }
    }
    for name in [RESPONSES, MESSAGES] {
        if let (Some(translated), Some(chat)) = (of(name), of("svc")) {
            let what = format!("{name}: CPU of a stream, against chat completions");
            // Per CPU second: fewer means that each takes more.
            row(what, &chat.streams_per_cpu, &translated.streams_per_cpu, TRANSLATED);
        }
    }
}

fn cost(text: &mut String, all: &[(&str, &GatewayFigures)]) {
    let _ = write!(
        text,
        "\nCost, {CLIENTS} clients, per CPU second of the gateway (all its processes):\n\n| | JSON | svc ÷ it | streams | svc \
         ÷ it |\n|---|--:|--:|--:|--:|\n",
    );
    let Some((_, svc)) = all.first() else { return };
    let cells = |own: &[f64], theirs: &[f64]| {
        if theirs.is_empty() {
            return format!("{NOTHING} | {NOTHING}");
        }
        format!("{} | {}", format_rounds(theirs), shown_ratio(own, theirs))
    };
    for (name, figures) in all {
        let json = cells(&svc.json_per_cpu, &figures.json_per_cpu);
        let streams = cells(&svc.streams_per_cpu, &figures.streams_per_cpu);
        let _ = writeln!(text, "| {name} | {json} | {streams} |");
    }
    text.push_str(&uneven_rounds(all.iter().flat_map(|(name, figures)| {
        let (json, streams) = (figures.json_per_cpu.as_slice(), figures.streams_per_cpu.as_slice());
        [(format!("{name}, JSON"), json), (format!("{name}, streams"), streams)]
    })));
    let _ = writeln!(
        text,
        "\nOurs checks the key, reserves, meters and journals every completion; for one JSON answer its Redis, PostgreSQL and \
         admin took {:.0} µs of CPU beside that. The others check no budget and write nothing down.",
        median(&svc.beside) * 1e6
    );
}

fn latency(text: &mut String, all: &[(&str, &GatewayFigures)], alone: &ProviderBaseline) {
    text.push_str(
        "\nAdded to the provider's own time, one request at a time, in ms; the longest wait for bytes in a stream, whose provider \
         pauses for 2 ms after the first chunk, and the share of streams in which one was 30 ms or more (Nagle's algorithm \
         against a delayed acknowledgement costs 40):\n\n| | JSON p50 | svc ÷ it | p99 | first byte of a stream p50 | svc ÷ it | p99 | longest wait p50 | 30 ms or more \
         |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let ms = |seconds: &[f64]| median_of(seconds).map_or(NOTHING.to_owned(), |seconds| format!("{:.3}", seconds * 1e3));
    let share = |shares: &[f64]| median_of(shares).map_or(NOTHING.to_owned(), |share| format!("{:.1}%", share * 100.0));
    let (json, streams) = (&alone.json, &alone.streams);
    let of = |asked: &[super::ask::ClientResult], value: fn(&super::ask::ClientResult) -> f64| {
        asked.iter().map(value).collect::<Vec<_>>()
    };
    let _ = writeln!(
        text,
        "| the provider's own time | {} | | {} | {} | | {} | {} | {} |",
        ms(&of(json, |it| it.whole_p50)),
        ms(&of(json, |it| it.whole_p99)),
        ms(&of(streams, |it| it.first_p50)),
        ms(&of(streams, |it| it.first_p99)),
        ms(&of(streams, |it| it.wait_p50)),
        share(&of(streams, |it| it.stalled)),
    );
    let Some((_, svc)) = all.first() else { return };
    for (name, it) in all {
        let [json, json_p99, first, first_p99, wait] =
            [&it.json_p50, &it.json_p99, &it.first_p50, &it.first_p99, &it.wait_p50].map(|it| ms(it));
        let json_ratio = shown_ratio(&svc.json_p50, &it.json_p50);
        let first_ratio = shown_ratio(&svc.first_p50, &it.first_p50);
        let stalled = share(&it.stalled);
        let _ = writeln!(
            text,
            "| {name} | {json} | {json_ratio} | {json_p99} | {first} | {first_ratio} | {first_p99} | {wait} | {stalled} |"
        );
    }
}

fn shown_ratio(own: &[f64], theirs: &[f64]) -> String {
    median_of(theirs).map_or(NOTHING.to_owned(), |theirs| format!("{:.2}", median(own) / theirs))
}

fn open(text: &mut String, all: &[(&str, &GatewayFigures)]) {
    text.push_str(
        "\nStreams open at once, a chunk every 10 to 50 ms: KB of memory for each, over the least it held since it was warm, \
         and share of the core; what LiteLLM takes for 1,000 is of one round:\n\n|",
    );
    for (clients, _) in OPEN {
        #[expect(clippy::cast_precision_loss, reason = "a thousand at most")]
        let _ = write!(text, " | {}", format_number(clients as f64).trim_end_matches(".00").trim_end_matches(".0"));
    }
    text.push_str(" |\n|---|--:|--:|--:|--:|\n");
    for (name, figures) in all.iter().filter(|(_, figures)| figures.open.iter().any(|open| !open.is_empty())) {
        let _ = write!(text, "| {name}");
        for open in &figures.open {
            match (middle(open, |it| it.bytes), middle(open, |it| it.share)) {
                (Some(bytes), Some(share)) => {
                    let _ = write!(text, " | {} ({:.0}%)", format_number(bytes / 1024.0), share * 100.0);
                }
                _ => {
                    let _ = write!(text, " | {NOTHING}");
                }
            }
        }
        text.push_str(" |\n");
    }
}

pub(super) fn vanished(rows: &[String]) -> String {
    format!(
        "\nRedis's host vanishes without a word and another one has its address at once, a client asks on and on: seconds until \
         it is served again, 503 meanwhile (5 wanted):\n\n| times | median | slowest |\n|--:|--:|--:|\n{}\n",
        rows.join("\n")
    )
}

fn median_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}

fn middle<T>(values: &[T], of: fn(&T) -> f64) -> Option<f64> {
    median_of(&values.iter().map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{super::round::OpenStreams, *};

    fn figures(json: f64, streams: f64, kb: f64) -> GatewayFigures {
        let mut figures =
            GatewayFigures { json_per_cpu: vec![json], streams_per_cpu: vec![streams], ..GatewayFigures::default() };
        (figures.json_p50, figures.json_p99, figures.first_p50) = (vec![0.000_1], vec![0.002], vec![0.000_1]);
        (figures.stalled, figures.open[3]) = (vec![0.0], vec![OpenStreams { bytes: kb * 1024.0, share: 0.1 }]);
        figures
    }

    #[test]
    fn aims_are_judged_by_what_was_measured() {
        let (mut svc, mut nginx) = (figures(30.0, 20.0, 70.0), figures(100.0, 20.0, 10.0));
        nginx.json_p50 = vec![0.000_08];
        let (mut tensorzero, portkey) = (figures(16.0, 5.0, 99.0), GatewayFigures::default());
        (svc.streams_per_cpu, tensorzero.streams_per_cpu) = (vec![20.0, 20.0, 21.0], vec![5.0, 5.0, 7.0]);
        let all = [("svc", &svc), ("nginx", &nginx), ("TensorZero", &tensorzero), ("Portkey", &portkey)];
        let effort = BenchEffort { rounds: 1, seconds: 1, activations: 0, sites: &[], is_kept: false };
        let ranges = RatioRanges::from_ratios(ratios(&all));
        let refusals = RefusalFigures { per_cpu: vec![60_000.0], redis: vec![0.06] };
        let text = text(
            &all,
            &ProviderBaseline::default(),
            &refusals,
            &ranges,
            &["Portkey: it is not there".to_owned()],
            effort,
        );
        for line in [
            "| JSON per CPU second, against nginx | 0.22× | 0.35× | 0.30× | reached | 0.30 (1) |",
            "| JSON per CPU second, against TensorZero | 2× | 3× | 1.88× | not reached | 1.88 (1) |",
            "| JSON per CPU second, against LiteLLM | 2× | 60× | – | not measured | – |",
            "| streams per CPU second, against TensorZero | 2× | 3× | 4.00× | stretch reached | 4.00 (1) |",
            "| the same in every round | 2× | | 3.00× and more | reached | |",
            "| added to JSON, median | < 0.15 ms | | 0.100 ms | reached | |",
            "| added to JSON, 99th percentile | < 1 ms | | 2.000 ms | not reached | |",
            "| memory of an open stream, of 1,000 | < 64 KB | | 70.0 KB | not reached | |",
            "| refusals (429) of an account at its limit, per CPU second | 50,000 | | 60,000 (0%) | reached | |",
            "| Redis meanwhile, of a core | < 5% | | 6.0% | not reached | |",
            "| svc: added to JSON, against nginx | ≤ 1.3× | | 1.25× | reached | |",
            "| nginx | 100 (0%) | 0.30 | 20.0 (0%) | 1.00 |",
            "| nginx | 0.080 | 1.25 | 2.000 | 0.100 | 1.00 | – | – | 0.0% |",
            "| svc | – | – | – | 70.0 (10%) |",
            "Not measured, or not to the end: Portkey: it is not there",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("| Portkey"), "{text}");
    }
}

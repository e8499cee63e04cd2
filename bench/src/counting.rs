//! The cost of counting traffic: the requests per CPU second of an edge that counts, and of one that does not.

use std::{fmt::Write as _, fs};

use crate::{
    BenchEffort, cpu,
    figures::{format_number, format_rounds, median, uneven_rounds},
    load::{self, LoadTarget},
    world::{BenchWorld, EdgeProcess},
};

const SERVER_CORE: u32 = 0;
const LOAD_CORE: u32 = 1;
const PROJECT: &str = "counted";
const FILE: &str = "1k.bin";
/// A difference of a few percent needs more rounds than one of a half.
const PAIRS_A_ROUND: usize = 6;
const HEAD: &str = "A file of 1 KB over TLS, by an edge with `stats.source = \"edge\"` and by one with `\"none\"`, in turn, each on one core; \
    requests per CPU second, and in brackets how far the rounds are apart. The ratio is the median of those of the pairs:\n\n\
    | | counting | not counting | ratio |\n|---|--:|--:|--:|\n";

#[derive(Clone, Copy)]
enum HttpProtocol {
    H1,
    H2,
}

pub(crate) fn measure(world: &BenchWorld, effort: BenchEffort) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join(FILE), [b'x'; 1 << 10])?;
    world.svc(&["deploy", &folder.path().display().to_string(), "--project", PROJECT])?;
    let edges = [
        world.edge_with(Some(SERVER_CORE), &[("SVC__STATS__SOURCE", "edge")])?,
        world.edge_with(Some(SERVER_CORE), &[("SVC__STATS__SOURCE", "none")])?,
    ];
    let mut text = HEAD.to_owned();
    let mut all = Vec::new();
    for (name, protocol) in [("HTTP/1.1", HttpProtocol::H1), ("HTTP/2", HttpProtocol::H2)] {
        let [mut counting, mut not, mut ratios] = [const { Vec::new() }; 3];
        for edge in &edges {
            per_cpu_second(world, edge, protocol, 1)?;
        }
        for pair in 0..effort.rounds * PAIRS_A_ROUND {
            // They alternate in going first.
            let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
            let mut measured = [0.0; 2];
            for at in order {
                measured[at] = per_cpu_second(world, &edges[at], protocol, effort.seconds)?;
            }
            counting.push(measured[0]);
            not.push(measured[1]);
            ratios.push(measured[0] / measured[1]);
        }
        let ratio = format_number(median(&ratios));
        let _ = writeln!(text, "| {name} | {} | {} | {ratio} |", format_rounds(&counting), format_rounds(&not));
        eprintln!("  {name}: {ratio} of the requests without counting");
        all.extend([(format!("{name}, counting"), counting), (format!("{name}, not counting"), not)]);
    }
    text.push_str(&uneven_rounds(all.iter().map(|(name, rounds)| (name.clone(), rounds.as_slice()))));
    Ok(text)
}

fn per_cpu_second(world: &BenchWorld, edge: &EdgeProcess, protocol: HttpProtocol, seconds: u32) -> anyhow::Result<f64> {
    let host = world.host(PROJECT);
    let target = LoadTarget { host: &host, port: edge.port, path: FILE, core: LOAD_CORE };
    let before = cpu::spent(edge.program.id());
    let load = match protocol {
        HttpProtocol::H1 => load::wrk(&target, seconds)?,
        HttpProtocol::H2 => load::h2load(&target, seconds, &world.state.path().join("h2load.log"))?,
    };
    let spent = cpu::spent(edge.program.id()).saturating_sub(before);
    Ok(load.requests / spent.as_secs_f64().max(0.01))
}

//! The ratios that every machine has measured in its last run of a part, in `ratios.json` beside README.md. A ratio is
//! quoted as a range over all machines, because it differs between them.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs, io,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

const FILE: &str = "bench/ratios.json";

pub(crate) type RatioMap = BTreeMap<String, f64>;

/// The last run of a part on one machine.
#[derive(Serialize, Deserialize)]
struct MachineRun {
    date: String,
    ratios: RatioMap,
}

/// The last runs: by part, then by machine.
type RunsByPart = BTreeMap<String, BTreeMap<String, MachineRun>>;

/// The smallest and the largest ratio of each measurement, and the number of machines.
pub(crate) struct RatioRanges(BTreeMap<String, (f64, f64, usize)>);

impl RatioRanges {
    /// Returns the ranges of `part` over all machines, after storing `ratios` for this one if `is_kept`.
    pub(crate) fn with(part: &str, machine: &Machine, ratios: RatioMap, is_kept: bool) -> anyhow::Result<Self> {
        let text = match fs::read_to_string(FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => "{}".to_owned(),
            text => text.context(FILE)?,
        };
        let mut runs: RunsByPart = serde_json::from_str(&text).context(FILE)?;
        let of_part = runs.entry(part.to_owned()).or_default();
        of_part.insert(machine.name(), MachineRun { date: machine.today.clone(), ratios });
        let ranges = Self::from_runs(of_part.values());
        if is_kept {
            fs::write(FILE, serde_json::to_string_pretty(&runs)? + "\n").context(FILE)?;
        }
        Ok(ranges)
    }

    #[cfg(test)]
    pub(crate) fn from_ratios(ratios: RatioMap) -> Self {
        Self::from_runs([MachineRun { date: String::new(), ratios }].iter())
    }

    fn from_runs<'r>(runs: impl Iterator<Item = &'r MachineRun>) -> Self {
        let mut ranges = BTreeMap::new();
        for (name, &ratio) in runs.flat_map(|run| &run.ratios) {
            match ranges.entry(name.clone()) {
                Entry::Vacant(vacant) => {
                    vacant.insert((ratio, ratio, 1));
                }
                Entry::Occupied(mut known) => {
                    let (least, most, machines) = known.get_mut();
                    (*least, *most, *machines) = (least.min(ratio), most.max(ratio), *machines + 1);
                }
            }
        }
        Self(ranges)
    }

    pub(crate) fn shown(&self, name: &str) -> String {
        match self.0.get(name) {
            None => "–".to_owned(),
            Some((ratio, _, 1)) => format!("{ratio:.2} (1)"),
            Some((least, most, machines)) => format!("{least:.2} to {most:.2} ({machines})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_over_every_machine_that_measured_it() {
        let run = |ratios: &[(&str, f64)]| MachineRun {
            date: String::new(),
            ratios: ratios.iter().map(|(name, ratio)| ((*name).to_owned(), *ratio)).collect(),
        };
        let ranges =
            RatioRanges::from_runs([run(&[("a", 1.25), ("b", 3.0)]), run(&[("a", 2.7)]), run(&[("a", 2.0)])].iter());
        assert_eq!(ranges.shown("a"), "1.25 to 2.70 (3)");
        assert_eq!(ranges.shown("b"), "3.00 (1)");
        assert_eq!(ranges.shown("c"), "–");
    }
}

//! The day's visitors that Postgres already knows, so that only changes are sent. Forgetting them loses no count.

use std::collections::HashMap;

use domain::{
    ProjectId,
    traffic::sketch::{SketchRegister, VisitorSketch},
};
use time::Date;

/// The registers that were sent, for projects with many visitors.
#[derive(Default)]
pub(in super::super) struct SentRegisters {
    day: Option<Date>,
    projects: HashMap<ProjectId, ProjectRegisters>,
    sketches: usize,
}

#[derive(Default)]
struct ProjectRegisters {
    sent: usize,
    sketch: Option<VisitorSketch>,
}

impl SentRegisters {
    /// Resets the registers when a new day begins. Returns whether it did.
    pub(in super::super) fn begin(&mut self, day: Date) -> bool {
        let is_new = self.day.is_some_and(|known| known != day);
        if is_new {
            *self = Self::default();
        }
        self.day = Some(day);
        is_new
    }

    /// Retains the registers that change what was sent.
    pub(in super::super) fn retain_new(&mut self, project: &ProjectId, registers: &mut Vec<SketchRegister>) {
        if registers.is_empty() {
            return;
        }
        if !self.projects.contains_key(project) {
            if self.projects.len() >= limits::SENT_PROJECTS {
                return;
            }
            self.projects.insert(project.clone(), ProjectRegisters::default());
        }
        let Some(known) = self.projects.get_mut(project) else { return };
        known.sent += registers.len();
        if known.sketch.is_none() && known.sent > limits::SENT_REGISTERS && self.sketches < limits::SENT_SKETCHES {
            self.sketches += 1;
            known.sketch = Some(VisitorSketch::default());
        }
        if let Some(sketch) = &mut known.sketch {
            registers.retain(|register| sketch.add(*register));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_visitors_only_changes_are_left() {
        let mut sent = SentRegisters::default();
        let project = ProjectId::from_body("00000000000000000001").unwrap();
        let some = || {
            (0..2_000_u64).map(|number| SketchRegister::from_hash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
        };
        let today = Date::from_ordinal_date(2026, 1).unwrap();
        assert!(!sent.begin(today));
        let mut first: Vec<SketchRegister> = some();
        sent.retain_new(&project, &mut first);
        assert!(first.len() > 1_000);
        let mut again: Vec<SketchRegister> = some();
        sent.retain_new(&project, &mut again);
        assert!(again.is_empty());
        assert!(sent.begin(today.next_day().unwrap()));
        let mut tomorrow: Vec<SketchRegister> = some();
        sent.retain_new(&project, &mut tomorrow);
        assert_eq!(tomorrow, first);
    }
}

use db::edges::routes::SnapshotExtent;
use domain::{ChangeSubject, Epoch, OrgId};

use super::*;
use crate::ChangeReading;

fn epoch(name: &str) -> Epoch {
    name.parse().unwrap()
}

fn at(name: &str, seq: i64) -> ChangePosition {
    ChangePosition { epoch: epoch(name), seq }
}

fn org() -> OrgId {
    "org_00000000000000000org".parse().unwrap()
}

/// A change of the org. Its nonce is its history's, so the same number in another history has another nonce.
fn change(name: &str, seq: i64, history: i64) -> RouteChange {
    let subject = ChangeSubject::Org(org());
    RouteChange { seq, subject, hosts: Vec::new(), epoch: Some(epoch(name)), nonce: Some(1_000 * history + seq) }
}

/// The contents of Postgres: the changes of these histories. The epoch is that of the last one.
fn found_changes(name: &str, changes: &[(i64, i64)]) -> FoundChanges {
    let changes: Vec<_> = changes.iter().map(|&(seq, history)| change(name, seq, history)).collect();
    FoundChanges { newest: at(name, changes.last().map_or(0, |last| last.seq)), changes }
}

/// An edge that has applied everything up to change 10 of history 1, in the epoch "one".
fn edge() -> (ChangeProgress, Arc<ChangeMarks>) {
    let marks = Arc::<ChangeMarks>::default();
    let mut progress = ChangeProgress::new(marks.clone());
    assert_eq!(progress.apply_found(&found_changes("one", &[(10, 1)])), LookOutcome::Anew);
    (progress, marks)
}

/// A reading as of a position, of another subject than the one that changes.
fn read(marks: &ChangeMarks, position: &ChangePosition) -> ChangeReading {
    marks.reading(&until(position), ["blog"; 3])
}

/// The extent of a reading made when every change had a number.
fn until(position: &ChangePosition) -> SnapshotExtent {
    SnapshotExtent { position: position.clone(), end: position.seq }
}

#[test]
fn changes_are_applied_in_order_and_known_ones_are_harmless() {
    let (mut progress, marks) = edge();
    let of_org = marks.reading(&until(&at("one", 10)), [org().as_str(); 3]);
    assert_eq!(progress.receive(&change("one", 10, 1)), ChangeOutcome::Known);
    assert_eq!(progress.receive(&change("one", 7, 1)), ChangeOutcome::Known);
    assert!(marks.is_current(&of_org));
    assert_eq!(progress.receive(&change("one", 11, 1)), ChangeOutcome::Applied);
    assert!(!marks.is_current(&of_org));
    assert_eq!(progress.receive(&change("one", 13, 1)), ChangeOutcome::Unclear, "a gap");
    assert_eq!(progress.position(), Some(&at("one", 11)));
    assert_eq!(progress.apply_found(&found_changes("one", &[(11, 1), (12, 1), (13, 1)])), LookOutcome::CaughtUp);
    assert_eq!(progress.apply_found(&found_changes("one", &[(13, 1)])), LookOutcome::Current);
    assert_eq!(progress.position(), Some(&at("one", 13)));
}

#[test]
fn a_number_of_another_epoch_is_never_taken_for_known() {
    let (mut progress, _) = edge();
    for seq in 8..12 {
        assert_eq!(progress.receive(&change("two", seq, 2)), ChangeOutcome::Unclear, "{seq}");
    }
    assert_eq!(progress.receive(&change("one", 10, 2)), ChangeOutcome::Unclear, "another change has our number");
    let older = RouteChange { epoch: None, nonce: None, ..change("one", 11, 1) };
    assert_eq!(progress.receive(&older), ChangeOutcome::Unclear, "whoever sent it may be at another history");
    assert_eq!(progress.position(), Some(&at("one", 10)), "nothing is acknowledged before it is looked up");
}

#[test]
fn an_epoch_that_lost_nothing_is_adopted_and_nothing_is_forgotten() {
    let (mut progress, marks) = edge();
    let reading = read(&marks, &at("one", 10));
    marks.set_applied(10);
    let moment = marks.moment().unwrap();
    let asked = marks.reading_at(moment, "icon");
    // 10 is still there, with its nonce.
    assert_eq!(progress.apply_found(&found_changes("two", &[(10, 1), (11, 2)])), LookOutcome::CaughtUp);
    assert_eq!(progress.position(), Some(&at("two", 11)));
    assert!(marks.is_current(&reading), "what was read is kept");
    assert!(!marks.is_current(&asked), "admin's answer may have been of a lost change");
    assert!(marks.is_current(&marks.reading_at(marks.moment().unwrap(), "icon")));
    assert!(ChangeMarks::is_foreign(&read(&marks, &at("one", 11))), "a copy that is in the former epoch");
    assert_eq!(progress.receive(&change("two", 12, 2)), ChangeOutcome::Applied);
}

#[test]
fn an_epoch_that_lacks_what_was_applied_starts_over() {
    for history in [
        // Fewer changes than are applied here, equally many, and more.
        vec![(9, 2)],
        vec![(10, 2)],
        vec![(10, 2), (11, 2), (12, 2)],
        // The row is pruned.
        vec![(12, 2)],
    ] {
        let (mut progress, marks) = edge();
        let reading = read(&marks, &at("one", 10));
        assert_eq!(progress.apply_found(&found_changes("two", &history)), LookOutcome::Anew, "{history:?}");
        let newest = at("two", history.last().unwrap().0);
        assert_eq!(progress.position(), Some(&newest));
        assert!(!marks.is_current(&reading), "{history:?}");
        assert!(marks.is_current(&read(&marks, &newest)));
        assert_eq!(progress.receive(&change("two", newest.seq + 1, 2)), ChangeOutcome::Applied);
    }
}

#[test]
fn lost_changes_are_named_as_far_as_they_are_remembered() {
    let (mut progress, _) = edge();
    for seq in 11..=14 {
        progress.receive(&change("one", seq, 1));
    }
    // 13 and 14 were reassigned, and 15 is new.
    let now = [(11, 1), (12, 1), (13, 2), (14, 2), (15, 2)];
    assert_eq!(progress.apply_found(&found_changes("two", &now[3..])), LookOutcome::Anew);
    let loss = progress.take_loss().unwrap();
    assert_eq!((loss.first_known(), progress.take_loss()), (Some(11), None));
    let lost = loss.lost_changes(&found_changes("two", &now).changes);
    assert_eq!((lost.first_seq, lost.last_seq, lost.newest), (13, 14, at("two", 15)));
    assert_eq!(lost.subjects, [org().as_str()]);
    // All remembered changes are there, or were pruned: the lost ones came before or are unknown.
    assert_eq!(loss.lost_changes(&found_changes("two", &[(15, 2)]).changes).subjects, Vec::<String>::new());

    let (mut progress, _) = edge();
    assert_eq!(progress.apply_found(&found_changes("two", &[(7, 2)])), LookOutcome::Anew);
    let lost = progress.take_loss().unwrap().lost_changes(&[]);
    assert_eq!((lost.first_seq, lost.last_seq, lost.subjects.len()), (8, 10, 0), "only the numbers are known");
}

#[test]
fn what_was_read_of_a_lost_change_starts_over_although_no_applied_one_is_lost() {
    let (mut progress, marks) = edge();
    // It was read before its change was received, and its change was lost.
    let reading = read(&marks, &at("one", 11));
    assert!(marks.is_current(&reading));
    assert_eq!(progress.apply_found(&found_changes("two", &[(10, 1), (11, 2)])), LookOutcome::Anew);
    assert!(!marks.is_current(&reading));
}

#[test]
fn what_was_read_of_a_lost_change_that_had_no_number_starts_over() {
    let (mut progress, marks) = edge();
    let reading = marks.reading(&SnapshotExtent { position: at("one", 10), end: 11 }, ["blog"; 3]);
    assert!(marks.is_current(&reading));
    assert_eq!(progress.apply_found(&found_changes("two", &[(10, 1), (11, 2)])), LookOutcome::Anew);
    assert!(!marks.is_current(&reading));
}

#[test]
fn a_new_database_is_nothing_that_was_lost() {
    let mut progress = ChangeProgress::new(Arc::default());
    assert_eq!(progress.apply_found(&found_changes("one", &[])), LookOutcome::Anew);
    assert_eq!(progress.apply_found(&found_changes("two", &[(1, 1)])), LookOutcome::CaughtUp);
    assert_eq!(progress.position(), Some(&at("two", 1)));
}

#[test]
fn a_lost_change_shows_within_an_epoch_too() {
    // Rows that were restored without the counter's triggers.
    for history in [vec![(10, 2), (11, 2)], vec![(9, 1)]] {
        let (mut progress, _) = edge();
        assert_eq!(progress.apply_found(&found_changes("one", &history)), LookOutcome::Anew, "{history:?}");
    }
}

#[test]
fn changes_that_are_pruned_or_too_many_end_what_is_older() {
    for (history, newest) in [(vec![(12, 1), (13, 1)], 13), (vec![(10, 1), (11, 1)], 5_000)] {
        let (mut progress, marks) = edge();
        let reading = read(&marks, &at("one", 10));
        let found = FoundChanges { newest: at("one", newest), ..found_changes("one", &history) };
        assert_eq!(progress.apply_found(&found), LookOutcome::CaughtUp, "{history:?}");
        assert!(!marks.is_current(&reading), "{history:?}");
        assert_eq!(progress.position(), Some(&at("one", newest)));
        // The nonce is learned at the next look.
        assert_eq!(
            progress.apply_found(&super::FoundChanges { newest: at("one", newest), ..found_one(newest) }),
            LookOutcome::Current
        );
        assert_eq!(
            progress.apply_found(&super::FoundChanges { newest: at("two", newest), ..found_one(newest) }),
            LookOutcome::Current
        );
    }
}

fn found_one(seq: i64) -> FoundChanges {
    found_changes("one", &[(seq, 1)])
}

#[test]
fn what_cannot_be_read_is_forgotten_and_then_acknowledged() {
    let (mut progress, marks) = edge();
    let reading = read(&marks, &at("one", 10));
    progress.skip_to(&change("one", 13, 1));
    assert_eq!(progress.position(), Some(&at("one", 13)));
    assert!(!marks.is_current(&reading));
    progress.skip_to(&change("one", 12, 1));
    assert_eq!(progress.position(), Some(&at("one", 13)));
}

use std::{collections::BTreeSet, sync::Arc};

use domain::usage::{LikelyUsage, Microcents, UsageCertainty};
use live::budgets::ReleaseOutcome;
use tempfile::TempDir;

use super::{
    super::{
        fixtures::row,
        journal::{self, AbandonedCompletion, JournalIndex, JournalRecord, JournaledCompletions},
        reservation::PendingAdmission,
    },
    *,
};

mod adoption;

const DATABASE: &str = "postgres://db.example/svc";

fn ledger() -> (CompletionLedger, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let journal = journal::open(folder.path().to_owned(), "edge", DATABASE);
    journal.set_scope("this".to_owned());
    (CompletionLedger::new(journal), folder)
}

fn ids(rows: &[UsageRow]) -> Vec<&CompletionId> {
    rows.iter().map(|row| &row.id).collect()
}

#[test]
fn an_admission_that_is_dropped_undecided_is_released() {
    let (ledger, _folder) = ledger();
    let (dropped, spare, decided) = (row(300), row(300), row(300));
    drop(PendingAdmission::new(&ledger, &dropped, std::slice::from_ref(&spare)));
    PendingAdmission::new(&ledger, &decided, &[]).mark_decided();
    assert_eq!(ids(&ledger.take_to_release(10)), [&dropped.id, &spare.id]);
    assert_eq!(ledger.len(), 2);
    ledger.finish_release(&dropped.id, Some(ReleaseOutcome::Released));
    ledger.finish_release(&spare.id, Some(ReleaseOutcome::Released));
    assert_eq!(ledger.len(), 0);
}

#[test]
fn the_journal_has_nothing_of_what_no_provider_was_asked_for() {
    let (ledger, folder) = ledger();
    let (connecting, released) = (row(300), row(300));
    ledger.admit(connecting.clone());
    ledger.admit(released.clone());
    ledger.release(&released.id);
    assert_eq!(ledger.pending_and_unwritten(), (1, 0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    // Both are still reported to Redis.
    assert_eq!(ids(&ledger.take_to_release(10)), [&released.id]);
    ledger.report_all();
    let reports: Vec<_> = ledger.take_to_revalue(10).into_iter().map(|report| report.row).collect();
    assert_eq!(ids(&reports), [&connecting.id]);
}

#[test]
fn the_journal_and_redis_learn_of_a_second_provider() {
    let (ledger, folder) = ledger();
    let (row, ended) = (row(300), row(300));
    for row in [&row, &ended] {
        ledger.enter(row.clone());
        ledger.set_provider(&row.id, &"second".into());
        ledger.open(&row.id);
        // The second call has no effect.
        ledger.open(&row.id);
    }
    let reports = ledger.take_to_revalue(10);
    assert_eq!(reports.iter().map(|report| &*report.row.provider).collect::<Vec<_>>(), ["second"; 2]);
    for report in &reports {
        ledger.finish_revalue(report, true);
    }
    ledger.end(&ended.id, |row| row.completion = 7);
    let kept: Vec<_> = ledger.take_to_write(10);
    assert_eq!((&*kept[0].provider, kept[0].completion), ("second", 7));
    drop(ledger);
    let next = journal::open(folder.path().to_owned(), "next", DATABASE);
    next.set_scope("this".to_owned());
    let abandoned = next.take_over(JournaledCompletions::apply).unwrap().unwrap();
    let said: Vec<_> =
        abandoned.contents.iter().map(|found| (&*found.row.provider, found.has_ended, found.row.completion)).collect();
    let mut expected = [(&row.id, ("second", false, 300)), (&ended.id, ("second", true, 7))];
    expected.sort();
    assert_eq!(said, expected.map(|(_, said)| said));
}

#[test]
fn what_others_settled_is_withdrawn_in_postgres() {
    let (ledger, _folder) = ledger();
    let row = row(300);
    ledger.enter(row.clone());
    ledger.release(&row.id);
    // Another writer is settling it.
    assert_eq!(ids(&ledger.take_to_release(10)), [&row.id]);
    ledger.finish_release(&row.id, Some(ReleaseOutcome::Claimed));
    assert!(ledger.take_to_write(10).is_empty());
    // Now it is missing.
    ledger.finish_release(&row.id, Some(ReleaseOutcome::Missing));
    let unused = ledger.take_to_write(10);
    assert_eq!(ids(&unused), [&row.id]);
    assert_eq!((unused[0].tokens(), unused[0].cost, unused[0].certainty), (0, Microcents(0), UsageCertainty::Failed));
    // It is not reported to a Redis that has lost its memory.
    ledger.report_all();
    assert!(ledger.take_to_revalue(10).is_empty());
    ledger.mark_written(&unused);
    ledger.remove(&[row.id]);
    assert_eq!(ledger.len(), 0);
}

#[test]
fn a_release_is_known_to_postgres_if_another_segment_has_its_beginning() {
    let (ledger, folder) = ledger();
    let (failed, at_once) = (row(300), row(300));
    ledger.enter(failed.clone());
    let has_next = || std::fs::read_dir(folder.path()).unwrap().count() > 1;
    while !has_next() {
        (0..1_000).for_each(|_| ledger.enter(row(300)));
    }
    ledger.enter(at_once.clone());
    for row in [&failed, &at_once] {
        ledger.release(&row.id);
    }
    assert_eq!(ids(&ledger.take_to_release(10)), [&failed.id, &at_once.id]);
    for row in [&failed, &at_once] {
        ledger.finish_release(&row.id, Some(ReleaseOutcome::Released));
    }
    // The segment with its end may be set aside before the one with its beginning.
    let unused = ledger.take_to_write(10);
    assert_eq!(ids(&unused), [&failed.id]);
    assert_eq!((unused[0].tokens(), unused[0].certainty), (0, UsageCertainty::Failed));
}

#[test]
fn a_release_does_not_wait_for_others_that_are_not_due() {
    let (ledger, _folder) = ledger();
    let (later, now): (Vec<_>, _) = ((0..10).map(|_| row(300)).collect(), row(300));
    for row in &later {
        ledger.admit(row.clone());
        ledger.release(&row.id);
    }
    for row in ledger.take_to_release(10) {
        ledger.finish_release(&row.id, None);
    }
    ledger.admit(now.clone());
    ledger.release(&now.id);
    assert_eq!(ids(&ledger.take_to_release(10)), [&now.id]);
}

#[test]
fn a_spare_that_redis_has_lost_is_forgotten() {
    let (ledger, _folder) = ledger();
    let mut spare = row(300);
    spare.set_spare();
    ledger.release_spare(spare.clone());
    assert_eq!(ids(&ledger.take_to_release(10)), [&spare.id]);
    ledger.finish_release(&spare.id, Some(ReleaseOutcome::Missing));
    assert_eq!((ledger.take_to_write(10), ledger.len()), (vec![], 0));
}

#[test]
fn redis_is_told_once_that_a_spare_is_used_and_what_it_used() {
    let (ledger, _folder) = ledger();
    let (ended, under_way) = (row(300), row(300));
    for row in [&ended, &under_way] {
        ledger.enter(row.clone());
        ledger.report(&row.id);
    }
    ledger.end(&ended.id, |row| row.completion = 7);
    let reports = ledger.take_to_revalue(10);
    assert_eq!(reports.iter().map(|report| report.row.completion).collect::<Vec<_>>(), [7, 300]);
    // It ends while the report is in progress.
    ledger.end(&under_way.id, |row| row.completion = 8);
    for report in &reports {
        ledger.finish_revalue(report, true);
    }
    assert_eq!(ledger.take_to_revalue(10).iter().map(|report| report.row.completion).collect::<Vec<_>>(), [8]);
}

#[test]
fn a_release_that_failed_is_tried_again_and_withdraws_nothing() {
    let (ledger, _folder) = ledger();
    let row = row(300);
    ledger.enter(row.clone());
    ledger.release(&row.id);
    assert_eq!(ledger.take_to_release(10).len(), 1);
    ledger.finish_release(&row.id, None);
    assert!(ledger.take_to_write(10).is_empty());
    ledger.finish_release(&row.id, Some(ReleaseOutcome::Released));
    assert_eq!(ledger.len(), 0);
}

#[test]
fn a_completion_of_a_dead_edge_is_written_and_not_reported() {
    let (ledger, _folder) = ledger();
    let completion = AbandonedCompletion { row: row(300), has_ended: false, is_released: false };
    ledger.adopt(&completion);
    ledger.adopt(&completion);
    assert!(ledger.take_to_revalue(10).is_empty());
    assert_eq!(ids(&ledger.take_to_write(10)), [&completion.row.id]);
}

#[test]
fn a_completion_of_whose_end_nothing_is_known_counts_with_the_likely_prompt() {
    let (ledger, _folder) = ledger();
    let likely = Some(LikelyUsage { prompt: 4, cost: Microcents(304) });
    let of = |certainty, row: UsageRow| UsageRow { prompt: 64, cost: Microcents(364), certainty, likely, ..row };
    let (open, ended) = (of(UsageCertainty::Reserved, row(300)), of(UsageCertainty::Seen, row(300)));
    ledger.adopt(&AbandonedCompletion { row: open, has_ended: false, is_released: false });
    ledger.adopt(&AbandonedCompletion { row: ended, has_ended: true, is_released: false });
    let written: Vec<_> = ledger.take_to_write(10).iter().map(|row| (row.prompt, row.completion, row.cost)).collect();
    assert_eq!(written, [(4, 300, Microcents(304)), (64, 300, Microcents(364))]);
}

#[test]
fn what_others_settled_of_a_dead_edge_is_withdrawn() {
    let (ledger, _folder) = ledger();
    let row = row(300);
    ledger.withdraw(&row);
    ledger.withdraw(&row);
    assert_eq!(ids(&ledger.take_to_release(10)), [&row.id]);
    ledger.finish_release(&row.id, Some(ReleaseOutcome::Missing));
    assert_eq!(ledger.take_to_write(10)[0].certainty, UsageCertainty::Unused);
}

/// Returns what the next edge finds in the journal of a dead one, which had adopted `completions` of `edges`.
fn adopted(edge: &str, completions: &[AbandonedCompletion], edges: &[&str], folder: &TempDir) -> Arc<AdoptedJournal> {
    let journal = journal::open(folder.path().to_owned(), edge, DATABASE);
    journal.set_scope("this".to_owned());
    let (ledger, mut index) = (CompletionLedger::new(journal), JournalIndex::default());
    for completion in completions {
        index.apply(JournalRecord::Open(completion.row.clone()));
        ledger.adopt(completion);
    }
    ledger.note_adopted(edges.iter().map(|&edge| edge.to_owned()).collect(), &journal_of(edges[0], index), true);
    drop(ledger);
    let next = journal::open(folder.path().to_owned(), "next", DATABASE);
    next.set_scope("this".to_owned());
    let abandoned = next.take_over(JournalIndex::apply).unwrap().unwrap();
    assert_eq!(abandoned.owner, edge);
    journal_of(edge, abandoned.contents)
}

fn journal_of(edge: &str, index: JournalIndex) -> Arc<AdoptedJournal> {
    Arc::new(AdoptedJournal { edge: edge.to_owned(), index })
}

#[test]
fn a_dead_edge_is_settled_when_the_last_of_its_completions_is() {
    let (ledger, folder) = ledger();
    let rows = [row(300), row(300)];
    let completions = rows.clone().map(|row| AbandonedCompletion { row, has_ended: false, is_released: false });
    // Killed before it had settled them, as was the edge whose journal it had adopted.
    let journal = adopted("second", &completions, &["first"], &folder);
    assert_eq!(journal.index.len(), 2);
    assert_eq!(journal.index.adopted(), &BTreeSet::from(["first".to_owned()]));
    assert!(completions.iter().all(|completion| ledger.adopt(completion)));
    let mut edges = journal.index.adopted().clone();
    edges.insert("second".to_owned());
    ledger.note_adopted(edges, &journal, true);
    for row in &rows {
        assert!(ledger.settled_edges(10).is_empty(), "one is left");
        ledger.mark_written(std::slice::from_ref(row));
        ledger.remove(std::slice::from_ref(&row.id));
    }
    assert_eq!(ledger.settled_edges(1), ["first"]);
    assert_eq!(ledger.settled_edges(10), ["first", "second"]);
    // Until Postgres knows, the next edge is responsible.
    ledger.journal.close();
    assert_eq!(ledger.journal.own_segments().len(), 1);
    ledger.forget_adopted(&["first".to_owned()]);
    assert_eq!(ledger.settled_edges(10), ["second"]);
    ledger.forget_adopted(&["second".to_owned()]);
    assert!(ledger.settled_edges(10).is_empty());
    ledger.journal.close();
    assert!(ledger.journal.own_segments().is_empty());
}

#[test]
fn a_dead_edge_is_not_settled_before_redis_was_asked_what_it_reserved() {
    let (ledger, _folder) = ledger();
    let (journaled, unknown) = (row(300), row(300));
    let mut index = JournalIndex::default();
    index.apply(JournalRecord::Open(journaled.clone()));
    ledger.note_adopted(BTreeSet::from(["dead".to_owned()]), &journal_of("dead", index), false);
    assert!(ledger.settled_edges(10).is_empty());
    let [journal] = ledger.uncompared_journals().try_into().ok().unwrap();
    assert_eq!(journal.edge, "dead");
    assert!(journal.index.contains(&journaled.id) && !journal.index.contains(&unknown.id));
    ledger.mark_compared(&journal);
    assert!(ledger.uncompared_journals().is_empty());
    assert_eq!(ledger.settled_edges(10), ["dead"]);
}

#[test]
fn dead_edges_beyond_a_bound_are_not_noted() {
    let (ledger, _folder) = ledger();
    let edges = |count: usize| (0..count).map(|number| number.to_string()).collect();
    let journal = journal_of("dead", JournalIndex::default());
    ledger.note_adopted(edges(limits::ADOPTED_EDGES), &journal, true);
    ledger.note_adopted(edges(1), &journal, true);
    assert_eq!(ledger.settled_edges(usize::MAX).len(), limits::ADOPTED_EDGES);
}

#[test]
fn what_a_provider_was_asked_for_and_the_journal_does_not_take_is_a_gap() {
    let (ledger, folder) = ledger();
    ledger.enter(row(300));
    assert!(!ledger.has_gaps());
    // It does not know its database.
    let ledger = CompletionLedger::new(journal::open(folder.path().to_owned(), "other", DATABASE));
    ledger.enter(row(300));
    assert!(ledger.has_gaps());
}

#[test]
fn what_has_ended_is_written_again_and_nothing_else() {
    let (ledger, _folder) = ledger();
    let (settled, released, open, written, unwritten) = (row(1), row(2), row(3), row(4), row(5));
    for row in [&open, &written, &unwritten] {
        ledger.enter(row.clone());
    }
    for row in [&written, &unwritten] {
        ledger.end(&row.id, |_| {});
    }
    for report in ledger.take_to_revalue(10) {
        ledger.finish_revalue(&report, true);
    }
    assert_eq!(ledger.take_to_write(10).len(), 2);
    ledger.mark_written(std::slice::from_ref(&written));
    ledger.requeue_unwritten(std::slice::from_ref(&unwritten));

    let mut completions = JournaledCompletions::default();
    for row in [&settled, &released, &open, &written, &unwritten] {
        completions.apply(JournalRecord::Open(row.clone()));
    }
    completions.apply(JournalRecord::Released(released.id.clone()));
    for row in [&settled, &written, &unwritten] {
        completions.apply(JournalRecord::Ended(row.clone()));
    }
    ledger.requeue_written();
    assert_eq!(ledger.readopt(&completions), 2);
    assert_eq!(ids(&ledger.take_to_write(10)), [&unwritten.id, &written.id, &settled.id]);
    assert_eq!(ids(&ledger.take_to_release(10)), [&released.id]);
    assert_eq!(ledger.pending_and_unwritten().0, 1, "one is still under way");
}

#[test]
fn what_postgres_refused_waits_behind_what_it_may_take() {
    let (ledger, _folder) = ledger();
    let (refused, new) = (row(300), row(300));
    for row in [&refused, &new] {
        ledger.enter(row.clone());
    }
    ledger.end(&refused.id, |_| {});
    let rows = ledger.take_to_write(10);
    for report in ledger.take_to_revalue(10) {
        ledger.finish_revalue(&report, true);
    }
    ledger.end(&new.id, |_| {});
    for report in ledger.take_to_revalue(10) {
        ledger.finish_revalue(&report, true);
    }
    ledger.requeue_unwritten(&rows);
    assert_eq!(ids(&ledger.take_to_write(10)), [&new.id, &refused.id]);
}

#[test]
fn what_redis_loses_while_it_is_told_is_told_again_and_opened_again() {
    let (ledger, _folder) = ledger();
    let row = row(300);
    ledger.enter(row.clone());
    ledger.report_all();
    let in_hand = ledger.take_to_revalue(10);
    assert!(in_hand[0].is_lost);
    // It is lost again.
    ledger.report_all();
    assert!(ledger.take_to_revalue(10).is_empty(), "it is in hand");
    ledger.finish_revalue(&in_hand[0], true);
    let again = ledger.take_to_revalue(10);
    assert_eq!(again.iter().map(|report| (&report.row.id, report.is_lost)).collect::<Vec<_>>(), [(&row.id, true)]);
    ledger.finish_revalue(&again[0], true);
    // An end is reported to a Redis that knows the completion.
    ledger.end(&row.id, |_| {});
    assert!(!ledger.take_to_revalue(10)[0].is_lost);
}

#[test]
fn a_report_that_failed_still_opens_what_was_lost() {
    let (ledger, _folder) = ledger();
    ledger.enter(row(300));
    ledger.report_all();
    let failed = ledger.take_to_revalue(10);
    ledger.finish_revalue(&failed[0], false);
    assert!(ledger.take_to_revalue(10)[0].is_lost);
}

#[tokio::test]
async fn what_redis_was_told_while_it_was_asked_counts_as_untold() {
    let (ledger, _folder) = ledger();
    let row = row(300);
    ledger.enter(row.clone());
    ledger.end(&row.id, |_| {});
    let before = ledger.reported();
    ledger.mark_reported(1);
    assert!(ledger.wait_until_reported(before).await, "what Redis answered may be older");
    assert!(!ledger.wait_until_reported(ledger.reported()).await);
}

use super::*;

fn position(epoch: &str, seq: i64) -> ChangePosition {
    ChangePosition { epoch: epoch.parse().unwrap(), seq }
}

fn heartbeat(edge: &str, seq: i64) -> EdgeHeartbeat {
    EdgeHeartbeat::new(edge.into(), position("now", seq), false)
}

fn count(table: &EdgeTable, seq: i64, now: Instant) -> (usize, usize, bool) {
    let tally = table.tally(&position("now", seq), now);
    (tally.acknowledged, tally.known, tally.look_again.is_some())
}

#[test]
fn only_a_change_that_edges_must_know_of_has_a_receipt() {
    use axum::response::IntoResponse as _;
    let header = |propagation: Propagation| (propagation, ()).into_response().headers().get(PROPAGATION).cloned();
    assert_eq!(header(Propagation::NONE), None);
    let receipt = PropagationReceipt { acknowledged: 2, known: 3, took: Duration::from_millis(9) };
    assert_eq!(header(Propagation(Some(receipt))).unwrap(), "2/3; 9ms");
}

#[test]
fn an_answer_waits_for_the_living_and_counts_the_dead() {
    let start = Instant::now();
    let mut table = EdgeTable { listening_since: Some(start), ..EdgeTable::default() };
    let now = start + LISTEN_FIRST;
    table.apply_heartbeat(heartbeat("a", 7), now);
    table.apply_heartbeat(heartbeat("b", 6), now);
    assert_eq!(count(&table, 7, now), (1, 2, true), "b lives and is behind");
    assert_eq!(count(&table, 6, now), (2, 2, false), "both are there");
    assert_eq!(count(&table, 7, now + PRESUMED_DEAD_AFTER), (1, 2, false), "b is presumed dead");
    assert_eq!(count(&table, 7, now + FORGOTTEN_AFTER), (0, 0, false), "both are forgotten");
    table.apply_heartbeat(heartbeat("b", 7), now);
    assert_eq!(count(&table, 7, now), (2, 2, false));
    table.apply_heartbeat(EdgeHeartbeat { leaving: true, ..heartbeat("b", 7) }, now);
    assert_eq!(count(&table, 7, now), (1, 1, false), "b has said goodbye");
}

#[test]
fn the_table_is_trusted_only_once_every_edge_could_have_spoken() {
    let start = Instant::now();
    let mut table = EdgeTable { listening_since: Some(start), ..EdgeTable::default() };
    table.apply_heartbeat(heartbeat("a", 7), start);
    assert_eq!(count(&table, 7, start), (1, 1, true));
    assert_eq!(count(&table, 7, start + LISTEN_FIRST), (1, 1, false));
    table.listening_since = None;
    assert_eq!(count(&table, 8, start), (0, 1, false), "nothing can be heard: nothing is waited for");
}

#[test]
fn edges_that_are_not_heard_are_counted_by_what_they_record() {
    let start = Instant::now();
    let mut table = EdgeTable { listening_since: Some(start), ..EdgeTable::default() };
    let recorded = |edge: &str, seq| RecordedEdge { id: edge.into(), position: position("now", seq) };
    table.recorded = vec![recorded("a", 6), recorded("b", 6), recorded("c", 7)];
    let now = start + LISTEN_FIRST;
    table.apply_heartbeat(heartbeat("a", 7), now);
    assert_eq!(count(&table, 7, now), (2, 3, false), "a is heard, c has recorded it, and nobody waits for b");
    table.listening_since = None;
    assert_eq!(count(&table, 8, now + FORGOTTEN_AFTER), (0, 3, false), "Redis has long been away");
    table.apply_heartbeat(EdgeHeartbeat { leaving: true, ..heartbeat("b", 7) }, now + FORGOTTEN_AFTER);
    assert_eq!(count(&table, 7, now + FORGOTTEN_AFTER), (1, 2, false), "b has gone, whatever Postgres had");
}

#[test]
fn an_edge_of_another_epoch_is_waited_for_and_never_counted() {
    let start = Instant::now();
    let mut table = EdgeTable { listening_since: Some(start), ..EdgeTable::default() };
    let now = start + LISTEN_FIRST;
    table.apply_heartbeat(EdgeHeartbeat::new("a".into(), position("before", 9), false), now);
    assert_eq!(count(&table, 7, now), (0, 1, true), "its 9 may be another one");
    table.apply_heartbeat(heartbeat("a", 6), now);
    assert_eq!(count(&table, 6, now), (1, 1, false), "it has started over, and its number went back");
    assert_eq!(count(&table, 7, now), (0, 1, true));
    table.apply_heartbeat(heartbeat("a", 7), now);
    assert_eq!(count(&table, 7, now), (1, 1, false));
}

#[test]
fn an_edge_that_knows_of_no_epochs_is_waited_for_until_its_number_and_never_counted() {
    let start = Instant::now();
    let mut table = EdgeTable { listening_since: Some(start), ..EdgeTable::default() };
    let now = start + LISTEN_FIRST;
    let older = |seq| EdgeHeartbeat { epoch: None, ..heartbeat("a", seq) };
    table.apply_heartbeat(older(6), now);
    assert_eq!(count(&table, 7, now), (0, 1, true));
    table.apply_heartbeat(older(7), now);
    assert_eq!(count(&table, 7, now), (0, 1, false));
}

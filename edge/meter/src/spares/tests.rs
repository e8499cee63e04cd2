use std::time::Duration;

use domain::month::next_midnight;
use live::budgets::AccountLimits;
use tempfile::TempDir;

use super::{
    super::{
        fixtures::{self, BUDGET, GROUNDS},
        journal,
    },
    *,
};

const USED: BudgetUsage =
    BudgetUsage { requests: 10, frees_in: Duration::from_secs(50), resets_in: Duration::from_mins(1), tokens: 600 };

struct Edge {
    spares: SparePool,
    ledger: Arc<CompletionLedger>,
    began: Instant,
    _folder: TempDir,
}

impl Edge {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal::open(folder.path().to_owned(), "edge", "postgres://db.example/svc");
        let ledger = Arc::new(CompletionLedger::new(journal));
        Self { spares: SparePool::new(ledger.clone()), ledger, began: Instant::now(), _folder: folder }
    }

    fn at(&self, millis: u64) -> Instant {
        self.began + Duration::from_millis(millis)
    }

    /// Admits `row` with the spares it wants, of which Redis makes `made`. Returns how many, or `None` if it used a
    /// spare.
    fn ask(&self, row: &UsageRow, millis: u64, made: usize) -> Option<usize> {
        match self.spares.take(row, GROUNDS, self.at(millis)) {
            Ok(spare) => {
                spare.admit(row.tokens(), self.at(millis));
                None
            }
            Err(wanted) => {
                let rows = wanted.rows(row, row.at);
                let made = made.min(rows.len());
                self.spares.put(rows, row, admitted(row, made), GROUNDS, self.at(millis));
                Some(wanted.0)
            }
        }
    }

    /// Creates an edge with one spare, made at the moment 1, as large as `row`.
    fn with_spare(row: &UsageRow) -> Self {
        let edge = Self::start();
        assert_eq!((edge.ask(row, 0, 0), edge.ask(row, 1, 1)), (Some(0), Some(1)));
        edge
    }
}

fn admitted(row: &UsageRow, made: usize) -> AdmissionResult {
    AdmissionResult { verdict: AdmissionVerdict::Admitted(USED), at: row.at, spares: SpareStatus::Made(made) }
}

#[test]
fn a_key_gets_as_many_spares_as_it_has_lately_asked_for() {
    let (edge, row) = (Edge::start(), fixtures::row(300));
    assert_eq!(edge.ask(&row, 0, 16), Some(0), "it may stay the only one");
    for (asked, used) in [(1, 1), (2, 2), (3, 3), (4, 4)] {
        assert_eq!(edge.ask(&row, asked, 16), Some(used));
        for _ in 0..used {
            assert_eq!(edge.ask(&row, asked, 16), None);
        }
    }
    assert_eq!(edge.ask(&row, 254, 16), Some(0), "it has been quiet for longer than a spare lives");
    assert_eq!(edge.ask(&fixtures::row(300), 255, 16), Some(0), "another key");
    assert_eq!(edge.ledger.len(), 0, "nothing was given back");
}

#[test]
fn a_key_near_its_limits_wants_fewer() {
    let (edge, row) = (Edge::start(), fixtures::row(300));
    let wanted = [(); 6].map(|()| edge.ask(&row, 1, 0));
    assert_eq!(wanted, [Some(0), Some(1), Some(0), Some(1), Some(0), Some(1)]);
}

#[test]
fn spares_are_bounded() {
    let (edge, row) = (Edge::start(), fixtures::row(300));
    let mut most = 0;
    for _ in 0..1_000 {
        most = most.max(edge.ask(&row, 1, usize::MAX).unwrap_or(0));
    }
    assert_eq!(most, limits::SPARES);
    for _ in 0..limits::SPARE_KEYS {
        edge.ask(&fixtures::row(300), 1, 0);
    }
    let late = fixtures::row(300);
    assert_eq!([edge.ask(&late, 1, 1), edge.ask(&late, 1, 1)], [Some(0); 2], "there are too many keys");
}

#[test]
fn a_spare_says_what_the_account_has_used_with_it() {
    let row = fixtures::row(300);
    let edge = Edge::with_spare(&row);
    let spare = edge.spares.take(&row, GROUNDS, edge.at(101)).unwrap_or_else(|_| panic!("there is one"));
    let (id, judgement, _) = spare.admit(row.tokens(), edge.at(101));
    let used = BudgetUsage { requests: 11, tokens: 901, frees_in: Duration::from_millis(49_900), ..USED };
    assert_ne!(id, row.id);
    assert_eq!((judgement.verdict, judgement.at), (AdmissionVerdict::Admitted(used), row.at));
}

#[test]
fn a_spare_is_used_only_where_redis_would_say_the_same() {
    let row = fixtures::row(300);
    let cases = [
        ("as large", row.clone(), GROUNDS, true),
        ("smaller", UsageRow { prompt: 0, cost: Microcents(0), ..row.clone() }, GROUNDS, true),
        ("of another model", UsageRow { model: "svc/other".into(), ..row.clone() }, GROUNDS, true),
        ("after another end", row.clone(), RefusalGrounds { ends: 8, ..GROUNDS }, true),
        ("a suspended machine later", UsageRow { at: row.at + SPARE_LIFE, ..row.clone() }, GROUNDS, false),
        ("on the next day", UsageRow { at: next_midnight(row.at), ..row.clone() }, GROUNDS, false),
        ("with another memory of Redis", row.clone(), RefusalGrounds { memory: 2, ..GROUNDS }, false),
        (
            "under another limit",
            row.clone(),
            RefusalGrounds { budget: AccountLimits { key_limit: Some(1), ..BUDGET }, ..GROUNDS },
            false,
        ),
    ];
    for (case, asked, grounds, is_used) in cases {
        let edge = Edge::with_spare(&row);
        let spare = edge.spares.take(&asked, grounds, edge.at(2));
        assert_eq!(spare.is_ok(), is_used, "{case}");
        assert_eq!(
            edge.ledger.take_to_release(10).len(),
            usize::from(!is_used),
            "{case}: what is of no use is given back"
        );
    }
}

#[test]
fn what_is_too_small_for_one_request_is_kept_for_the_next() {
    let row = fixtures::row(300);
    let larger = [UsageRow { completion: 301, ..row.clone() }, UsageRow { cost: Microcents(2), ..row.clone() }];
    for larger in larger {
        let edge = Edge::with_spare(&row);
        assert_eq!(edge.ask(&larger, 2, 16), Some(1));
        assert_eq!([edge.ask(&row, 3, 16), edge.ask(&larger, 4, 16)], [None; 2], "each finds its own");
        assert!(edge.ledger.take_to_release(10).is_empty());
    }
    // Together they are bounded.
    let edge = Edge::start();
    for _ in 0..100 {
        edge.ask(&row, 1, 16);
    }
    let larger = UsageRow { completion: 301, ..row };
    for _ in 0..3 {
        edge.ask(&larger, 1, 16);
        assert!(edge.spares.keys()[&larger.token].spares.len() <= limits::SPARES);
    }
}

#[test]
fn the_oldest_that_fits_is_used_first() {
    let (edge, row) = (Edge::start(), fixtures::row(300));
    let larger = UsageRow { completion: 301, ..row.clone() };
    assert_eq!((edge.ask(&row, 0, 0), edge.ask(&row, 1, 1)), (Some(0), Some(1)));
    // Two made under another memory of Redis, and two larger ones made later.
    let made = |row: &UsageRow, grounds: RefusalGrounds, millis| {
        edge.spares.put(SpareCount(2).rows(row, row.at), row, admitted(row, 2), grounds, edge.at(millis));
    };
    made(&row, RefusalGrounds { memory: 2, ..GROUNDS }, 2);
    made(&larger, GROUNDS, 3);
    let used = [(); 3].map(|()| {
        let spare = edge.spares.take(&row, GROUNDS, edge.at(4)).unwrap_or_else(|_| panic!("there is one"));
        let made = spare.made;
        spare.admit(row.tokens(), edge.at(4));
        made
    });
    assert_eq!(used, [edge.at(1), edge.at(3), edge.at(3)]);
    assert!(edge.ledger.take_to_release(10).is_empty(), "as long as one fits");
    assert_eq!(edge.ask(&row, 5, 0), Some(4));
    assert_eq!(edge.ledger.take_to_release(10).len(), 2, "those of the other memory");
}

#[test]
fn what_is_not_used_in_its_life_is_given_back_as_a_spare() {
    let row = fixtures::row(300);
    let edge = Edge::with_spare(&row);
    assert!(edge.spares.return_expired(edge.at(250)));
    assert!(edge.ledger.take_to_release(10).is_empty(), "it was made a moment later");
    assert!(!edge.spares.return_expired(edge.at(251)), "the key is forgotten with it");
    let released = edge.ledger.take_to_release(10);
    assert_eq!(released.iter().map(UsageRow::is_spare).collect::<Vec<_>>(), [true]);
    // A request that comes too late for it does not use it either.
    let edge = Edge::with_spare(&row);
    assert_eq!(edge.ask(&row, 251, 16), Some(0));
    assert_eq!(edge.ledger.take_to_release(10).len(), 1);
    // It does not outlast the process either.
    let edge = Edge::with_spare(&row);
    edge.spares.clear();
    assert_eq!(edge.ledger.take_to_release(10).len(), 1);
}

#[test]
fn what_is_made_for_a_key_that_is_forgotten_by_then_is_given_back() {
    let (edge, row) = (Edge::with_spare(&fixtures::row(300)), fixtures::row(300));
    let rows = SpareCount(2).rows(&row, row.at);
    edge.spares.put(rows.clone(), &row, admitted(&row, 1), GROUNDS, edge.at(1));
    let released = edge.ledger.take_to_release(10);
    assert_eq!(released.iter().map(|row| &row.id).collect::<Vec<_>>(), [&rows[0].id], "the other was not made");
}

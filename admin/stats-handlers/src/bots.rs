//! `/projects/:name/stats/bots`: people, declared bots, and automation.

use std::{cmp::Reverse, collections::HashMap};

use admin_http::{
    error::ApiError,
    extract::{Json, Query},
};
use api::stats::{
    AgentStats, BotsDay, BotsStats, BotsTotals, ClassStats, DaysQuery, LiveBots, OperatorStats, RequestCount,
};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
};
use axum::extract::State;
use db::{
    permits::Member,
    stats::report::{self, DayQuery, DayRange, EntryResolution, ListKind, StatsPermit},
};
use domain::traffic::{
    AgentKey, OTHER, TrafficCount,
    agents::{self, operator_by_referrer},
    visitors::{ClassEvidence, VisitorClass},
};
use time::Date;

use super::{ReportRequest, deployment_marks, read_error};

const AGENTS: usize = 50;
const LISTS: [ListKind; 4] = [ListKind::Agent, ListKind::AgentPage, ListKind::AgentDisallowed, ListKind::Referrer];

/// Shows requests by kind of client and UTC day: people, programs that say what they are, and programs that do not.
///
/// Every request has a class and a reason for it: the name that the client states, a network that the name's operator
/// publishes, a signature, the request's headers, or the client's behavior. A request that only states a name may come
/// from anybody, so such requests are counted separately.
#[utoipa::path(
    get, path = "/projects/{name}/stats/bots", operation_id = "show_clients", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), DaysQuery),
    responses((status = 200, description = "The requests by kind of client", body = BotsStats)),
    extensions(("x-errors" = json!({
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
        "busy": "as many reports are being read as the server, or you, may have at a time",
    }))),
)]
pub async fn show(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Query(query): Query<DaysQuery>,
) -> Result<Json<BotsStats>, ApiError> {
    let ReportRequest { readable, range, before, days, to, turn: _turn, .. } =
        ReportRequest::for_project(&app, &caller, &project, query.days, query.from, query.to).await?;
    let (mut all, mut by_day) = (ClassCounts::default(), HashMap::<Date, ClassCounts>::new());
    let (mut agents, mut people_sent) = (AgentCountMap::default(), HashMap::<&str, u64>::new());
    let wanted = DayQuery { lists: &LISTS, grain: EntryResolution::Day, visitors: false };
    let read = report::days(&app.db, &readable, range, wanted, |entry| match entry.kind {
        ListKind::Agent => {
            all.add(entry.key, entry.count);
            by_day.entry(entry.begin.as_datetime().date()).or_default().add(entry.key, entry.count);
            agents.add(entry.key, entry.count);
        }
        ListKind::AgentPage => agents.counts_mut(entry.key).pages += entry.count.requests,
        ListKind::AgentDisallowed => agents.counts_mut(entry.key).disallowed += entry.count.requests,
        _ => {
            if let Some(operator) = operator_by_referrer(entry.key) {
                *people_sent.entry(operator).or_default() += entry.count.requests;
            }
        }
    });
    read.await.map_err(read_error)?;
    let timeline = range.days().map(|day| {
        let who = by_day.get(&day).copied().unwrap_or_default();
        let requests = |group| who.sum(group).requests;
        BotsDay {
            day: day.to_string(),
            people: requests(ClientGroup::People),
            declared: requests(ClientGroup::Declared),
            automation: requests(ClientGroup::Automation),
        }
    });
    let previous = match before {
        Some(before) => Some(read_totals(&app, &readable, before).await?),
        None => None,
    };
    let LiveBots { people, declared, automation, classes } = all.view();
    let (agents, operators) = agents.view(people_sent);
    Ok(Json(BotsStats {
        project: project.name.clone(),
        from: range.begin(),
        to,
        days,
        totals: all.total(),
        previous,
        people,
        declared,
        automation,
        classes,
        agents,
        operators,
        timeline: timeline.collect(),
        deployments: deployment_marks(&app, &readable, range.begin(), range.end()).await?,
    }))
}

async fn read_totals(app: &App, project: &StatsPermit, range: DayRange) -> Result<BotsTotals, ApiError> {
    let mut all = ClassCounts::default();
    let wanted = DayQuery { lists: &[ListKind::Agent], grain: EntryResolution::Day, visitors: false };
    let read = report::days(&app.db, project, range, wanted, |entry| all.add(entry.key, entry.count));
    read.await.map_err(read_error)?;
    Ok(BotsTotals {
        totals: all.total(),
        people: all.sum(ClientGroup::People),
        declared: all.sum(ClientGroup::Declared),
        automation: all.sum(ClientGroup::Automation),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientGroup {
    People,
    Declared,
    Automation,
}

fn group(class: VisitorClass) -> ClientGroup {
    match class {
        VisitorClass::Person => ClientGroup::People,
        VisitorClass::Automation => ClientGroup::Automation,
        _ => ClientGroup::Declared,
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClassCounts([TrafficCount; VisitorClass::ALL.len()]);

impl ClassCounts {
    /// Adds requests by their stored [`AgentKey`]. Keys that are unknown or beyond the list's limit are declared bots.
    pub(super) fn add(&mut self, key: &str, count: TrafficCount) {
        let class = AgentKey::parse(key).map_or(VisitorClass::OtherBot, |key| key.class);
        self.0[class as usize].add(count);
    }

    fn classes(&self) -> impl Iterator<Item = (VisitorClass, TrafficCount)> {
        VisitorClass::ALL.into_iter().map(|class| (class, self.0[class as usize]))
    }

    fn total(&self) -> RequestCount {
        count_view(self.classes().map(|(_, count)| count))
    }

    fn sum(&self, wanted: ClientGroup) -> RequestCount {
        count_view(self.classes().filter(|(class, _)| group(*class) == wanted).map(|(_, count)| count))
    }

    pub(super) fn view(&self) -> LiveBots {
        let mut classes: Vec<ClassStats> = self
            .classes()
            .filter(|(_, count)| count.requests > 0)
            .map(|(class, TrafficCount { requests, bytes })| ClassStats {
                class: class.as_str().to_owned(),
                requests,
                bytes,
            })
            .collect();
        classes.sort_by_key(|class| Reverse(class.requests));
        LiveBots {
            people: self.sum(ClientGroup::People),
            declared: self.sum(ClientGroup::Declared),
            automation: self.sum(ClientGroup::Automation),
            classes,
        }
    }
}

fn count_view(counts: impl Iterator<Item = TrafficCount>) -> RequestCount {
    let sum = counts.fold(TrafficCount::default(), |mut sum, count| {
        sum.add(count);
        sum
    });
    RequestCount { requests: sum.requests, bytes: sum.bytes }
}

#[derive(Debug, Default)]
struct AgentCountMap(HashMap<String, AgentCounts>);

#[derive(Debug, Default)]
struct AgentCounts {
    class: Option<VisitorClass>,
    count: TrafficCount,
    pages: u64,
    disallowed: u64,
    verified: u64,
    claimed_only: u64,
}

impl AgentCountMap {
    fn counts_mut(&mut self, name: &str) -> &mut AgentCounts {
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), AgentCounts::default());
        }
        self.0.entry(name.to_owned()).or_default()
    }

    fn add(&mut self, key: &str, count: TrafficCount) {
        let Some(key) = AgentKey::parse(key).filter(|key| !key.agent.is_empty()) else { return };
        let counts = self.counts_mut(key.agent);
        counts.class = Some(key.class);
        counts.count.add(count);
        match key.evidence {
            ClassEvidence::Network | ClassEvidence::Signature => counts.verified += count.requests,
            ClassEvidence::Name => counts.claimed_only += count.requests,
            ClassEvidence::Fields | ClassEvidence::Behaviour => {}
        }
    }

    fn view(mut self, people_sent: HashMap<&str, u64>) -> (Vec<AgentStats>, Vec<OperatorStats>) {
        self.0.remove(OTHER);
        let nothing =
            |operator: &str| OperatorStats { operator: operator.to_owned(), pages: 0, bytes: 0, people_sent: 0 };
        let mut operators: HashMap<&str, OperatorStats> = people_sent
            .into_iter()
            .map(|(operator, sent)| (operator, OperatorStats { people_sent: sent, ..nothing(operator) }))
            .collect();
        for (name, counts) in &self.0 {
            let operator = find_operator(name);
            if !operator.is_empty() {
                let sums = operators.entry(operator).or_insert_with(|| nothing(operator));
                sums.pages += counts.pages;
                sums.bytes += counts.count.bytes;
            }
        }
        let mut operators: Vec<OperatorStats> = operators.into_values().collect();
        operators.sort_by(|one, other| {
            let rank = |sums: &OperatorStats| Reverse((sums.pages, sums.bytes, sums.people_sent));
            rank(one).cmp(&rank(other)).then_with(|| one.operator.cmp(&other.operator))
        });
        let mut agents: Vec<_> = self.0.into_iter().map(|(name, counts)| counts.view(name)).collect();
        agents.sort_by(|one, other| other.requests.cmp(&one.requests).then_with(|| one.agent.cmp(&other.agent)));
        agents.truncate(AGENTS);
        (agents, operators)
    }
}

impl AgentCounts {
    fn view(self, name: String) -> AgentStats {
        let known = agents::find(&name);
        let class = known.map(|agent| agent.class).or(self.class).unwrap_or(VisitorClass::OtherBot);
        // If the operator publishes nothing, an unverified claim means nothing.
        let can_be_told = self.verified > 0 || known.is_some_and(|agent| agent.networks.is_some());
        AgentStats {
            operator: find_operator(&name).to_owned(),
            class: class.as_str().to_owned(),
            requests: self.count.requests,
            bytes: self.count.bytes,
            pages: self.pages,
            disallowed: self.disallowed,
            verified: self.verified,
            claimed_only: self.claimed_only,
            claimed_only_percent: can_be_told.then(|| percent(self.claimed_only, self.count.requests)),
            agent: name,
        }
    }
}

fn find_operator(agent: &str) -> &'static str {
    agents::find(agent).map_or("", |agent| agent.operator)
}

/// Returns the percentage, to one decimal.
fn percent(part: u64, whole: u64) -> f64 {
    let tenths = u128::from(part) * 2_000 / u128::from(whole.max(1));
    f64::from(u32::try_from(tenths.div_ceil(2)).unwrap_or(1_000)) / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(class: VisitorClass, agent: &str, evidence: ClassEvidence) -> String {
        AgentKey { class, agent, evidence }.encode()
    }

    #[test]
    fn every_request_belongs_to_one_of_three_groups() {
        let mut who = ClassCounts::default();
        for (place, class) in VisitorClass::ALL.into_iter().enumerate() {
            who.add(&key(class, "", ClassEvidence::Fields), TrafficCount { requests: place as u64 + 1, bytes: 10 });
        }
        who.add(OTHER, TrafficCount { requests: 100, bytes: 0 });
        let view = who.view();
        assert_eq!((view.people.requests, view.automation.requests, view.declared.requests), (1, 10, 144));
        assert_eq!(who.total(), RequestCount { requests: 155, bytes: 100 });
        assert_eq!(view.classes[0].class, "other_bot");
        assert_eq!(view.classes.len(), 10);
    }

    #[test]
    fn an_agent_that_can_be_told_has_a_share_of_mere_claims() {
        let mut agents = AgentCountMap::default();
        let of = |requests| TrafficCount { requests, bytes: 100 };
        agents.add(&key(VisitorClass::AiTraining, "GPTBot", ClassEvidence::Network), of(5));
        agents.add(&key(VisitorClass::AiTraining, "GPTBot", ClassEvidence::Name), of(3));
        agents.add(&key(VisitorClass::OtherBot, "curl", ClassEvidence::Name), of(9));
        agents.add(&key(VisitorClass::Person, "", ClassEvidence::Behaviour), of(99));
        agents.counts_mut("GPTBot").pages += 4;
        let (agents, operators) = agents.view(HashMap::from([("OpenAI", 2), ("Perplexity", 1)]));
        assert_eq!(agents.iter().map(|agent| &*agent.agent).collect::<Vec<_>>(), ["curl", "GPTBot"]);
        assert_eq!((agents[0].claimed_only_percent, agents[1].claimed_only_percent), (None, Some(37.5)));
        assert_eq!((agents[1].verified, agents[1].claimed_only, agents[1].pages), (5, 3, 4));
        assert_eq!((&*operators[0].operator, operators[0].pages, operators[0].people_sent), ("OpenAI", 4, 2));
        assert_eq!((&*operators[1].operator, operators[1].bytes, operators[1].people_sent), ("Perplexity", 0, 1));
    }

    #[test]
    fn percents_are_rounded_to_a_tenth() {
        for (part, whole, expected) in [(1, 3, 33.3), (2, 3, 66.7), (0, 0, 0.0), (7, 7, 100.0), (1, 2_000, 0.1)] {
            assert!((percent(part, whole) - expected).abs() < 1e-9, "{part} of {whole}");
        }
    }
}

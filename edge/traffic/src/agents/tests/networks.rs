//! A name is confirmed by an address that its operator publishes.

use db::stats::agents::AgentNetworks;

use super::{super::networks::AgentNetworkMap, *};

fn evidence(agents: &AgentRegistry, user_agent: &str, address: &str) -> ClassEvidence {
    let headers = headers(&[("user-agent", user_agent)]);
    let (uri, address) = (Uri::from_static("/"), address.parse().unwrap());
    let claim =
        ClientClaim { method: &Method::GET, uri: &uri, host: "engine.example", headers: &headers, address, tls: true };
    match agents.judge(&claim, &ClientFields::from_headers(&headers)) {
        ClientVerdict::Agent { evidence, .. } => evidence,
        judgement => panic!("{judgement:?}"),
    }
}

#[test]
fn an_address_confirms_the_name_of_its_operator() {
    let agents = AgentRegistry::new(Clock::system());
    let google = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    assert_eq!(evidence(&agents, google, "66.249.66.1"), ClassEvidence::Network);
    assert_eq!(evidence(&agents, google, "::ffff:66.249.66.1"), ClassEvidence::Network);
    assert_eq!(evidence(&agents, google, "203.0.113.7"), ClassEvidence::Name);
    assert_eq!(evidence(&agents, "GPTBot/1.2", "66.249.66.1"), ClassEvidence::Name, "another operator's");
    assert_eq!(evidence(&agents, "curl/8.10.1", "66.249.66.1"), ClassEvidence::Name);
}

#[test]
fn a_list_that_was_read_takes_the_place_of_the_built_in_one() {
    let read = |networks: &[&str]| AgentNetworks {
        source: "gptbot".into(),
        networks: networks.iter().map(|&network| network.to_owned()).collect(),
        read_at: Clock::system().now(),
    };
    let agents = AgentRegistry::new(Clock::system());
    let built_in = "52.230.152.7";
    assert_eq!(evidence(&agents, "GPTBot/1.2", built_in), ClassEvidence::Network);
    agents.networks.store(Arc::new(AgentNetworkMap::from_sources(&[read(&["9.9.9.0/24"])])));
    assert_eq!(evidence(&agents, "GPTBot/1.2", "9.9.9.9"), ClassEvidence::Network);
    assert_eq!(evidence(&agents, "GPTBot/1.2", built_in), ClassEvidence::Name);
    assert_eq!(evidence(&agents, "Googlebot/2.1", "66.249.66.1"), ClassEvidence::Network, "others stay");
    agents.networks.store(Arc::new(AgentNetworkMap::from_sources(&[read(&["nonsense"])])));
    assert_eq!(evidence(&agents, "GPTBot/1.2", built_in), ClassEvidence::Network);
}

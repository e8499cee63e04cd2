//! Dynamic updates (RFC 2136), signed with a shared key (RFC 8945), over TCP.

use std::{fmt, net::SocketAddr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use config::acme::{DynamicDnsServer, KeyAlgorithm};
use domain::Clock;
use hickory_proto::{
    op::{Message, Query, ResponseCode, update_message},
    rr::{
        Name, RData, Record, RecordSet, RecordType, TSigner,
        rdata::{
            TXT,
            tsig::{TsigAlgorithm, TsigError},
        },
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, ToSocketAddrs},
};

use super::DnsError;

const WITHIN: Duration = Duration::from_secs(20);
const TTL: u32 = 60;
/// The greatest allowed difference between our clock and the server's, in seconds (RFC 8945, 10).
const FUDGE: u16 = 300;

#[derive(Clone)]
pub(super) struct DynamicUpdates {
    server: SocketAddr,
    zone: Option<Name>,
    signer: TSigner,
    clock: Clock,
}

impl DynamicUpdates {
    pub(super) fn new(config: &DynamicDnsServer, clock: Clock) -> Result<Self, DnsError> {
        let unusable = |what: &str| DnsError::Configuration(format!("rfc2136.{what}"));
        let secret = STANDARD.decode(&config.key_secret).map_err(|_| unusable("key_secret is not base64"))?;
        let name =
            |text: &str, what: &str| absolute(text).ok_or_else(|| unusable(&format!("{what} is not a DNS name")));
        let algorithm = match config.key_algorithm {
            KeyAlgorithm::HmacSha256 => TsigAlgorithm::HmacSha256,
            KeyAlgorithm::HmacSha384 => TsigAlgorithm::HmacSha384,
            KeyAlgorithm::HmacSha512 => TsigAlgorithm::HmacSha512,
        };
        let signer = TSigner::new(secret, algorithm, name(&config.key_name, "key_name")?, FUDGE);
        Ok(Self {
            server: config.server,
            zone: config.zone.as_deref().map(|zone| name(zone, "zone")).transpose()?,
            signer: signer.map_err(|_| unusable("key_algorithm is not supported"))?,
            clock,
        })
    }

    pub(super) async fn add(&self, name: &str, value: &str) -> Result<(), DnsError> {
        self.update(name, value, |records, zone| update_message::append(records, zone, false, false)).await
    }

    pub(super) async fn remove(&self, name: &str, value: &str) -> Result<(), DnsError> {
        self.update(name, value, |records, zone| update_message::delete_by_rdata(records, zone, false)).await
    }

    async fn update(
        &self,
        name: &str,
        value: &str,
        message: impl FnOnce(RecordSet, Name) -> Message,
    ) -> Result<(), DnsError> {
        let refused =
            |reason: String| DnsError::Refused { server: self.server.to_string(), name: name.to_owned(), reason };
        let record = absolute(name).ok_or_else(|| refused("it is not a DNS name".to_owned()))?;
        let zone = match &self.zone {
            Some(zone) => zone.clone(),
            None => self.find_zone(&record).await?,
        };
        if !zone.zone_of(&record) {
            return Err(refused(format!("it lies outside of {zone}, the zone of acme.dns.rfc2136")));
        }
        let text = RData::TXT(TXT::new(vec![value.to_owned()]));
        let mut message = message(RecordSet::from(Record::from_rdata(record, TTL, text)), zone);
        let now = self.clock.now().unix_seconds().unsigned_abs();
        let verifier = message.finalize(&self.signer, now).map_err(|error| self.away(error))?;
        let bytes = self.exchange(&message).await?;
        let answer = Message::from_vec(&bytes).map_err(|error| self.away(error))?;
        if answer.id != message.id {
            return Err(self.away("its answer is to another question"));
        }
        if answer.response_code != ResponseCode::NoError {
            let error = answer.signature().and_then(|signature| signature.data.error);
            return Err(refused(self.explain_refusal(answer.response_code, error.as_ref())));
        }
        match verifier {
            // The confirmation must come from a server that has the key.
            Some(mut verifier) => verifier.verify(&bytes).map(drop).map_err(|error| self.away(error)),
            None => Ok(()),
        }
    }

    fn explain_refusal(&self, code: ResponseCode, error: Option<&TsigError>) -> String {
        let key = self.signer.signer_name();
        match (code, error) {
            (_, Some(TsigError::BadKey)) => {
                format!("it knows no key named {key} with this algorithm (key_name, key_algorithm)")
            }
            (_, Some(TsigError::BadSig | TsigError::BadTrunc)) => {
                format!("the signature is wrong: key_secret is not that of {key}")
            }
            (_, Some(TsigError::BadTime)) => "its clock and this machine's differ by more than five minutes".to_owned(),
            (ResponseCode::Refused, _) => format!("the key {key} may not change this zone or this name"),
            (ResponseCode::NotAuth | ResponseCode::NotZone, _) => {
                "it does not answer for the zone; is it the primary, and is zone right?".to_owned()
            }
            (ResponseCode::NotImp, _) => "it takes no dynamic updates".to_owned(),
            (code, _) => code.to_string(),
        }
    }

    /// Returns the zone of a name as the server sees it: the owner of the SOA record in its response.
    async fn find_zone(&self, name: &Name) -> Result<Name, DnsError> {
        let mut message = Message::query();
        message.add_query(Query::query(name.clone(), RecordType::SOA));
        let bytes = self.exchange(&message).await?;
        let answer = Message::from_vec(&bytes).map_err(|error| self.away(error))?;
        let mut records = answer.answers.iter().chain(&answer.authorities);
        let zone = records.find(|record| record.record_type() == RecordType::SOA).map(|record| record.name.clone());
        zone.ok_or_else(|| DnsError::Refused {
            server: self.server.to_string(),
            name: name.to_string(),
            reason: "it does not say to which zone the name belongs; set acme.dns.rfc2136.zone".to_owned(),
        })
    }

    async fn exchange(&self, message: &Message) -> Result<Vec<u8>, DnsError> {
        exchange(self.server, message).await.map_err(|reason| self.away(reason))
    }

    fn away(&self, reason: impl fmt::Display) -> DnsError {
        DnsError::Away { server: self.server.to_string(), reason: reason.to_string() }
    }
}

/// Sends a message and returns the bytes of the response, or a description of the failure.
async fn exchange(server: impl ToSocketAddrs, message: &Message) -> Result<Vec<u8>, String> {
    let sent = message.to_vec().map_err(|error| error.to_string())?;
    let length = u16::try_from(sent.len()).map_err(|error| error.to_string())?;
    let exchange = async {
        let mut stream = TcpStream::connect(server).await?;
        stream.write_all(&[&length.to_be_bytes()[..], &sent].concat()).await?;
        let length = stream.read_u16().await?;
        let mut answer = vec![0; usize::from(length)];
        stream.read_exact(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    match tokio::time::timeout(WITHIN, exchange).await {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", WITHIN.as_secs())),
    }
}

/// Queries a resolver (`address:port`) for the addresses of a name. Succeeds without any; fails without a response.
pub async fn query_resolver(resolver: &str, name: &str) -> Result<(), String> {
    let mut message = Message::query();
    let name = absolute(name).ok_or_else(|| format!("{name} is not a DNS name"))?;
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, RecordType::A));
    let answer = Message::from_vec(&exchange(resolver, &message).await?).map_err(|error| error.to_string())?;
    match answer.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => Ok(()),
        code => Err(code.to_string()),
    }
}

/// Returns whether a resolver answers a query with signature checking disabled (the CD bit of RFC 4035). If the query
/// fails otherwise, the signatures are wrong.
pub async fn answers_unchecked(resolver: SocketAddr, name: &Name, kind: RecordType) -> bool {
    let mut message = Message::query();
    (message.metadata.recursion_desired, message.metadata.checking_disabled) = (true, true);
    message.add_query(Query::query(name.clone(), kind));
    let Ok(answer) = exchange(resolver, &message).await else { return false };
    Message::from_vec(&answer)
        .is_ok_and(|answer| matches!(answer.response_code, ResponseCode::NoError | ResponseCode::NXDomain))
}

fn absolute(text: &str) -> Option<Name> {
    let mut name = Name::from_ascii(text.to_ascii_lowercase()).ok()?;
    name.set_fqdn(true);
    Some(name)
}

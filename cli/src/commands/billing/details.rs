//! `svc billing details`.

use api::billing::{BillingProfile, SaveBillingProfile};
use domain::billing::{
    Country,
    country::CountryError,
    details::{Address, AddressLines, InvoiceLine},
    vat::VatNumber,
};

use super::BillingAccount;
use crate::{
    failure::Failure,
    output::{Output, table},
};

/// Show the details printed on invoices, or change the given ones.
#[derive(Debug, clap::Args)]
#[command(after_help = "Without options: show. What is not given stays as it is.")]
pub(super) struct DetailsArgs {
    /// The name of the invoice's recipient
    #[arg(long, value_name = "TEXT")]
    name: Option<InvoiceLine>,
    /// The country, as a two-letter code
    #[arg(long, value_name = "CODE", value_parser = country)]
    country: Option<Country>,
    /// The EU VAT number, with its country's prefix
    #[arg(long, value_name = "NUMBER", conflicts_with = "no_vat")]
    vat: Option<VatNumber>,
    /// Remove the VAT number
    #[arg(long)]
    no_vat: bool,
    /// A line of the address, such as street and number, building or department; repeatable up to three times
    #[arg(long, value_name = "LINE", requires = "city", conflicts_with = "no_address")]
    address: Vec<InvoiceLine>,
    /// The postcode
    #[arg(long, value_name = "TEXT", conflicts_with = "no_address")]
    postcode: Option<InvoiceLine>,
    /// The city
    #[arg(long, value_name = "TEXT", conflicts_with = "no_address")]
    city: Option<InvoiceLine>,
    /// Remove the address
    #[arg(long)]
    no_address: bool,
}

fn country(code: &str) -> Result<Country, CountryError> {
    code.to_ascii_uppercase().parse()
}

pub(super) async fn run(details: DetailsArgs, scope: &BillingAccount<'_>, output: Output) -> anyhow::Result<()> {
    let before = scope.overview().await?.profile;
    if !details.has_changes() {
        return output.result(&before, || match &before {
            Some(profile) => format_profile(profile),
            None => {
                format!("No details yet. Set them: svc billing details{} --name NAME --country CODE", scope.option())
            }
        });
    }
    let body = details.merge_profile(before)?;
    let answer = scope.client.put::<BillingProfile>(&scope.path("/profile"), &body).await;
    let saved = answer.map_err(|failure| explain(scope, failure))?.body;
    output.success("Invoices carry these details from now on.");
    if saved.vat_number.is_some() && saved.vat_valid.is_none() {
        output.note("The VAT registry has not confirmed the number yet; VAT is charged until it has.");
    }
    output.result(&saved, || format_profile(&saved))
}

impl DetailsArgs {
    fn has_changes(&self) -> bool {
        let Self { name, country, vat, no_vat, address, postcode, city, no_address } = self;
        name.is_some()
            || country.is_some()
            || vat.is_some()
            || !address.is_empty()
            || postcode.is_some()
            || city.is_some()
            || *no_vat
            || *no_address
    }

    /// Returns the profile to save: the given values, and the stored ones for the rest.
    fn merge_profile(self, before: Option<BillingProfile>) -> Result<SaveBillingProfile, Failure> {
        let missing =
            |what: &str| Failure::usage(format!("Invoices need a {what}.")).with_hint(format!("Add --{what}."));
        let (mut name, mut country, mut vat, mut address) = (None, None, None, None);
        if let Some(before) = before {
            (name, country) = (Some(before.name), Some(before.country));
            (vat, address) = (before.vat_number, before.address);
        }
        let (vat, address) = (vat.filter(|_| !self.no_vat), address.filter(|_| !self.no_address));
        Ok(SaveBillingProfile {
            name: self.name.or(name).ok_or_else(|| missing("name"))?,
            country: self.country.or(country).ok_or_else(|| missing("country"))?,
            vat_number: self.vat.or(vat),
            address: merge_address(self.address, self.postcode, self.city, address)?,
        })
    }
}

/// Merges the given address into the stored one. New lines mean a new place, which needs its own postcode and city.
fn merge_address(
    lines: Vec<InvoiceLine>,
    postcode: Option<InvoiceLine>,
    city: Option<InvoiceLine>,
    before: Option<Address>,
) -> Result<Option<Address>, Failure> {
    match (before, city) {
        (_, Some(city)) if !lines.is_empty() => {
            let lines = AddressLines::try_from(lines);
            let lines = lines.map_err(|_| Failure::usage("An address has up to three lines above its city."))?;
            Ok(Some(Address { lines, postcode, city }))
        }
        (Some(before), city) => {
            let (postcode, city) = (postcode.or(before.postcode), city.unwrap_or(before.city));
            Ok(Some(Address { lines: before.lines, postcode, city }))
        }
        (None, city) if city.is_some() || postcode.is_some() => {
            Err(Failure::usage("An address needs its street as well.").with_hint("Add --address and --city."))
        }
        (None, _) => Ok(None),
    }
}

fn explain(scope: &BillingAccount<'_>, failure: Failure) -> Failure {
    match &*failure.code {
        "vat_number_not_found" => failure.with_hint("Check the number; without one, VAT is charged."),
        "vat_registry_unavailable" => failure.with_hint("Try again in some minutes, or leave --vat out for now."),
        _ => scope.explain(failure),
    }
}

fn format_profile(profile: &BillingProfile) -> String {
    let mut rows = vec![vec!["name".to_owned(), profile.name.to_string()]];
    if let Some(address) = &profile.address {
        let postcode = address.postcode.as_ref().map(|postcode| format!("{postcode} ")).unwrap_or_default();
        let city = format!("{postcode}{}", address.city);
        let lines = address.lines.as_slice().iter().map(ToString::to_string).chain([city]);
        rows.push(vec!["address".to_owned(), lines.collect::<Vec<_>>().join(", ")]);
    }
    rows.push(vec!["country".to_owned(), profile.country.to_string()]);
    if let Some(number) = &profile.vat_number {
        let state = match profile.vat_valid {
            Some(true) => "confirmed by the VAT registry",
            Some(false) => "the VAT registry does not know it any more",
            None => "not confirmed yet",
        };
        rows.push(vec!["VAT number".to_owned(), format!("{} ({state})", number.as_str())]);
    }
    table(&["DETAIL", ""], &rows, "No details yet.")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn before() -> BillingProfile {
        serde_json::from_value(json!({
            "name": "Acme", "country": "NL", "vat_number": "NL123456789B01", "vat_valid": true,
            "address": {"lines": ["Keizersgracht 1"], "postcode": "1016 AA", "city": "Amsterdam"},
        }))
        .unwrap()
    }

    fn details() -> DetailsArgs {
        DetailsArgs {
            name: None,
            country: None,
            vat: None,
            no_vat: false,
            address: Vec::new(),
            postcode: None,
            city: None,
            no_address: false,
        }
    }

    #[test]
    fn what_is_not_given_stays() {
        let merged =
            |details: DetailsArgs| serde_json::to_value(details.merge_profile(Some(before())).unwrap()).unwrap();
        let renamed = merged(DetailsArgs { name: Some("Acme & Söhne".parse().unwrap()), ..details() });
        assert_eq!((&renamed["name"], &renamed["vat_number"]), (&json!("Acme & Söhne"), &json!("NL123456789B01")));
        assert_eq!(renamed["address"]["city"], "Amsterdam");
        let moved = merged(DetailsArgs { postcode: Some("1017 BB".parse().unwrap()), no_vat: true, ..details() });
        assert_eq!((&moved["address"]["postcode"], &moved["vat_number"]), (&json!("1017 BB"), &json!(null)));
        let elsewhere = DetailsArgs {
            address: vec!["Dorpsstraat 2".parse().unwrap()],
            city: Some("Delft".parse().unwrap()),
            ..details()
        };
        let elsewhere = merged(elsewhere);
        assert_eq!((&elsewhere["address"]["city"], &elsewhere["address"]["postcode"]), (&json!("Delft"), &json!(null)));
        assert_eq!(merged(DetailsArgs { no_address: true, ..details() })["address"], json!(null));
    }

    #[test]
    fn the_first_details_need_a_name_and_a_country() {
        let name = || Some("Acme".parse().unwrap());
        for (details, missing) in [(details(), "name"), (DetailsArgs { name: name(), ..details() }, "country")] {
            assert!(details.merge_profile(None).unwrap_err().message.contains(missing));
        }
        let country = Some("NL".parse().unwrap());
        let all = DetailsArgs { name: name(), country, city: Some("Delft".parse().unwrap()), ..details() };
        assert!(all.merge_profile(None).unwrap_err().message.contains("street"));
    }

    #[test]
    fn details_are_a_table() {
        let text = format_profile(&before());
        for part in ["Acme", "Keizersgracht 1, 1016 AA Amsterdam", "NL123456789B01 (confirmed by"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

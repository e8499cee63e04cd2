//! Who may do what: a line for every operation of the API. A new operation takes a line here, or the test fails.

use super::Rule::{AnyToken, Org, Own, Person, Project, Public};
use super::{
    Body::{Empty, Gzip, Json, Png},
    Level::{Admin, Deploy, Member, Owner},
    Row,
};

/// Operation, who may, what it then answers, and the body it takes. In bodies and paths `{…}` stands for what
/// [`super::fixtures`] makes.
pub(super) const TABLE: &[Row] = &[
    Row("GET /", Public, 200, Empty),
    Row("GET /health", Public, 200, Empty),
    Row("GET /openapi.json", Public, 200, Empty),
    Row("GET /docs", Public, 200, Empty),
    Row("GET /device", Public, 200, Empty),
    Row("POST /device", Public, 400, Empty),
    Row("POST /auth/device", Public, 200, Json("{}")),
    Row("POST /auth/device/poll", Public, 400, Json(r#"{"device_code":"unknown"}"#)),
    // A person, a program.
    Row("GET /me", AnyToken, 200, Empty),
    Row("GET /tokens", Person, 200, Empty),
    Row("POST /tokens", Person, 201, Json(r#"{"kind":"cli"}"#)),
    Row("DELETE /tokens/{id}", Own, 200, Empty),
    Row("GET /shares", Person, 200, Empty),
    Row("POST /shares", Person, 201, Gzip),
    Row("DELETE /shares/{name}", Own, 200, Empty),
    // Projects.
    Row("GET /projects", AnyToken, 200, Empty),
    Row("POST /projects", Person, 201, Json(r#"{"name":"{new}"}"#)),
    Row("GET /suspensions", Person, 200, Empty),
    Row("GET /projects/{name}", Project(Deploy), 200, Empty),
    Row("DELETE /projects/{name}", Project(Admin), 200, Empty),
    Row("POST /projects/{name}/transfer", Project(Admin), 200, Json(r#"{"org":null}"#)),
    Row("GET /projects/{name}/audit", Project(Admin), 200, Empty),
    Row("GET /projects/{name}/deployments", Project(Member), 200, Empty),
    Row("POST /projects/{name}/deployments", Project(Deploy), 201, Gzip),
    Row("GET /projects/{name}/deployments/{id}", Project(Member), 200, Empty),
    Row("DELETE /projects/{name}/deployments/{id}", Project(Member), 200, Empty),
    Row("POST /projects/{name}/deployments/{id}/activate", Project(Deploy), 200, Empty),
    Row("PUT /projects/{name}/access", Project(Member), 200, Json(r#"{"mode":"public"}"#)),
    Row("PUT /projects/{name}/password", Project(Member), 200, Json(r#"{"password":"hunter22"}"#)),
    Row("DELETE /projects/{name}/password", Project(Member), 200, Empty),
    Row("GET /projects/{name}/env", Project(Member), 200, Empty),
    Row("PUT /projects/{name}/env/{key}", Project(Member), 200, Json(r#"{"value":"1"}"#)),
    Row("DELETE /projects/{name}/env/{key}", Project(Member), 200, Empty),
    Row("POST /projects/{name}/domains", Project(Member), 201, Json(r#"{"domain":"www.{new}.example"}"#)),
    Row("DELETE /projects/{name}/domains/{domain}", Project(Member), 200, Empty),
    // The code host: this world has none.
    Row("GET /vcs", Person, 200, Empty),
    Row("POST /projects/{name}/repo", Project(Member), 200, Json(r#"{"repo":null}"#)),
    Row("GET /orgs/{name}/installations", Org(Member), 200, Empty),
    Row("POST /orgs/{name}/installations", Org(Member), 404, Json(r#"{"installation_id":1}"#)),
    Row("DELETE /orgs/{name}/installations/{id}", Org(Admin), 200, Empty),
    Row("POST /webhooks/github", Public, 404, Json("{}")),
    // Organizations.
    Row("GET /orgs", Person, 200, Empty),
    Row("POST /orgs", Person, 201, Json(r#"{"name":"{new}"}"#)),
    Row("GET /orgs/{name}", Org(Member), 200, Empty),
    Row("PATCH /orgs/{name}", Org(Admin), 200, Json(r#"{"display_name":"Acme"}"#)),
    Row("DELETE /orgs/{name}", Org(Owner), 200, Empty),
    Row("GET /orgs/{name}/audit", Org(Admin), 200, Empty),
    Row("GET /orgs/{name}/icon", Public, 200, Empty),
    Row("PUT /orgs/{name}/icon", Org(Admin), 200, Png),
    Row("DELETE /orgs/{name}/icon", Org(Admin), 200, Empty),
    // Of somebody else: everybody may leave.
    Row("DELETE /orgs/{name}/members/{login}", Org(Admin), 200, Empty),
    Row("PUT /orgs/{name}/members/{login}", Org(Owner), 200, Json(r#"{"role":"admin"}"#)),
    Row("GET /orgs/{name}/invites", Org(Admin), 200, Empty),
    Row("POST /orgs/{name}/invites", Org(Admin), 201, Json(r#"{"email":"new@example.com","role":"member"}"#)),
    Row("DELETE /orgs/{name}/invites/{id}", Org(Admin), 200, Empty),
    Row("GET /invites/{token}", Public, 200, Empty),
    Row("POST /invites/{token}/accept", Person, 200, Empty),
    Row("GET /orgs/{name}/tokens", Org(Admin), 200, Empty),
    Row("POST /orgs/{name}/tokens", Org(Admin), 201, Json(r#"{"kind":"ai"}"#)),
    Row("DELETE /orgs/{name}/tokens/{id}", Org(Admin), 200, Empty),
    // What AI keys were used for.
    Row("GET /usage/ai", Person, 200, Empty),
    Row("GET /orgs/{name}/usage/ai", Org(Member), 200, Empty),
];

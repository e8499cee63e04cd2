//! A person whose browser runs no JavaScript: it keeps cookies, follows redirects and submits forms.

use reqwest::{Client, Method, header::HeaderMap};
use url::Url;

use super::{World, answer::Answer, edge::Edge, form::Form, request::Request};

/// The maximum number of consecutive redirects, as in browsers.
const REDIRECTS: usize = 20;

/// A person. Clones share the browser.
#[derive(Clone)]
pub struct Person {
    client: Client,
    console: String,
}

/// The end of a visit.
#[derive(Debug)]
pub struct Page {
    pub url: Url,
    pub answer: Answer,
    /// Every response along the way with its URL, including the last.
    pub trail: Vec<(Url, Answer)>,
}

impl World {
    pub fn person(&self) -> Person {
        Person::new(self.edge(), self.console_url(""))
    }

    pub fn console_url(&self, path: &str) -> String {
        format!("https://app.svc.localhost:{}{path}", self.public_port())
    }
}

impl Person {
    fn new(edge: &Edge, console: String) -> Self {
        Self { client: edge.person(), console }
    }

    /// Returns the browser's client, for streamed responses.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Navigates to `url`, following redirects.
    pub async fn visit(&self, url: &str) -> Page {
        self.go(Method::GET, url.parse().unwrap(), None).await
    }

    /// Builds a navigation request that does not follow redirects.
    pub fn step(&self, url: &str) -> Request {
        navigation(Request::new(&self.client, Method::GET, url))
    }

    pub fn request(&self, method: Method, url: &str) -> Request {
        Request::new(&self.client, method, url)
    }

    /// Builds an API request as a page of the console sends it.
    pub fn api(&self, method: Method, path: &str) -> Request {
        let is_safe = method.is_safe();
        let request = Request::new(&self.client, method, &format!("{}/api{path}", self.console));
        if is_safe { request.header("sec-fetch-site", "same-origin") } else { request.header("origin", &self.console) }
    }

    /// Fills in and submits the first form of a page, following redirects.
    pub async fn fill(&self, page: &Page, entries: &[(&str, &str)]) -> Page {
        self.fill_nth(page, 0, entries).await
    }

    /// Fills in and submits the form with this index, following redirects.
    pub async fn fill_nth(&self, page: &Page, index: usize, entries: &[(&str, &str)]) -> Page {
        self.press(page, index, entries, "").await
    }

    /// Submits the form with this index using the button whose value contains `button`.
    pub async fn press(&self, page: &Page, index: usize, entries: &[(&str, &str)], button: &str) -> Page {
        let forms = Form::all(&page.answer.text());
        let form = forms.get(index).unwrap_or_else(|| panic!("no such form: {}", page.answer.text()));
        let action = page.url.join(&form.action).unwrap();
        self.go(Method::POST, action, Some((form.filled(entries, button), page.url.origin().ascii_serialization())))
            .await
    }

    /// Signs in to the console with the local code host's form.
    pub async fn sign_in(&self, login: &str) -> Page {
        let page = self.visit(&format!("{}/sign-in", self.console)).await;
        self.fill(&page, &[("login", login), ("password", super::OPERATOR_SECRET)]).await
    }

    async fn go(&self, mut method: Method, mut url: Url, mut form: Option<(Vec<(String, String)>, String)>) -> Page {
        let mut trail = Vec::new();
        for _ in 0..REDIRECTS {
            let mut request = navigation(Request::new(&self.client, method, url.as_str()));
            if let Some((fields, origin)) = form.take() {
                let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                request = request.header("origin", origin).form(&fields);
            }
            let answer = request.await;
            trail.push((url.clone(), answer.clone()));
            let Some(location) = location(&answer.headers) else { return Page { url, answer, trail } };
            url = url.join(&location).unwrap();
            method = Method::GET;
        }
        panic!("sent round and round: {trail:#?}");
    }
}

impl Page {
    #[track_caller]
    pub fn assert_says(&self, text: &str) -> &Self {
        assert!(self.answer.text().contains(text), "{} does not say {text:?}: {}", self.url, self.answer.text());
        self
    }

    #[track_caller]
    pub fn assert_at(&self, status: u16, url: &str) -> &Self {
        assert_eq!((self.answer.status.as_u16(), self.url.as_str()), (status, url), "{}", self.answer.text());
        self
    }

    /// Returns every `Set-Cookie` along the way, with the host that set it.
    pub fn cookies_set(&self) -> Vec<(String, String)> {
        let set = |(url, answer): &(Url, Answer)| {
            let host = url.host_str().unwrap_or_default().to_owned();
            let lines = answer.headers.get_all("set-cookie").iter();
            lines.map(|line| (host.clone(), line.to_str().unwrap().to_owned())).collect::<Vec<_>>()
        };
        self.trail.iter().flat_map(set).collect()
    }
}

fn navigation(request: Request) -> Request {
    request.header("accept", "text/html,application/xhtml+xml,*/*;q=0.8").header("sec-fetch-mode", "navigate")
}

fn location(headers: &HeaderMap) -> Option<String> {
    headers.get("location").map(|location| location.to_str().unwrap().to_owned())
}

"""Compares how svc, nginx and wrangler serve one site: every address of every file, and every link of every page.

    compare.py NAME FOLDER CA SVC_URL NGINX_URL WRANGLER_URL

Prints the differences that `LISTED` gives no reason for, and the links of pages that lead nowhere at svc alone. Ends with 1 when there are any.
"""

import collections
import dataclasses
import gzip
import hashlib
import html.parser
import http.client
import os
import socket
import ssl
import sys
import urllib.parse

# As a browser asks for a page.
ACCEPT = "text/html,application/xhtml+xml,*/*;q=0.8"
REDIRECTS = 8
# What no file of a site answers.
NOWHERE = ["/nowhere", "/nowhere/", "/nowhere.html", "/nowhere.png", "/no/where", "/a%2Fb"]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What is there after all redirects."""

    status: int
    path: str
    kind: str
    body: bytes

    @property
    def outcome(self):
        return (self.status, hashlib.sha256(self.body).digest() if self.status == 200 else None)


class Server:
    """A server of the site, asked over one connection."""

    def __init__(self, name, url, context):
        self.name = name
        self.url = urllib.parse.urlsplit(url)
        self.context = context
        self.connection = None
        self.answers = {}

    def get(self, path):
        if path not in self.answers:
            self.answers[path] = self.follow(path)
        return self.answers[path]

    def follow(self, path):
        for _ in range(REDIRECTS):
            status, headers, body = self.ask(path)
            if status not in (301, 302, 303, 307, 308):
                return Answer(status, path, headers.get("content-type", ""), body)
            to = urllib.parse.urlsplit(urllib.parse.urljoin(self.absolute(path), headers["location"]))
            if to.hostname not in (self.url.hostname, "127.0.0.1", "localhost"):
                return Answer(status, to.geturl(), "", b"")
            path = relative(to)
        return Answer(310, path, "", b"")

    def ask(self, path):
        for attempt in (1, 2):
            try:
                if self.connection is None:
                    self.connection = self.connect()
                self.connection.request("GET", path, headers={"Host": self.url.netloc, "Accept": ACCEPT})
                answer = self.connection.getresponse()
                body = answer.read()
                headers = {name.lower(): value for name, value in answer.getheaders()}
                if headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                return answer.status, headers, body
            except (http.client.HTTPException, OSError):
                self.connection = None
                if attempt == 2:
                    raise

    def connect(self):
        """The name is the site's, whatever it resolves to: the server is on this machine."""
        connection = http.client.HTTPConnection("127.0.0.1", self.url.port)
        if self.url.scheme == "https":
            plain = socket.create_connection(("127.0.0.1", self.url.port))
            connection.sock = self.context.wrap_socket(plain, server_hostname=self.url.hostname)
        return connection

    def absolute(self, path):
        return f"{self.url.scheme}://{self.url.netloc}{path}"

    def links(self, page):
        """The addresses within the site that a page leads to, as a browser resolves them from where the page is."""
        answer = self.get(page)
        if answer.status != 200 or "html" not in answer.kind:
            return set()
        parser = Links()
        parser.feed(answer.body.decode("utf-8", "replace"))
        resolved = (urllib.parse.urljoin(self.absolute(answer.path), link.strip()) for link in parser.found)
        parts = (urllib.parse.urlsplit(link) for link in resolved)
        return {relative(part) for part in parts if (part.scheme, part.netloc) == (self.url.scheme, self.url.netloc)}


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if value and name in ("href", "src", "poster", "data"):
                self.found.append(value)
            elif value and name == "srcset":
                self.found += [candidate.split()[0] for candidate in value.split(",") if candidate.split()]


def relative(url):
    return (url.path or "/") + ("?" + url.query if url.query else "")


def addresses(folder):
    """Under which a visitor may ask for the files of a folder, and some where there is none."""
    found = set(NOWHERE)
    for parent, _, names in os.walk(folder, followlinks=True):
        for name in names:
            file = urllib.parse.quote(os.path.relpath(os.path.join(parent, name), folder))
            if file in ("_headers", "_redirects"):
                continue
            found.add(f"/{file}")
            if file.endswith(".html"):
                page = "/" + file.removesuffix(".html")
                found |= {page, page + "/"}
                if page.endswith("/index"):
                    found |= {page.removesuffix("index"), page.removesuffix("/index") or "/"}
    return found


def difference(ours, theirs):
    """What tells two answers apart; None when nothing does."""
    if ours.outcome != theirs.outcome:
        return f"{ours.status} {theirs.status}" if ours.status != theirs.status else "other bytes"
    if ours.status != 200:
        return None
    if ours.path.split("?")[0] != theirs.path.split("?")[0]:
        return "other address"
    kinds = [answer.kind.lower().split(";")[0].strip() for answer in (ours, theirs)]
    return None if kinds[0] == kinds[1] else " ".join(kinds)


@dataclasses.dataclass(frozen=True)
class Listed:
    """A difference that is meant: at which servers, what (None for any), and for which addresses."""

    servers: tuple
    what: str
    reason: str
    fits: object = lambda address, ours, theirs: True


BOTH = ("nginx", "wrangler")
LISTED = [
    Listed(("nginx",), "other address", "a page has one address, without .html and without index", lambda a, ours, _: clean(a) == ours.path),
    Listed(BOTH, "text/javascript application/javascript", "RFC 9239: text/javascript is the name, the other is obsolete"),
    Listed(BOTH, "text/xml application/xml", "RFC 7303: the same type"),
    Listed(("nginx",), "image/vnd.microsoft.icon image/x-icon", "IANA's name of the type"),
    Listed(("nginx",), None, "a type that nginx's table does not have", lambda _a, ours, theirs: same_file(ours, theirs) and theirs.kind.startswith("text/plain")),
    Listed(("wrangler",), "text/plain application/octet-stream", "source code is shown, and not downloaded"),
    Listed(("wrangler",), "other bytes", "`200.html` answers where there is no file, and not the home page", lambda address, *_: address in NOWHERE),
    Listed(("nginx",), "200 404", "an application of one page answers where there is no file", lambda _a, _o, theirs: theirs.status == 404),
    Listed(("nginx",), "404 403", "a folder without a page is no file"),
    Listed(("nginx",), "200 403", "`/about/` is the page `about.html`, also beside a folder of its name"),
    Listed(("wrangler",), "404 200", "a name with a file's extension is no route", lambda address, *_: "." in address.rsplit("/", 1)[-1]),
    Listed(BOTH, None, "what is stored compressed is said to be, and decoded by who reads it", lambda address, *_: address.endswith((".br", ".gz"))),
]


def same_file(ours, theirs):
    return ours.outcome == theirs.outcome and ours.status == 200


def clean(address):
    path = address.split("?")[0]
    for end in ("/index.html", "/index/", "/index"):
        if path.endswith(end):
            return path.removesuffix(end) + "/"
    return path.removesuffix(".html").rstrip("/") or "/"


def main():
    name, folder, ca, *urls = sys.argv[1:]
    context = ssl.create_default_context(cafile=ca)
    ours, *peers = (Server(server, url, context) for server, url in zip(("svc", *BOTH), urls, strict=True))
    asked = addresses(folder)
    broken = set()
    for page in sorted(asked):
        if page in NOWHERE:
            # What answers there is a page of another address: its relative links are not meant for this one.
            continue
        for server in (ours, *peers):
            links = server.links(page)
            asked |= links
            dead = {link for link in links if server.get(link).status != 200}
            broken |= {(page, link) for link in dead} if server is ours else set()
            if server.name == "nginx":
                # A page whose author made a mistake is no fault of a server.
                broken -= {(page, link) for link in dead}

    unlisted = collections.defaultdict(list)
    for address in sorted(asked):
        for peer in peers:
            answers = ours.get(address), peer.get(address)
            what = difference(*answers)
            is_listed = any(peer.name in one.servers and one.what in (None, what) and one.fits(address, *answers) for one in LISTED)
            if what and not is_listed:
                unlisted[peer.name, what].append(f"{address} → {answers[0].path} | {answers[1].path}")
    for (server, what), where in unlisted.items():
        print(f"{name}: {server}: {what}: {len(where)} times, such as", *where[:4], sep="\n    ")
    for page, link in sorted(broken):
        print(f"{name}: {page} leads to {link}, and nothing is there")
    print(f"{name}: {len(asked)} addresses, {sum(map(len, unlisted.values()))} unlisted differences, {len(broken)} dead links")
    sys.exit(1 if unlisted or broken else 0)


if __name__ == "__main__":
    main()

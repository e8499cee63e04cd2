"""A mail server as strict as the ones of the world: TLS from the start or by STARTTLS, a password, people it does not know.

What it takes lies in a folder; what it does is said in JSON on the command line.
"""

import asyncio
import json
import ssl
import sys

from aiosmtpd.handlers import Mailbox
from aiosmtpd.smtp import SMTP, AuthResult

wanted = json.loads(sys.argv[1])


def refuses(step, address=""):
    """Whether a step fails, now: for everybody, or for one address. Read at each step, so that it can be changed."""
    with open(wanted["refuses"]) as file:
        refused = json.load(file)
    return refused.get(step) in ("", address)


class Handler(Mailbox):
    async def handle_MAIL(self, server, session, envelope, address, options):
        if refuses("sender"):
            return "553 5.1.8 This sender is not yours"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        if refuses("recipient", address):
            return "550 5.1.1 Nobody of that name"
        if refuses("recipient, for now", address):
            return "450 4.2.1 Try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if refuses("letter"):
            return "554 5.7.1 This looks like spam"
        if refuses("to answer"):
            await asyncio.Future()
        taken = await super().handle_DATA(server, session, envelope)
        if refuses("to answer, having taken it"):
            await asyncio.Future()
        return taken


def authenticate(server, session, envelope, mechanism, login):
    known = (login.login.decode(), login.password.decode()) == tuple(wanted["login"])
    return AuthResult(success=known, handled=False)


def server():
    options = {}
    if wanted.get("login"):
        options |= {"authenticator": authenticate, "auth_required": True}
    if wanted.get("tls") == "starttls":
        options |= {"tls_context": tls, "require_starttls": True}
    else:
        # In a connection that is encrypted from its start there is nothing to start.
        options |= {"auth_require_tls": False}
    return SMTP(Handler(wanted["folder"]), hostname="mail.example", **options)


async def main():
    implicit = tls if wanted.get("tls") == "implicit" else None
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server, "127.0.0.1", wanted["port"], ssl=implicit)
    await listening.serve_forever()


tls = None
if wanted.get("tls"):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(wanted["certificate"], wanted["key"])
asyncio.run(main())

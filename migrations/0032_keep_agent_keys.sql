-- The keys with which agents sign their requests (Web Bot Auth), and when lists that operators publish are read again.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- Ed25519 keys by their thumbprint (RFC 7638), as an agent's directory last had them.
CREATE TABLE agent_keys (
    key_id      text COLLATE "C" PRIMARY KEY,
    agent       text COLLATE "C" NOT NULL,
    public_key  bytea NOT NULL CHECK (octet_length(public_key) = 32),
    expires_at  timestamptz
);
CREATE INDEX agent_keys_by_agent ON agent_keys (agent);

-- Lists and directories that are read from elsewhere, by their URL.
CREATE TABLE agent_sources (
    url         text PRIMARY KEY,
    read_again  timestamptz NOT NULL,
    failures    integer NOT NULL DEFAULT 0
);

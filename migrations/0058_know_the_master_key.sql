-- A value that the master key has sealed: a program whose key does not open it has the wrong one, and refuses to start. Written by
-- whichever program starts first; `certs rotate-key` seals it anew.
--
-- `take_overs` remembers the stores and Redis servers that this database took over from another, so that a configuration key
-- that asks for it works once.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE master_key_checks (
    id text COLLATE "C" PRIMARY KEY CHECK (id = 'check'),
    sealed_check bytea NOT NULL
);

CREATE TABLE take_overs (
    part text COLLATE "C" NOT NULL CHECK (part IN ('store', 'redis')),
    former_name text COLLATE "C" NOT NULL,
    taken_at timestamptz NOT NULL,
    PRIMARY KEY (part, former_name)
);

-- A push whose webhook was lost is found by asking the code host now and then what a linked branch points at.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE repo_links
    -- What the branch pointed at when it was last heard of, by a webhook or by asking: git's null id when there was no such branch, null
    -- when nothing is known yet.
    ADD COLUMN head_sha text,
    -- When it is asked about next.
    ADD COLUMN check_head_at timestamptz NOT NULL DEFAULT now();

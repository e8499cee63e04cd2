-- Organizations that used what a plan gives by the month, and that were deleted: they count for the person who created them until the month
-- is over. Whoever could make another would have the same again.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE deleted_orgs (
    id          text COLLATE "C" PRIMARY KEY,
    created_by  text COLLATE "C" NOT NULL REFERENCES users ON DELETE CASCADE,
    deleted_at  timestamptz NOT NULL
);
CREATE INDEX deleted_orgs_by_creator ON deleted_orgs (created_by, deleted_at);
CREATE INDEX deleted_orgs_by_age ON deleted_orgs (deleted_at);

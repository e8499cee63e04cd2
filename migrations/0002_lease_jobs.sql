-- A lease ends by itself: a program that dies in the middle of a job holds nothing up, and no transaction stays open
-- while a job talks to the store or to Redis.
ALTER TABLE job_leases ADD COLUMN leased_until timestamptz;

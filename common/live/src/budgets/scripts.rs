//! The scripts. Each is one step for Redis: nobody sees half of it.

use std::sync::LazyLock;

use redis::Script;

/// KEYS spent, open, minute. ARGV id, text without figures and time, tokens, cost; a minute's, a day's and a month's limit;
/// after `Unknown`, Postgres's day, its version, tokens of the day, cost of the month, and the ids of the last minute's
/// completions.
///
/// An id begins with the time of its admission. So the minute is rebuilt from the ids that Postgres has and those that are
/// open; each counts once, though it be in both. Where Redis remembers more of them, it is believed.
///
/// The minute slides: it holds the time of each admission, so that no minute, wherever it begins, has more of them than
/// the limit.
///
/// Redis's own clock is the only one asked for minute, day and month, because the edges' differ: an edge whose clock is a day
/// ahead would begin a day that for the others is yet to come, and end theirs. Where Redis's clock itself goes back to a day
/// before, what it has is of no use, and is read again.
///
/// It runs while a client waits, and Redis logs each of its writes: one step for both sums, and the end of `spent`, which
/// whoever comes later can have read again, is put off once a day.
///
/// A day or month that is newer than the one in `spent` begins with nothing, since whatever is used in it is admitted
/// here first. Reservations count against the day they were made on.
pub(super) fn admission(memory: &str) -> Script {
    Script::new(&format!("local memory = '{memory}'\n{ADMIT}"))
}

const ADMIT: &str = r#"
local spent, open, minute = KEYS[1], KEYS[2], KEYS[3]
local tokens, cost = tonumber(ARGV[3]), tonumber(ARGV[4])
local per_minute, per_day, per_month = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local time = redis.call('TIME')
local seconds, millis = tonumber(time[1]), math.floor(time[2] / 1000)
local now = seconds * 1000 + millis
-- The date, as days since 1 March of the year 0, whose leap days stand at the ends of years.
local floor = math.floor
local days = floor(seconds / 86400) + 719468
local era = floor(days / 146097)
local of_era = days - era * 146097
local year = floor((of_era - floor(of_era / 1460) + floor(of_era / 36524) - floor(of_era / 146096)) / 365)
local of_year = of_era - (365 * year + floor(year / 4) - floor(year / 100))
local from_march = floor((5 * of_year + 2) / 153)
local date = of_year - floor((153 * from_march + 2) / 5) + 1
local number = from_march < 10 and from_march + 3 or from_march - 9
year = year + era * 400 + (number <= 2 and 1 or 0)
local month = year * 100 + number
local day = month * 100 + date

local s = redis.call('HMGET', spent, 'd', 'dt', 'dh', 'm', 'mc', 'mh', 'floor', 'memory')
local d, dt, dh, m, mc, mh
if s[1] and (s[8] ~= memory or tonumber(s[1]) > day) then
  redis.call('DEL', spent)
  return {0, 0, 0, 0, 0, now}
elseif s[1] and s[4] then
  d, dt, dh = tonumber(s[1]), tonumber(s[2]), tonumber(s[3])
  m, mc, mh = tonumber(s[4]), tonumber(s[5]), tonumber(s[6])
elseif tonumber(ARGV[8]) ~= day or tonumber(s[7] or 0) > tonumber(ARGV[9]) then
  return {0, 0, 0, 0, 0, now}
else
  d, dt, dh, m, mc, mh = day, tonumber(ARGV[10]), 0, month, tonumber(ARGV[11]), 0
  local ids, times = {}, {}
  for i = 12, #ARGV do ids[ARGV[i]] = true end
  local entries = redis.call('HGETALL', open)
  for i = 1, #entries, 2 do
    local t, c, on = string.match(entries[i + 1], '^(%d+) (%d+) (%d+) ')
    if tonumber(on) == d then dh = dh + tonumber(t) end
    if math.floor(tonumber(on) / 100) == m then mh = mh + tonumber(c) end
    ids[entries[i]] = true
  end
  for id in pairs(ids) do
    local at = tonumber(string.sub(id, 5, 13), 36)
    if at and at > now - 60000 then table.insert(times, math.min(at, now)) end
  end
  local remembered = 0
  for _, at in ipairs(redis.call('LRANGE', minute, 0, -1)) do
    if tonumber(at) > now - 60000 then remembered = remembered + 1 end
  end
  if #times > remembered then
    table.sort(times)
    redis.call('DEL', minute)
    for i = math.max(#times - per_minute + 1, 1), #times do
      redis.call('LPUSH', minute, string.format('%.0f', times[i]))
    end
    redis.call('PEXPIRE', minute, 60000)
  end
  redis.call('HSET', spent, 'memory', memory, 'd', d, 'dt', dt, 'dh', dh, 'dv', ARGV[9], 'm', m, 'mc', mc, 'mh', mh, 'mv', ARGV[9])
  redis.call('PEXPIRE', spent, 172800000)
end
if day > d then
  d, dt, dh = day, 0, 0
  redis.call('HSET', spent, 'd', d, 'dt', 0, 'dh', 0)
  redis.call('PEXPIRE', spent, 172800000)
end
if month > m then
  m, mc, mh = month, 0, 0
  redis.call('HSET', spent, 'm', m, 'mc', 0, 'mh', 0)
end

-- Of a clock that went back since. What may have been a moment ago counts for a minute from now on.
local newest = redis.call('LINDEX', minute, 0)
while newest and tonumber(newest) > now + 60000 do
  redis.call('LPOP', minute)
  newest = redis.call('LINDEX', minute, 0)
end
local ahead = 0
while newest and tonumber(newest) > now do
  redis.call('LSET', minute, ahead, string.format('%.0f', now))
  ahead = ahead + 1
  newest = redis.call('LINDEX', minute, ahead)
end
local oldest = redis.call('LINDEX', minute, -1)
while oldest and tonumber(oldest) <= now - 60000 do
  redis.call('RPOP', minute)
  oldest = redis.call('LINDEX', minute, -1)
end
local requests = redis.call('LLEN', minute)
local refusal
if requests >= per_minute then
  refusal = 1
elseif dt + dh + tokens > per_day then
  refusal = 2
elseif mc + mh + cost > per_month then
  refusal = 3
end
if refusal then
  if requests == 0 then return {refusal, 0, 0, 0, dt + dh, now} end
  local resets = math.min(tonumber(redis.call('LINDEX', minute, 0)) + 60000 - now, 60000)
  local first = requests >= per_minute and redis.call('LINDEX', minute, per_minute - 1) or oldest
  return {refusal, requests, math.min(tonumber(first) + 60000 - now, 60000), resets, dt + dh, now}
end

local clock = seconds % 86400
local at = string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, number, date, floor(clock / 3600), floor(clock / 60) % 60, clock % 60, millis)
local text = table.concat({ARGV[3], ARGV[4], day, ARGV[2] .. at .. '"}'}, ' ')
if redis.call('HSETNX', open, ARGV[1], text) == 1 then
  dh, mh = dh + tokens, mh + cost
  redis.call('HSET', spent, 'dh', dh, 'mh', mh)
  redis.call('LPUSH', minute, now)
  redis.call('PEXPIRE', minute, 60000)
  requests = requests + 1
end
return {4, requests, oldest and math.min(tonumber(oldest) + 60000 - now, 60000) or 60000, 60000, dt + dh, now}
"#;

/// KEYS spent, open. ARGV: whether completions that are not open are opened (1 or 0); for each completion: id, text, tokens, cost,
/// day, month.
pub(super) static REVALUE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local s = redis.call('HMGET', KEYS[1], 'd', 'm')
local day_tokens, month_cost = 0, 0
for i = 2, #ARGV, 6 do
  local tokens, cost = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local old = redis.call('HGET', KEYS[2], ARGV[i])
  if old then
    local t, c = string.match(old, '^(%d+) (%d+) ')
    tokens, cost = tokens - tonumber(t), cost - tonumber(c)
  end
  if old or ARGV[1] == '1' then
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
    if s[1] == ARGV[i + 4] then day_tokens = day_tokens + tokens end
    if s[2] == ARGV[i + 5] then month_cost = month_cost + cost end
  end
end
if day_tokens ~= 0 then redis.call('HINCRBY', KEYS[1], 'dh', day_tokens) end
if month_cost ~= 0 then redis.call('HINCRBY', KEYS[1], 'mh', month_cost) end
",
    )
});

/// KEYS open. ARGV ids. Puts a name in the place of the edge's, which says that the completion is being settled without it.
/// Returns the entries that are there.
pub(super) static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local claimed = {}
for _, id in ipairs(ARGV) do
  local entry = redis.call('HGET', KEYS[1], id)
  local figures, row = string.match(entry or '', '^(%d+ %d+ %d+ )%S+ (.*)$')
  if row then
    entry = figures .. 'sweeper ' .. row
    redis.call('HSET', KEYS[1], id, entry)
    table.insert(claimed, entry)
  end
end
return claimed
",
    )
});

/// KEYS spent, open. ARGV version, day, tokens of the day, month, cost of the month (all empty when nothing was used),
/// ids. Returns, for each id, whether it was closed (1), was not there (0), or was left because it is claimed (2). Only what
/// was used closes a claimed one: otherwise whoever claimed it may be about to record what it did not use.
///
/// While `spent` is not there, somebody may be on the way to it with sums that were read before these rows were written:
/// `floor` keeps sums so old out.
pub(super) static CLOSE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local s = redis.call('HMGET', KEYS[1], 'd', 'dv', 'm', 'mv')
local d, m = tonumber(s[1] or 0), tonumber(s[3] or 0)
local version = tonumber(ARGV[1])
local tokens, cost, closed = 0, 0, {}
for i = 6, #ARGV do
  local entry = redis.call('HGET', KEYS[2], ARGV[i])
  local t, c, on, edge = string.match(entry or '', '^(%d+) (%d+) (%d+) (%S+) ')
  if not entry then
    table.insert(closed, 0)
  elseif edge == 'sweeper' and not version then
    table.insert(closed, 2)
  else
    table.insert(closed, 1)
    redis.call('HDEL', KEYS[2], ARGV[i])
    if tonumber(on) == d then tokens = tokens + tonumber(t) end
    if math.floor(tonumber(on) / 100) == m then cost = cost + tonumber(c) end
  end
end
if s[1] and tokens > 0 then redis.call('HINCRBY', KEYS[1], 'dh', -tokens) end
if s[3] and cost > 0 then redis.call('HINCRBY', KEYS[1], 'mh', -cost) end
if version and not s[1] then
  local floor = tonumber(redis.call('HGET', KEYS[1], 'floor') or 0)
  redis.call('HSET', KEYS[1], 'floor', math.max(floor, version))
  redis.call('PEXPIRE', KEYS[1], 60000)
end
if version and s[1] == ARGV[2] and version >= tonumber(s[2]) then
  redis.call('HSET', KEYS[1], 'dt', ARGV[3], 'dv', ARGV[1])
end
if version and s[3] == ARGV[4] and version >= tonumber(s[4]) then
  redis.call('HSET', KEYS[1], 'mc', ARGV[5], 'mv', ARGV[1])
end
return closed
",
    )
});

//! The scripts. Each is atomic in Redis.

use std::sync::LazyLock;

use redis::Script;

use super::{SPARE_LIFE, as_millis, entries::SPARE, functions::FUNCTIONS};

/// Admits a completion.
///
/// KEYS: spent, open, minute. ARGV: id, text without figures and time, tokens, cost; the limits of a minute, a day and
/// a month; the account's own limit of a month and the key's, each empty if there is none; the token; the number of
/// requested spares, each as id and text without figures and time; after `Unknown`, Postgres's day, its version, tokens
/// of the day, cost of the month, the key's cost of the month if it has a limit, and the ids of the last minute's
/// completions.
///
/// An id begins with the time of its admission. The minute is therefore rebuilt from the ids in Postgres and in `open`,
/// counting each once. If Redis has more of them, those count.
///
/// The minute is a sliding window: it has the time of each admission, so that no minute, wherever it begins, exceeds
/// the limit.
///
/// Only Redis's clock decides minute, day and month, because the clocks of edges differ: an edge a day ahead would
/// begin the next day for all edges and end their present one. If Redis's own clock goes back to an earlier day, its
/// figures are unusable and are read again.
///
/// The script runs while a client waits, and Redis logs each of its writes. So one step updates both sums, and the
/// expiry of `spent`, which can be read again later, is extended only once a day.
///
/// A day or month newer than the one in `spent` begins at zero, because all of its usage is admitted here first.
/// Reservations count for the day on which they were made.
///
/// Spares are reservations of the same size for requests that have not arrived yet. They are made only while half of
/// every limit is left. In the minute, each has the end of its life as its time, the latest moment at which it may be
/// used. A request refused because of spares may be admitted once they are used or given back, and until then no more
/// are made (`no_spares_until`); a second after the end of the last one's life nobody waits for them any longer,
/// because their edge has died or is suspended. An admission does not report spares as used by the account: no request
/// has used them.
///
/// If only `open` is lost, nothing is reserved any more.
pub(super) fn admission(memory: &str) -> Script {
    script(&format!("local memory = '{memory}'\n{ADMIT}"))
}

fn script(body: &str) -> Script {
    let life = as_millis(SPARE_LIFE);
    Script::new(&format!("local spare_mark, spare_life = '{SPARE}', {life}\n{FUNCTIONS}{body}"))
}

const ADMIT: &str = r#"
local spent, open, minute = KEYS[1], KEYS[2], KEYS[3]
local tokens, cost = tonumber(ARGV[3]), tonumber(ARGV[4])
local per_minute, per_day, per_month = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local account_limit, key_limit, token = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]
local wanted = tonumber(ARGV[11])
local base = 11 + 2 * wanted

local time = redis.call('TIME')
local seconds, millis = tonumber(time[1]), math.floor(time[2] / 1000)
local now = seconds * 1000 + millis
local floor = math.floor
local year, number, date = date_of(floor(seconds / 86400))
local month = year * 100 + number
local day = month * 100 + date

local s = redis.call('HMGET', spent, 'd', 'dt', 'dh', 'm', 'mc', 'mh', 'floor', 'memory', 'mv', 'seen', 'spares', 'no_spares_until', token)
local mv, spares, key = s[9], read_spares(s[11]), read_key(s[13])
local d, dt, dh, m, mc, mh
if s[1] and (s[8] ~= memory or tonumber(s[1]) > day) then
  redis.call('DEL', spent)
  return {0, 0, 0, 0, 0, now, 0}
elseif s[1] and s[4] then
  d, dt, dh = tonumber(s[1]), tonumber(s[2]), tonumber(s[3])
  m, mc, mh = tonumber(s[4]), tonumber(s[5]), tonumber(s[6])
  if not is_seen(s[10], s[6], mv) then
    forget_keys(spent)
    see(spent)
    key = nil
  end
elseif tonumber(ARGV[base + 1]) ~= day or tonumber(s[7] or 0) > tonumber(ARGV[base + 2]) then
  return {0, 0, 0, 0, 0, now, 0}
else
  d, dt, dh, m, mc, mh = day, tonumber(ARGV[base + 3]), 0, month, tonumber(ARGV[base + 4]), 0
  mv, key = ARGV[base + 2], nil
  forget_keys(spent)
  spares = read_spares()
  local ids, times = {}, {}
  for i = base + 6, #ARGV do ids[ARGV[i]] = true end
  local entries = redis.call('HGETALL', open)
  for i = 1, #entries, 2 do
    local t, c, on = string.match(entries[i + 1], '^(%d+) (%d+) (%d+) ')
    if tonumber(on) == d then dh = dh + tonumber(t) end
    if math.floor(tonumber(on) / 100) == m then mh = mh + tonumber(c) end
    if is_spare(entries[i + 1]) then
      count_spare(spares, 1, entries[i + 1], d, m)
      spares.at = now
      table.insert(times, place_of(entries[i + 1]))
    else
      ids[entries[i]] = true
    end
  end
  write_spares(spent, spares)
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
  redis.call('HSET', spent, 'memory', memory, 'd', d, 'dt', dt, 'dh', dh, 'dv', mv, 'm', m, 'mc', mc, 'mh', mh, 'mv', mv)
  see(spent)
  redis.call('PEXPIRE', spent, 172800000)
end
if day > d then
  d, dt, dh, spares.tokens = day, 0, 0, 0
  redis.call('HSET', spent, 'd', d, 'dt', 0, 'dh', 0)
  redis.call('PEXPIRE', spent, 172800000)
  write_spares(spent, spares)
end
if month > m then
  -- What has cost nothing for a month does not stay for as long as the account is busy.
  forget_keys(spent, m)
  if key and key.month < m then key = nil end
  m, mc, mh, spares.cost = month, 0, 0, 0
  redis.call('HSET', spent, 'm', m, 'mc', 0, 'mh', 0)
  see(spent)
  write_spares(spent, spares)
end
if (dh ~= 0 or mh ~= 0 or spares.count > 0) and redis.call('EXISTS', open) == 0 then
  dh, mh, spares, key = 0, 0, read_spares(), nil
  redis.call('HSET', spent, 'dh', 0, 'mh', 0)
  forget_keys(spent)
  see(spent)
  write_spares(spent, spares)
end
if key and key.month ~= m then
  key = {month = m, cost = '0', version = mv, held = 0}
elseif key_limit and not key then
  -- Rows may have been confirmed since Postgres was read that what it said does not have.
  if tonumber(ARGV[base + 1]) ~= day or not tonumber(ARGV[base + 5]) or tonumber(ARGV[base + 2]) < tonumber(mv) then
    return {0, 0, 0, 0, 0, now, 0}
  end
  key = {month = m, cost = ARGV[base + 5], version = ARGV[base + 2], held = 0}
  local entries = redis.call('HVALS', open)
  for _, entry in ipairs(entries) do
    local c, on = string.match(entry, '^%d+ (%d+) (%d+) ')
    if math.floor(tonumber(on) / 100) == m and token_of(entry) == token then key.held = key.held + tonumber(c) end
  end
  redis.call('HSET', spent, token, key_text(key))
end

-- Of a clock that went back since. What may have been a moment ago counts for a minute from now on. Spares are ahead by
-- their life.
local newest = redis.call('LINDEX', minute, 0)
while newest and tonumber(newest) > now + 60000 do
  redis.call('LPOP', minute)
  newest = redis.call('LINDEX', minute, 0)
end
local ahead = 0
while newest and tonumber(newest) > now + spare_life do
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
local function leaves(used, limit)
  return not limit or used + cost <= limit
end
local function refuse(requests, day_tokens, month_cost, key_cost)
  if requests >= per_minute then return 1 end
  if day_tokens + tokens > per_day then return 2 end
  if not leaves(month_cost, per_month) then return 3 end
  if not leaves(month_cost, account_limit) then return 5 end
  if not leaves(key_cost, key_limit) then return 6 end
end
local key_cost = key and tonumber(key.cost) + key.held or 0
local refusal = refuse(requests, dt + dh, mc + mh, key_cost)
-- Sent again, because the first answer was lost, it is not refused for what it holds itself.
if refusal and redis.call('HEXISTS', open, ARGV[1]) == 0 then
  local spares_end_in = -1
  local is_for_spares = spares.count > 0
    and not refuse(requests - spares.count, dt + dh - spares.tokens, mc + mh - spares.cost, key_cost - spares.cost)
  if is_for_spares then
    spares_end_in = math.max(math.min(spares.at - now, 0) + spare_life + 1000, 0)
    redis.call('HSET', spent, 'no_spares_until', string.format('%.0f', now + 2 * spare_life))
  end
  if requests == 0 then return {refusal, 0, 0, 0, dt + dh, now, spares_end_in} end
  local resets = math.min(tonumber(redis.call('LINDEX', minute, 0)) + 60000 - now, 60000)
  local first = requests >= per_minute and redis.call('LINDEX', minute, per_minute - 1) or oldest
  return {refusal, requests, math.min(tonumber(first) + 60000 - now, 60000), resets, dt + dh, now, spares_end_in}
end

local clock = seconds % 86400
local at = string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, number, date, floor(clock / 3600), floor(clock / 60) % 60, clock % 60, millis)
local function reserve(id, text, time)
  if redis.call('HSETNX', open, id, table.concat({ARGV[3], ARGV[4], day, text .. at .. '"}'}, ' ')) == 0 then return false end
  dh, mh = dh + tokens, mh + cost
  if key then key.held = key.held + cost end
  redis.call('LPUSH', minute, time)
  requests = requests + 1
  return true
end
local function leaves_half(used, limit)
  return not limit or 2 * (used + cost) <= limit
end
local is_new = reserve(ARGV[1], ARGV[2], now)
-- Where a part of what is known was lost, they may seem to hold more than there is.
local used_requests, used_tokens = math.max(requests - spares.count, 1), math.max(dt + dh - spares.tokens, 0)
local made, rest = 0, tonumber(s[12] or 0) - now
if is_new then
  if rest > 0 and rest <= 2 * spare_life then wanted = 0 end
  while made < wanted and 2 * (requests + 1) <= per_minute and 2 * (dt + dh + tokens) <= per_day
    and leaves_half(mc + mh, per_month) and leaves_half(mc + mh, account_limit)
    and (not key or leaves_half(tonumber(key.cost) + key.held, key_limit))
    and reserve(ARGV[12 + 2 * made], ARGV[13 + 2 * made], now + spare_life) do
    made = made + 1
  end
  local held = string.format('%.0f', mh)
  redis.call('HSET', spent, 'dh', dh, 'mh', held, 'seen', held .. ' ' .. mv)
  if made > 0 then
    spares.count, spares.at = spares.count + made, now
    spares.tokens, spares.cost = spares.tokens + made * tokens, spares.cost + made * cost
    write_spares(spent, spares)
  end
  if key then redis.call('HSET', spent, token, key_text(key)) end
  redis.call('PEXPIRE', minute, 60000 + spare_life)
else
  -- Sent again, because the first answer was lost.
  while made < wanted and redis.call('HEXISTS', open, ARGV[12 + 2 * made]) == 1 do made = made + 1 end
end
local frees_in = oldest and math.min(tonumber(oldest) + 60000 - now, 60000) or 60000
return {4, used_requests, frees_in, 60000, used_tokens, now, made}
"#;

/// KEYS: spent, open. ARGV: whether completions that are not open are opened (1 or 0); for each completion: id, text,
/// tokens, cost, day, month.
pub(super) static REVALUE: LazyLock<Script> = LazyLock::new(|| script(REVALUE_OPEN));

const REVALUE_OPEN: &str = r"
local s = redis.call('HMGET', KEYS[1], 'd', 'm', 'mh', 'mv', 'seen', 'spares')
local day_tokens, month_cost, of_keys = 0, 0, {}
local spares, are_fewer = read_spares(s[6]), false
if s[2] and not is_seen(s[5], s[3], s[4]) then
  forget_keys(KEYS[1])
  see(KEYS[1])
end
for i = 2, #ARGV, 6 do
  local tokens, cost = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local old = redis.call('HGET', KEYS[2], ARGV[i])
  if old then
    local t, c = string.match(old, '^(%d+) (%d+) ')
    tokens, cost = tokens - tonumber(t), cost - tonumber(c)
    if is_spare(old) then
      count_spare(spares, -1, old, tonumber(s[1]), tonumber(s[2]))
      are_fewer = true
    end
  end
  if old or ARGV[1] == '1' then
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
    if s[1] == ARGV[i + 4] then day_tokens = day_tokens + tokens end
    if s[2] == ARGV[i + 5] then
      month_cost = month_cost + cost
      local token = token_of(ARGV[i + 1])
      if token and cost ~= 0 then of_keys[token] = (of_keys[token] or 0) + cost end
    end
  end
end
if day_tokens ~= 0 then redis.call('HINCRBY', KEYS[1], 'dh', day_tokens) end
if month_cost ~= 0 then
  redis.call('HINCRBY', KEYS[1], 'mh', month_cost)
  see(KEYS[1])
end
if s[1] and are_fewer then write_spares(KEYS[1], spares) end
hold(KEYS[1], tonumber(s[2]), of_keys)
";

/// KEYS: open. ARGV: ids. Replaces the edge's name by one that says that the completion is being settled without its
/// edge. Returns the entries that exist.
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

/// Closes completions.
///
/// KEYS: spent, open, and minute when spares are given back, which then leave the minute too. ARGV: version, day,
/// tokens of the day, month, cost of the month (all empty if nothing was used), the number of keys' costs of the month
/// that follow, each as token and cost, ids. Returns for each id whether it was closed (1), was missing (0), or was
/// left (2), because it is claimed or a request has used the spare. Only actual usage closes a claimed one: otherwise
/// its claimant may be about to record it.
///
/// While `spent` is missing, another process may be about to write sums that were read before these rows were written:
/// `floor` rejects such old sums.
pub(super) static CLOSE: LazyLock<Script> = LazyLock::new(|| script(CLOSE_OPEN));

const CLOSE_OPEN: &str = r"
local s = redis.call('HMGET', KEYS[1], 'd', 'dv', 'm', 'mv', 'mh', 'seen', 'spares')
local d, m = tonumber(s[1] or 0), tonumber(s[3] or 0)
local version = tonumber(ARGV[1])
local tokens, cost, of_keys, closed = 0, 0, {}, {}
local spares, are_fewer = read_spares(s[7]), false
local keys = tonumber(ARGV[6])
if s[3] and not is_seen(s[6], s[5], s[4]) then forget_keys(KEYS[1]) end
for i = 7 + 2 * keys, #ARGV do
  local entry = redis.call('HGET', KEYS[2], ARGV[i])
  local t, c, on, edge = string.match(entry or '', '^(%d+) (%d+) (%d+) (%S+) ')
  if not entry then
    table.insert(closed, 0)
  elseif edge == 'sweeper' and not version or KEYS[3] and not is_spare(entry) then
    table.insert(closed, 2)
  else
    table.insert(closed, 1)
    redis.call('HDEL', KEYS[2], ARGV[i])
    if is_spare(entry) then
      count_spare(spares, -1, entry, d, m)
      are_fewer = true
    end
    local place = KEYS[3] and place_of(entry)
    if place then redis.call('LREM', KEYS[3], 1, string.format('%.0f', place)) end
    if tonumber(on) == d then tokens = tokens + tonumber(t) end
    if math.floor(tonumber(on) / 100) == m then
      cost = cost + tonumber(c)
      local token = token_of(entry)
      if token then of_keys[token] = (of_keys[token] or 0) - tonumber(c) end
    end
  end
end
if s[1] and are_fewer then write_spares(KEYS[1], spares) end
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
if s[3] then
  see(KEYS[1])
  hold(KEYS[1], m, of_keys)
end
for i = 7, 6 + 2 * keys, 2 do
  local key = read_key(redis.call('HGET', KEYS[1], ARGV[i]))
  if key and tostring(key.month) == ARGV[4] and version >= tonumber(key.version) then
    key.cost, key.version = ARGV[i + 1], ARGV[1]
    redis.call('HSET', KEYS[1], ARGV[i], key_text(key))
  end
end
return closed
";

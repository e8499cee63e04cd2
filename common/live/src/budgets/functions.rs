//! Lua code shared by the scripts.

/// Functions for keys, spares and dates, prepended to each script.
///
/// A field of `spent` under the token's id has a month, the key's cost in it as Postgres last gave it, the version of
/// that figure, and the key's sum in `open`. A key has the field from its first admission under its own limit on. In
/// another month the field does not apply and the key begins at zero, like its account; fields older than a month are
/// removed when a month begins.
///
/// `seen` has the account's month as the last of these scripts left it. An edge of a version without key limits leaves
/// another value: the fields are then outdated and are read again. A script that writes `mh` or `mv` must call `see`.
///
/// `spares` has the number of spares in `open`, their tokens of the day and cost of the month, and the time at which
/// the last was made. It is absent if there are none.
pub(super) const FUNCTIONS: &str = r#"
local function read_key(text)
  local month, cost, version, held = string.match(text or '', '^(%d+) (%d+) (%d+) (%-?%d+)$')
  if month then return {month = tonumber(month), cost = cost, version = version, held = tonumber(held)} end
end
local function key_text(key)
  return string.format('%d %s %s %.0f', key.month, key.cost, key.version, key.held)
end
local function token_of(entry)
  return string.match(entry, '"token":"(tok_%w+)"')
end
local function is_spare(entry)
  return string.find(entry, spare_mark, 1, true) ~= nil
end
local function read_spares(text)
  local count, tokens, cost, at = string.match(text or '', '^(%d+) (%d+) (%d+) (%d+)$')
  return {count = tonumber(count or 0), tokens = tonumber(tokens or 0), cost = tonumber(cost or 0), at = tonumber(at or 0)}
end
local function write_spares(spent, spares)
  if spares.count > 0 then
    local tokens, cost = math.max(spares.tokens, 0), math.max(spares.cost, 0)
    redis.call('HSET', spent, 'spares', string.format('%.0f %.0f %.0f %.0f', spares.count, tokens, cost, spares.at))
  else
    redis.call('HDEL', spent, 'spares')
  end
end
local function count_spare(spares, change, entry, day, month)
  local tokens, cost, on = string.match(entry, '^(%d+) (%d+) (%d+) ')
  spares.count = spares.count + change
  if tonumber(on) == day then spares.tokens = spares.tokens + change * tonumber(tokens) end
  if math.floor(tonumber(on) / 100) == month then spares.cost = spares.cost + change * tonumber(cost) end
end
-- Dates, and days since 1 January 1970. In between, years begin in March, so that leap days stand at their ends, and days are
-- counted from 1 March of the year 0.
local function date_of(days)
  local floor = math.floor
  days = days + 719468
  local era = floor(days / 146097)
  local of_era = days - era * 146097
  local year = floor((of_era - floor(of_era / 1460) + floor(of_era / 36524) - floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + floor(year / 4) - floor(year / 100))
  local from_march = floor((5 * of_year + 2) / 153)
  local date = of_year - floor((153 * from_march + 2) / 5) + 1
  local month = from_march < 10 and from_march + 3 or from_march - 9
  return year + era * 400 + (month <= 2 and 1 or 0), month, date
end
local function days_of(year, month, date)
  local floor = math.floor
  if month <= 2 then year, month = year - 1, month + 12 end
  local of_year = floor((153 * (month - 3) + 2) / 5) + date - 1
  return 365 * year + floor(year / 4) - floor(year / 100) + floor(year / 400) + of_year - 719468
end
-- Where a spare stands in the minute: at the end of its life.
local function place_of(entry)
  local pattern = '"at":"(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)%.(%d%d%d)Z"}$'
  local year, month, date, hours, minutes, seconds, millis = string.match(entry, pattern)
  if not year then return nil end
  local days = days_of(tonumber(year), tonumber(month), tonumber(date))
  return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + millis + spare_life
end
-- All of them, or those that were last used before a month.
local function forget_keys(spent, month)
  local fields = redis.call('HGETALL', spent)
  for i = 1, #fields, 2 do
    local key = string.sub(fields[i], 1, 4) == 'tok_' and (read_key(fields[i + 1]) or {month = 0})
    if key and not (month and key.month >= month) then redis.call('HDEL', spent, fields[i]) end
  end
end
local function is_seen(seen, mh, mv)
  return seen == (mh or '') .. ' ' .. (mv or '')
end
local function see(spent)
  local s = redis.call('HMGET', spent, 'mh', 'mv')
  redis.call('HSET', spent, 'seen', (s[1] or '') .. ' ' .. (s[2] or ''))
end
local function hold(spent, month, costs)
  for token, cost in pairs(costs) do
    local text = redis.call('HGET', spent, token)
    local key = text and read_key(text)
    if key and key.month == month then
      key.held = key.held + cost
      redis.call('HSET', spent, token, key_text(key))
    elseif text then
      redis.call('HDEL', spent, token)
    end
  end
end
"#;

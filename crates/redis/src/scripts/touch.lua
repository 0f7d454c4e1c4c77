-- Records that a log was used. Returns 0 if the log does not exist.
--
-- KEYS: the log, and all keys of the session that expire together
-- ARGV: the time, and milliseconds to live or nothing
if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
local used = redis.call('HGET', KEYS[1], 'used')
if not used or tonumber(used) < tonumber(ARGV[1]) then
    redis.call('HSET', KEYS[1], 'used', ARGV[1])
end
if ARGV[2] ~= '' then
    -- All keys expire at the same moment.
    local now = redis.call('TIME')
    local moment = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[2])
    for i = 1, #KEYS do
        redis.call('PEXPIREAT', KEYS[i], moment)
    end
end
return 1

-- Returns the length of a log, and its newest checkpoint up to a limit or -1; nothing if the log does not exist.
--
-- KEYS: the log, its checkpoints
-- ARGV: the limit
local length = redis.call('HGET', KEYS[1], 'length')
if not length then
    return false
end
local newest = redis.call('ZREVRANGEBYSCORE', KEYS[2], ARGV[1], '-inf', 'LIMIT', 0, 1)[1]
return {tonumber(length), tonumber(newest or -1)}

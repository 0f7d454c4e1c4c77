-- Returns the length of a log, its newest checkpoint or -1, and its records from there on; nothing if there is no log.
--
-- KEYS: the log, its records, its checkpoints
local length = redis.call('HGET', KEYS[1], 'length')
if not length then
    return false
end
local newest = redis.call('ZREVRANGE', KEYS[3], 0, 0)[1]
return {tonumber(length), tonumber(newest or -1), redis.call('LRANGE', KEYS[2], newest or 0, -1)}

-- Returns the numbers of records and texts in a log's hash, and those in its lists; nothing if the log does not exist.
--
-- KEYS: the log, its records, its texts
local says = redis.call('HMGET', KEYS[1], 'length', 'texts')
if not says[1] then
    return false
end
return {tonumber(says[1]), tonumber(says[2] or 0), redis.call('LLEN', KEYS[2]), redis.call('LLEN', KEYS[3])}

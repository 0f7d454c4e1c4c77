-- Appends records to a log if it ends where the writer believes. Without records, it only asks. Returns -1 if the log
-- has them now, and the length of the log otherwise. A repeated append finds its own records by its key, which is their
-- first eight bytes.
--
-- KEYS: the log, its records, its checkpoints, its texts, all keys of the session that expire together, and, if a name
--       is given, the names of the namespace, and the namespaces
-- ARGV: 1 the position, 2 the time or nothing, 3 the bytes of the bodies, 4 milliseconds to live or nothing,
--       5 the name or nothing, 6 the namespace, 7 the number of records, 8 the number of checkpoints,
--       9 the key of the append, then the records, the checkpoints, and the texts
local log, records, checkpoints, texts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local at, time, name, scope = ARGV[1], ARGV[2], ARGV[5], ARGV[6]
local FIRST = 10
local expiring = #KEYS
if name ~= '' then
    expiring = #KEYS - 2
end

local length = redis.call('HGET', log, 'length')
if not length then
    length = '0'
    if ARGV[7] ~= '0' then
        -- Other keys of an earlier log may still exist, if the server deleted this one by itself.
        redis.call('UNLINK', records, checkpoints, texts)
    end
end
if length ~= at then
    local there = tonumber(at) < tonumber(length) and redis.call('LINDEX', records, at)
    if not there or string.sub(there, 1, 8) ~= ARGV[9] then
        return tonumber(length)
    end
    -- This changes nothing, but `WAIT` waits for it, and so for the earlier append.
    redis.call('HINCRBY', log, 'length', 0)
    return -1
end

if ARGV[7] == '0' then
    return -1
end

local behind = FIRST + tonumber(ARGV[7])
for i = FIRST, behind - 1 do
    redis.call('RPUSH', records, ARGV[i])
end
local first_text = behind + tonumber(ARGV[8])
for i = behind, first_text - 1 do
    redis.call('ZADD', checkpoints, ARGV[i], ARGV[i])
end
for i = first_text, #ARGV do
    redis.call('RPUSH', texts, ARGV[i])
end
redis.call('HINCRBY', log, 'length', ARGV[7])
redis.call('HINCRBY', log, 'bytes', ARGV[3])
redis.call('HINCRBY', log, 'texts', #ARGV - first_text + 1)
if time ~= '' then
    if length == '0' then
        redis.call('HSET', log, 'created', time)
    end
    local used = redis.call('HGET', log, 'used')
    if not used or tonumber(used) < tonumber(time) then
        redis.call('HSET', log, 'used', time)
    end
end
if name ~= '' then
    redis.call('ZADD', KEYS[#KEYS - 1], 0, name)
    if scope ~= '' then
        redis.call('ZADD', KEYS[#KEYS], 0, scope)
    end
end
if ARGV[4] ~= '' then
    -- All keys expire at the same moment. An append without a time is not a use, and keeps the old moment.
    local now = redis.call('TIME')
    local moment = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[4])
    if time == '' and length ~= '0' then
        moment = redis.call('PEXPIRETIME', log)
    end
    for i = 1, expiring do
        redis.call('PEXPIREAT', KEYS[i], moment)
    end
end
return -1

-- Returns the length of a log, and its records in each of these spans.
--
-- KEYS: the log, its records
-- ARGV: the first and the last position of each span
local answer = {tonumber(redis.call('HGET', KEYS[1], 'length') or 0)}
for i = 1, #ARGV, 2 do
    answer[#answer + 1] = redis.call('LRANGE', KEYS[2], ARGV[i], ARGV[i + 1])
end
return answer

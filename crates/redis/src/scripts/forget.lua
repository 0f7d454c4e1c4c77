-- Removes the names of logs that do not exist from their namespace.
--
-- KEYS: the names, and each log
-- ARGV: the name of each log
for i = 1, #ARGV do
    if redis.call('EXISTS', KEYS[i + 1]) == 0 then
        redis.call('ZREM', KEYS[1], ARGV[i])
    end
end
return #ARGV

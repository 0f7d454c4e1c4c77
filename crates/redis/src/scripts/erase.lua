-- Erases logs, and removes their names from their namespace.
--
-- KEYS: the four keys of each log, and, if names are given, the names of the namespace
-- ARGV: the name of each log, or none
local last = #KEYS
if #ARGV > 0 then
    last = last - 1
end
for i = 1, last do
    redis.call('UNLINK', KEYS[i])
end
for i = 1, #ARGV do
    redis.call('ZREM', KEYS[#KEYS], ARGV[i])
end
return last

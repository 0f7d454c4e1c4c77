-- Replaces records with tombstones, and empties their texts. A record keeps its key.
--
-- KEYS: the log, its records, its texts
-- ARGV: for each record its position, the checksum that it must have, the checksum and the body of the tombstone, the
--       index of its text or -1, and the new text
local longer = 0
for i = 1, #ARGV, 5 do
    local there = redis.call('LINDEX', KEYS[2], ARGV[i])
    if there and string.sub(there, 9, 16) == ARGV[i + 1] then
        redis.call('LSET', KEYS[2], ARGV[i], string.sub(there, 1, 8) .. ARGV[i + 2])
        longer = longer + 8 + #ARGV[i + 2] - #there
        local text = ARGV[i + 3] ~= '-1' and redis.call('LINDEX', KEYS[3], ARGV[i + 3])
        -- A text begins with its position.
        if text and string.sub(text, 1, 8) == string.sub(ARGV[i + 4], 1, 8) then
            redis.call('LSET', KEYS[3], ARGV[i + 3], ARGV[i + 4])
        end
    end
end
if longer ~= 0 then
    redis.call('HINCRBY', KEYS[1], 'bytes', longer)
end
return #ARGV

package ducklake.statistics;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Deleted rows of files as bits, by what they come from: delete files never change, so that they are read once. Those
 * that were used last are kept, as long as there is room for them.
 */
class DeletedRows {
    /** In numbers of 64 bits. */
    private static final long ROOM = Math.min(8L << 20, Runtime.getRuntime().maxMemory() >> 8);
    private static final LinkedHashMap KNOWN = new LinkedHashMap(16, 0.75f, true);
    private static long held = 0;

    private static synchronized long[] find(String key) { return (long[]) KNOWN.get(key); }
    private static synchronized void keep(String key, long[] bits) {
        if (bits.length > ROOM / 4 || KNOWN.containsKey(key)) return;
        KNOWN.put(key, bits);
        held += bits.length;
        Iterator oldest = KNOWN.values().iterator();
        while (held > ROOM) {
            held -= ((long[]) oldest.next()).length;
            oldest.remove();
        }
    }

    /** The bits of each key; Python says those that are not here. */
    static Map of(List keys, LakeFiles files) {
        Map found = new java.util.HashMap();
        List missing = new ArrayList();
        for (int i = 0; i < keys.size(); i++) {
            long[] bits = find((String) keys.get(i));
            if (bits == null) missing.add(keys.get(i));
            else found.put(keys.get(i), bits);
        }
        if (missing.isEmpty()) return found;
        // For each its length, below zero where it is not to be kept, and its numbers.
        ByteBuffer given = ByteBuffer.wrap(files.deleted(missing));
        for (int i = 0; i < missing.size(); i++) {
            long length = given.getLong();
            long[] bits = new long[(int) (length < 0 ? -1 - length : length)];
            given.asLongBuffer().get(bits);
            given.position(given.position() + 8 * bits.length);
            if (length >= 0) keep((String) missing.get(i), bits);
            found.put(missing.get(i), bits);
        }
        return found;
    }
}

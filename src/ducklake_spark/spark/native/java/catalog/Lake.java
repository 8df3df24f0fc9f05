package ducklake.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.unsafe.Platform;

/** An attached lake: asks Python. Java knows of a lake what its answers say, and keeps nothing. */
public class Lake {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String MARK = "\u0001";
    /** The lakes of this process by name; the one that was attached last. */
    static final Map ATTACHED = new java.util.concurrent.ConcurrentHashMap();

    final String name;
    final BiFunction python;

    /** Plans of the tables that were read last, by handle: each a map of plans by virtual columns. */
    private final java.util.LinkedHashMap plans = new java.util.LinkedHashMap(16, 0.75f, true);
    private static final int KEPT = 50;

    Map plansOf(String handle) {
        synchronized (this.plans) {
            Map found = (Map) this.plans.get(handle);
            if (found == null) {
                found = new java.util.HashMap();
                this.plans.put(handle, found);
                if (this.plans.size() > KEPT) {
                    java.util.Iterator oldest = this.plans.keySet().iterator();
                    oldest.next();
                    oldest.remove();
                }
            }
            return found;
        }
    }

    Lake(String name, BiFunction python) { this.name = name; this.python = python; }

    static Lake named(String name) {
        Lake found = (Lake) ATTACHED.get(name);
        if (found == null)
            throw failure("ducklake_spark.errors.ClosedError: The lake \"" + name + "\" was closed. Attach it again.");
        return found;
    }

    /** Python's threads are not those of users, Spark's local properties are: they say whose transaction it is. */
    Object ask(String what, Map facts, Object[] objects) {
        scala.Option context = org.apache.spark.SparkContext$.MODULE$.getActive();
        String thread = context.isEmpty() ? null
            : ((SparkContext) context.get()).getLocalProperty("ducklake.transaction." + this.name);
        Object answer = this.python.apply(
            what + MARK + (thread == null ? "" : thread) + MARK + text(facts), objects);
        if (answer instanceof Throwable) Platform.throwException((Throwable) answer);
        if (answer instanceof String && ((String) answer).startsWith(MARK)) {
            String[] parts = ((String) answer).split(MARK, 3);
            Platform.throwException(exception(parts[1], parts[2], facts));
        }
        return answer;
    }

    Object ask(String what, Map facts) { return ask(what, facts, null); }

    Facts facts(String what, Map facts) { return new Facts((Map) value((String) ask(what, facts))); }

    String[] names(String what, Map facts) {
        return (String[]) ((java.util.List) value((String) ask(what, facts))).toArray(new String[0]);
    }

    boolean flag(String what, Map facts) { return ((Boolean) ask(what, facts)).booleanValue(); }

    static Object value(String json) {
        try { return JSON.readValue(json, Object.class); }
        catch (java.io.IOException e) { throw new RuntimeException(e); }
    }

    static String text(Object value) {
        try { return JSON.writeValueAsString(value); }
        catch (java.io.IOException e) { throw new RuntimeException(e); }
    }

    static Throwable exception(String kind, String message, Map facts) {
        String[] namespace = facts.get("namespace") == null ? new String[0] : (String[]) facts.get("namespace");
        Identifier ident = facts.get("name") == null ? null : Identifier.of(namespace, (String) facts.get("name"));
        if (kind.equals("NoSuchTable")) return new NoSuchTableException(ident);
        if (kind.equals("TableExists")) return new TableAlreadyExistsException(ident);
        if (kind.equals("NoSuchNamespace")) return new NoSuchNamespaceException(namespace);
        if (kind.equals("NamespaceExists")) return new NamespaceAlreadyExistsException(namespace);
        if (kind.equals("NonEmptyNamespace")) return new NonEmptyNamespaceException(namespace);
        if (kind.equals("Fault")) return new IllegalStateException(message);
        return failure(message);
    }

    /** PySpark shows an AnalysisException by its message alone; ours is made an error of the package there. */
    static RuntimeException failure(String message) {
        Platform.throwException(new org.apache.spark.sql.AnalysisException(message, scala.Option.empty(),
            scala.Option.empty(), scala.Option.empty(), scala.Option.apply(null),
            scala.collection.immutable.Map$.MODULE$.empty(), new org.apache.spark.QueryContext[0]));
        return null;
    }
}

/** A JSON object of an answer. */
class Facts {
    final Map all;
    Facts(Map all) { this.all = all; }
    String text(String key) { return (String) this.all.get(key); }
    boolean flag(String key) { return Boolean.TRUE.equals(this.all.get(key)); }
    java.util.List items(String key) { return (java.util.List) this.all.get(key); }
    Map map(String key) { return (Map) this.all.get(key); }

    /** A question's facts, by names and values in turn. */
    static Map of(Object[] pairs) {
        Map made = new java.util.LinkedHashMap();
        for (int i = 0; i < pairs.length; i += 2) made.put(pairs[i], pairs[i + 1]);
        return made;
    }
    static Map of(Identifier ident) {
        return of(new Object[] {"namespace", ident.namespace(), "name", ident.name()});
    }
    static Map of(Identifier ident, Object[] pairs) {
        Map made = of(ident);
        made.putAll(of(pairs));
        return made;
    }
}

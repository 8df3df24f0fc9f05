package ducklake.statistics;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Collections;
import java.util.function.BiFunction;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The files of a relation, which Python lists for a query's filters. What Spark asks many times for each query is known
 * here: a question to Python, and what that asks in turn, takes as long as all the rest of planning.
 */
public class LakeFiles implements FileIndex {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final StructType NO_COLUMNS = new StructType();
    static final InternalRow NO_VALUES = new GenericInternalRow(new Object[0]);
    private static final scala.collection.immutable.Map NO_FACTS =
        (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
    final BiFunction python;
    private final String title;
    private final String token;
    final int total;
    private final long size;
    /** Whether the catalog has statistics of the files. */
    final boolean isCounted;
    /** How many rows are wanted of it, whichever; -1 for all. */
    private int wanted = -1;
    private final java.util.Map known = new java.util.HashMap();
    private volatile String shown;

    LakeFiles(BiFunction python, String title, String token, int total, long size, boolean isCounted) {
        this.python = python;
        this.title = title;
        this.token = token;
        this.total = total;
        this.size = size;
        this.isCounted = isCounted;
        this.shown = title + ": " + total + " files";
    }

    public scala.collection.immutable.Seq listFiles(scala.collection.immutable.Seq partitionFilters,
            scala.collection.immutable.Seq dataFilters) {
        java.util.List trees = new ArrayList();
        for (int i = 0; i < dataFilters.size(); i++) trees.add(tree((Expression) dataFilters.apply(i)));
        boolean isWhole = this.wanted < 0 || dataFilters.size() > 0;
        java.util.List listed = (java.util.List) (isWhole ? asked("files", text(trees)) : asked("first", text(Integer.valueOf(this.wanted))));
        java.util.List keys = new ArrayList();
        for (int i = 0; i < listed.size(); i++)
            if (((java.util.List) listed.get(i)).size() > 3) keys.add(((java.util.List) listed.get(i)).get(3));
        java.util.Map deleted = keys.isEmpty() ? Collections.EMPTY_MAP : DeletedRows.of(keys, this);
        java.util.List found = new ArrayList();
        for (int i = 0; i < listed.size(); i++) {
            java.util.List file = (java.util.List) listed.get(i);
            FileStatus status = new FileStatus(((Number) file.get(1)).longValue(), false, 1, 128L << 20,
                ((Number) file.get(2)).longValue(), new Path((String) file.get(0)));
            found.add(new FileStatusWithMetadata(status, file.size() > 3
                ? (scala.collection.immutable.Map) NO_FACTS.updated(LakeParquet.DELETED, deleted.get(file.get(3))) : NO_FACTS));
        }
        this.shown = this.title + ": " + found.size() + " of " + this.total + " files";
        return one(new PartitionDirectory(NO_VALUES, scala.jdk.javaapi.CollectionConverters.asScala(found).toList()));
    }
    /** Bits of files, as Python packs them. */
    byte[] deleted(java.util.List keys) { return (byte[]) this.python.apply("deleted", text(keys)); }

    /** For another query: what the last one kept is not shown in its plan. */
    private void begin() { this.shown = this.title + ": " + this.total + " files"; }
    public static void beginIn(LogicalPlan plan) {
        if (plan instanceof LogicalRelation && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation) {
            FileIndex index = ((HadoopFsRelation) ((LogicalRelation) plan).relation()).location();
            if (index instanceof LakeFiles) ((LakeFiles) index).begin();
        }
        for (int i = 0; i < plan.children().size(); i++) beginIn((LogicalPlan) plan.children().apply(i));
    }

    public String[] inputFiles() { return (String[]) ((java.util.List) asked("paths", "")).toArray(new String[0]); }
    /** Nothing is ever read from here; it is the one text of the index that a plan shows. */
    public scala.collection.immutable.Seq rootPaths() {
        String text = this.shown.replace(':', ' ').replace('/', ' ').trim();
        return one(new Path(text.isEmpty() ? "lake" : text));
    }
    public void refresh() {}
    public long sizeInBytes() { return this.size; }
    public StructType partitionSchema() { return NO_COLUMNS; }
    public String toString() { return this.shown; }
    public int hashCode() { return this.token.hashCode(); }
    public boolean equals(Object other) {
        return other instanceof LakeFiles && ((LakeFiles) other).token.equals(this.token);
    }

    /** The same files, for who wants so many of their rows, whichever; nobody has statistics of those. */
    LakeFiles first(int rows) {
        LakeFiles made = new LakeFiles(this.python, this.title, this.token + " first " + rows, this.total, this.size, false);
        made.wanted = rows;
        return made;
    }

    /** What Python answers to a question about these files, which stay the same; an optimizer asks again and again. */
    Object known(String what, java.util.List argument) {
        java.util.List question = new ArrayList(argument);
        question.add(what);
        synchronized (this.known) {
            if (!this.known.containsKey(question)) this.known.put(question, asked(what, text(argument)));
            return this.known.get(question);
        }
    }

    private Object asked(String what, String argument) {
        try { return JSON.readValue((String) this.python.apply(what, argument), Object.class); }
        catch (java.io.IOException e) { throw new RuntimeException(e); }
    }
    private static String text(Object value) {
        try { return JSON.writeValueAsString(value); }
        catch (java.io.IOException e) { throw new RuntimeException(e); }
    }
    private static scala.collection.immutable.Seq one(Object item) {
        return scala.jdk.javaapi.CollectionConverters.asScala(Collections.singletonList(item)).toList();
    }

    /** A filter as JSON, and beside it for each of its nodes what the JSON does not say; null for one that has no JSON. */
    private static Object tree(Expression filter) {
        try {
            java.util.List made = new ArrayList();
            java.util.List values = new ArrayList();
            made.add(filter.toJSON());
            made.add(values);
            addValues(filter, values);
            return made;
        } catch (Exception e) {
            return null;  // It decides nothing, and Spark evaluates it anyway.
        }
    }
    /** Sets are left out of the JSON, days and instants are shown in some zone. */
    private static void addValues(Expression each, java.util.List values) {
        if (each instanceof InSet) {
            java.util.List items = new ArrayList();
            scala.collection.Iterator all = ((InSet) each).hset().iterator();
            while (all.hasNext()) items.add(String.valueOf(all.next()));
            values.add(items);
        } else if (each instanceof Literal && ((Literal) each).value() != null
                && (each.dataType().equals(DataTypes.DateType) || each.dataType().equals(DataTypes.TimestampType)))
            values.add(((Literal) each).value().toString());
        else values.add(null);
        for (int i = 0; i < each.children().size(); i++) addValues((Expression) each.children().apply(i), values);
    }
}

package ducklake;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.function.BiFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** The format "ducklake": Spark finds a format of this name by the name of this class. Python answers. */
public class DefaultSource
    implements StreamSourceProvider, StreamSinkProvider, RelationProvider, CreatableRelationProvider {

    public void answer(BiFunction answers) { Python.answers = answers; }

    /** Lets queries of a session, and of those made from it, read tables by the lake's own plan. */
    public void install(org.apache.spark.sql.classic.SparkSession session) throws Exception {
        synchronized (DefaultSource.class) {
            if (!FormatRuleOf.isIn(session.extensions()))
                session.extensions().injectOptimizerRule(new FormatRuleOf());
        }
    }

    public scala.Tuple2 sourceSchema(SQLContext context, scala.Option schema, String provider,
            scala.collection.immutable.Map options) {
        return new scala.Tuple2("ducklake", Python.schema(Python.ask("stream_schema", new Object[] {
            Python.json(options), Python.given(schema)})));
    }

    public Source createSource(SQLContext context, String place, scala.Option schema, String provider,
            scala.collection.immutable.Map options) {
        return new LakeSource(Python.map(Python.ask("open_stream", new Object[] {Python.json(options)})));
    }

    public Sink createSink(SQLContext context, scala.collection.immutable.Map options,
            scala.collection.immutable.Seq keys, OutputMode mode) {
        return new LakeSink(context, Python.json(options), Python.list(keys), String.valueOf(mode));
    }

    public BaseRelation createRelation(SQLContext context, scala.collection.immutable.Map options) {
        return new LakeRelation(context, (Dataset) Python.ask("read", new Object[] {
            Python.json(options), Python.transactions()}));
    }

    public BaseRelation createRelation(SQLContext context, SaveMode mode,
            scala.collection.immutable.Map options, Dataset rows) {
        return new LakeRelation(context, (Dataset) Python.ask("write", new Object[] {
            Python.json(options), String.valueOf(mode), rows, Python.transactions()}));
    }
}

/** Python's side; an answer that begins with \u0001 is an error. */
class Python {
    static volatile BiFunction answers;
    static final ObjectMapper MAPPER = new ObjectMapper();
    private static final String TRANSACTION = "ducklake.transaction.";

    static Object ask(String question, Object[] arguments) {
        BiFunction asked = answers;
        if (asked == null)
            throw new IllegalStateException(
                "The format ducklake is not known to this session: call ducklake_spark.register(spark) in Python.");
        Object answer = asked.apply(question, arguments);
        if (answer instanceof String && ((String) answer).startsWith("\u0001")) {
            String[] parts = ((String) answer).split("\u0001", 3);
            throw new RuntimeException(parts[2]);
        }
        return answer;
    }

    /** Python's threads are not those of users: what the user's has begun, by lake, as Spark's local properties say it. */
    static String transactions() {
        java.util.Map found = new java.util.HashMap();
        scala.Option context = org.apache.spark.SparkContext$.MODULE$.getActive();
        java.util.Properties known = context.isEmpty() ? null
            : ((org.apache.spark.SparkContext) context.get()).getLocalProperties();
        java.util.Iterator names = known == null ? java.util.Collections.emptyIterator()
            : known.stringPropertyNames().iterator();
        while (names.hasNext()) {
            String name = (String) names.next();
            if (name.startsWith(TRANSACTION)) found.put(name.substring(TRANSACTION.length()), known.getProperty(name));
        }
        return text(found);
    }

    static String json(scala.collection.immutable.Map options) {
        return text(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) options));
    }

    static String list(scala.collection.immutable.Seq names) {
        return text(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Seq) names));
    }

    static String text(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    static java.util.Map map(Object text) {
        try {
            return (java.util.Map) MAPPER.readValue((String) text, java.util.Map.class);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    static String given(scala.Option schema) {
        return schema.isEmpty() ? null : ((StructType) schema.get()).json();
    }

    static StructType schema(Object json) { return (StructType) DataType.fromJson((String) json); }
}

class LakeOffset extends Offset {
    final String json;
    LakeOffset(String json) { this.json = json; }
    public String json() { return this.json; }
}

class LakeSource implements Source, SupportsAdmissionControl, SupportsTriggerAvailableNow, ReportsSourceMetrics {
    final String id;
    final String title;
    LakeSource(java.util.Map opened) {
        this.id = (String) opened.get("id");
        this.title = (String) opened.get("title");
    }

    public StructType schema() { return Python.schema(Python.ask("schema", new Object[] {this.id})); }

    public scala.Option getOffset() {
        throw new UnsupportedOperationException("A stream of a lake says its offset as latestOffset.");
    }
    public ReadLimit getDefaultReadLimit() { return ReadLimit.maxFiles(1); }
    public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
            org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
        Object json = Python.ask("latest", new Object[] {
            this.id, start == null ? null : start.json(), Boolean.valueOf(!(limit instanceof ReadAllAvailable))});
        return json == null ? null : new LakeOffset((String) json);
    }
    public org.apache.spark.sql.connector.read.streaming.Offset reportLatestOffset() {
        Object json = Python.ask("newest", new Object[] {this.id});
        return json == null ? null : new LakeOffset((String) json);
    }
    public void prepareForTriggerAvailableNow() { Python.ask("stop_at_newest", new Object[] {this.id}); }
    public Dataset getBatch(scala.Option start, Offset end) {
        String from = start.isEmpty() ? null : ((Offset) start.get()).json();
        return (Dataset) Python.ask("batch", new Object[] {this.id, from, end.json()});
    }
    public java.util.Map metrics(java.util.Optional consumed) {
        return Python.map(Python.ask("metrics", new Object[] {this.id}));
    }
    public void stop() { Python.ask("close", new Object[] {this.id}); }
    public String toString() { return this.title; }
}

class LakeSink implements Sink {
    final SQLContext context;
    final String options;
    final String keys;
    final String mode;
    final String title;
    LakeSink(SQLContext context, String options, String keys, String mode) {
        this.context = context;
        this.options = options;
        this.keys = keys;
        this.mode = mode;
        this.title = (String) Python.ask("check_sink", new Object[] {options, keys, mode});
    }

    public void addBatch(long batch, Dataset rows) {
        String query = this.context.sparkContext().getLocalProperty("sql.streaming.queryId");
        Python.ask("add", new Object[] {this.options, this.keys, this.mode, query, Long.valueOf(batch), rows});
    }
    public String toString() { return this.title; }
}

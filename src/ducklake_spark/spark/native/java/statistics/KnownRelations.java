package ducklake.statistics;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat$;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable$;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeMap;
import org.apache.spark.sql.catalyst.expressions.AttributeMap$;
import org.apache.spark.sql.catalyst.plans.logical.ColumnStat;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.plans.logical.statsEstimation.EstimationUtils;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;

/** Relations of files whose statistics the catalog knows. Spark's optimizer finds them where it has those of its tables. */
public class KnownRelations {
    public KnownRelations() {}

    /**
     * A DataFrame over files that Python lists. Options are names and values in turn; names are the lake, the schema and
     * the table, or none for files of which nobody has statistics; rows are fewer than none where it takes a question to
     * count them; files with deletes are read without the rows that are deleted.
     */
    public Object frame(org.apache.spark.sql.classic.SparkSession session, BiFunction python, String title, String token,
            int total, long size, long rows, String schema, String options, String names, boolean isStreaming,
            boolean hasDeletes) throws Exception {
        java.util.List parts = (java.util.List) LakeStatistics.JSON.readValue(names, Object.class);
        LakeFiles index = new LakeFiles(python, title, token, total, size, !parts.isEmpty());
        scala.collection.immutable.Map given = (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
        java.util.Iterator each = ((java.util.Map) LakeStatistics.JSON.readValue(options, Object.class)).entrySet().iterator();
        while (each.hasNext()) {
            java.util.Map.Entry option = (java.util.Map.Entry) each.next();
            given = (scala.collection.immutable.Map) given.updated(option.getKey(), option.getValue());
        }
        HadoopFsRelation files = new HadoopFsRelation(index, index.partitionSchema(), (StructType) DataType.fromJson(schema),
            scala.Option.empty(), hasDeletes ? new LakeParquet() : new ParquetFileFormat(), given, session);
        LogicalPlan plan = parts.isEmpty() ? LogicalRelation$.MODULE$.apply(files, isStreaming)
            : relation(files, python, parts, size, rows);
        return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(session, plan);
    }

    private static LogicalPlan relation(HadoopFsRelation files, BiFunction python, java.util.List names, long size, long rows)
            throws Exception {
        TableIdentifier name = new TableIdentifier((String) names.get(2), new scala.Some(names.get(1)),
            new scala.Some(names.get(0)));
        scala.Option known = rows < 0 ? scala.Option.empty() : new scala.Some(scala.math.BigInt.apply(rows));
        CatalogStatistics statistics = new LakeStatistics(scala.math.BigInt.apply(size), known, python);
        return LogicalRelation$.MODULE$.apply(files, described(name, files.schema(), new scala.Some(statistics)));
    }

    private static java.lang.reflect.Constructor made;
    private static Object[] defaults;
    private static int place;

    /** What differs between versions of Spark has defaults. */
    private static synchronized CatalogTable described(TableIdentifier name, StructType schema, Object statistics)
            throws Exception {
        if (made == null) {
            made = CatalogTable.class.getConstructors()[0];
            defaults = new Object[made.getParameterTypes().length];
            defaults[1] = CatalogTableType$.MODULE$.MANAGED();
            defaults[2] = CatalogStorageFormat$.MODULE$.empty();
            defaults[4] = new scala.Some("ducklake");
            for (int i = 5; i < defaults.length; i++)
                defaults[i] = CatalogTable$.MODULE$.getClass().getMethod("apply$default$" + (i + 1), new Class[0])
                    .invoke(CatalogTable$.MODULE$, new Object[0]);
            CatalogTable any = made(name, schema);
            while (!any.productElementName(place).equals("stats")) place++;
        }
        Object[] values = values(name, schema);
        values[place] = statistics;
        return (CatalogTable) made.newInstance(values);
    }
    private static CatalogTable made(TableIdentifier name, StructType schema) throws Exception {
        return (CatalogTable) made.newInstance(values(name, schema));
    }
    private static Object[] values(TableIdentifier name, StructType schema) {
        Object[] values = (Object[]) defaults.clone();
        values[0] = name;
        values[3] = schema;
        return values;
    }
}

/**
 * Bytes and rows of a relation; more is asked, once, where Spark wants statistics of columns. Without those it wants the
 * bytes only, and gets the rows where they are known.
 */
class LakeStatistics extends CatalogStatistics {
    static final ObjectMapper JSON = new ObjectMapper();
    private final BiFunction python;
    private java.util.Map answer;

    LakeStatistics(scala.math.BigInt size, scala.Option rows, BiFunction python) {
        super(size, rows, (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty());
        this.python = python;
    }

    public Statistics toPlanStats(scala.collection.immutable.Seq output, boolean withColumns) {
        if (!withColumns) return new Statistics(sizeInBytes(), rowCount(), AttributeMap$.MODULE$.empty(), false);
        java.util.Map known = asked();
        Object counted = known.get("rows");
        if (counted == null) return new Statistics(sizeInBytes(), rowCount(), AttributeMap$.MODULE$.empty(), false);
        scala.math.BigInt rows = scala.math.BigInt.apply(((Number) counted).longValue());
        java.util.Map columns = (java.util.Map) known.get("columns");
        java.util.List pairs = new ArrayList();
        for (int i = 0; i < output.size(); i++) {
            Attribute each = (Attribute) output.apply(i);
            Object found = columns.get(each.name());
            if (found != null) pairs.add(new scala.Tuple2(each, statistics((java.util.List) found, each.dataType())));
        }
        scala.collection.immutable.Seq all = scala.jdk.javaapi.CollectionConverters.asScala(pairs).toList();
        AttributeMap attributes = AttributeMap$.MODULE$.apply(all);
        return new Statistics(EstimationUtils.getOutputSize(output, rows, attributes), new scala.Some(rows), attributes, false);
    }

    private synchronized java.util.Map asked() {
        if (this.answer == null) {
            try { this.answer = (java.util.Map) JSON.readValue((String) this.python.apply("statistics", ""), Object.class); }
            catch (java.io.IOException e) { throw new RuntimeException(e); }
        }
        return this.answer;
    }

    /** Of the least, the greatest and the number of NULLs. */
    private static ColumnStat statistics(java.util.List given, DataType type) {
        scala.Option none = scala.Option.empty();
        Object nulls = scala.math.BigInt.apply(((Number) given.get(2)).longValue());
        return new ColumnStat(none, value(given.get(0), type), value(given.get(1), type), new scala.Some(nulls), none, none,
            none, 2);
    }
    private static scala.Option value(Object given, DataType type) {
        return given == null ? scala.Option.empty() : new scala.Some(known(given, type));
    }
    /** A value as Spark keeps it. */
    static Object known(Object given, DataType type) {
        if (given instanceof String)
            return Decimal.apply(new java.math.BigDecimal((String) given), ((DecimalType) type).precision(),
                ((DecimalType) type).scale());
        if (given instanceof Boolean) return given;
        Number number = (Number) given;
        return type.equals(DataTypes.ByteType) ? (Object) Byte.valueOf(number.byteValue())
            : type.equals(DataTypes.ShortType) ? (Object) Short.valueOf(number.shortValue())
            : type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType) ? (Object) Integer.valueOf(number.intValue())
            : type.equals(DataTypes.FloatType) ? (Object) Float.valueOf(number.floatValue())
            : type.equals(DataTypes.DoubleType) ? (Object) Double.valueOf(number.doubleValue())
            : (Object) Long.valueOf(number.longValue());
    }
    public int hashCode() { return System.identityHashCode(this); }
    public boolean equals(Object other) { return other == this; }
}

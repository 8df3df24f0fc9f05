package ducklake.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table, view or metadata table at a snapshot. Two that show the same rows are equal: caches compare plans by it. */
class LakeTable
    implements TruncatableTable, SupportsRead, SupportsWrite, SupportsMetadataColumns, V2TableWithV1Fallback {
    final Lake lake;
    final Facts facts;
    final String handle;
    /** What is done to the table, where that is more than to append rows: the analyzed statement. */
    final LogicalPlan command;
    private final Map plans;

    LakeTable(Lake lake, Facts facts, LogicalPlan command) {
        this.lake = lake;
        this.facts = facts;
        this.command = command;
        this.handle = facts.text("handle");
        // Where it follows the lake, it is at the newest snapshot: what was planned for others there holds for it.
        this.plans = facts.all.get("follows") == null || facts.text("plans") == null ? new HashMap()
            : lake.plansOf(facts.text("plans") + facts.text("schema"));
        if (facts.flag("eager") && command == null) plan(facts.items("virtual"));
    }

    public String name() { return this.facts.text("title"); }
    public String id() { return this.facts.text("id"); }
    /** Spark 4.1 and later: were it not null, a DataFrame would follow the table instead of staying at its snapshot. */
    public String version() { return null; }
    public StructType schema() { return (StructType) DataType.fromJson(this.facts.text("schema")); }
    public Map properties() { return this.facts.map("properties"); }

    public Transform[] partitioning() {
        java.util.List keys = this.facts.items("partitioning");
        Transform[] made = new Transform[keys.size()];
        for (int i = 0; i < made.length; i++) {
            java.util.List key = (java.util.List) keys.get(i);
            String kind = (String) key.get(0);
            String column = (String) key.get(1);
            if (kind.equals("identity")) made[i] = Expressions.identity(column);
            else if (kind.equals("bucket"))
                made[i] = Expressions.bucket(((Integer) key.get(2)).intValue(), new String[] {column});
            else if (kind.equals("year")) made[i] = Expressions.years(column);
            else if (kind.equals("month")) made[i] = Expressions.months(column);
            else if (kind.equals("day")) made[i] = Expressions.days(column);
            else made[i] = Expressions.hours(column);
        }
        return made;
    }

    public Set capabilities() {
        Set made = new HashSet(Arrays.asList(new Object[] {TableCapability.BATCH_READ}));
        if (this.facts.flag("writable"))
            made.addAll(Arrays.asList(new Object[] {TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE,
                TableCapability.OVERWRITE_BY_FILTER, TableCapability.OVERWRITE_DYNAMIC}));
        if (this.facts.flag("writable")) addIfKnown(made, "AUTOMATIC_SCHEMA_EVOLUTION");
        if (this.facts.flag("anySchema")) made.add(TableCapability.ACCEPT_ANY_SCHEMA);
        return made;
    }

    /** For streams only. */
    public org.apache.spark.sql.catalyst.catalog.CatalogTable v1Table() {
        return StreamTable.of(this.facts.items("names"), this.facts.text("path"), schema());
    }

    /** Of Spark 4.1 and later: statements WITH SCHEMA EVOLUTION alter the table first. */
    private static void addIfKnown(Set capabilities, String name) {
        TableCapability[] all = TableCapability.values();
        for (int i = 0; i < all.length; i++) if (all[i].name().equals(name)) capabilities.add(all[i]);
    }

    public MetadataColumn[] metadataColumns() {
        java.util.List names = this.facts.items("virtual");
        MetadataColumn[] made = new MetadataColumn[names.size()];
        for (int i = 0; i < made.length; i++) {
            java.util.List each = (java.util.List) names.get(i);
            made[i] = new VirtualColumn((String) each.get(0), DataType.fromDDL((String) each.get(1)));
        }
        return made;
    }

    /**
     * The plan of the table's DataFrame with these virtual columns; each time with ids of its own. A view, and a table
     * that a running transaction has changed, were asked for when they were loaded, and are what they were then.
     */
    LogicalPlan plan(java.util.List virtual) {
        synchronized (this.plans) { return planned(virtual); }
    }
    private LogicalPlan planned(java.util.List virtual) {
        String key = this.facts.flag("eager") ? "all" : Lake.text(virtual);
        LogicalPlan known = (LogicalPlan) this.plans.get(key);
        if (known == null) {
            Object frame = this.lake.ask("frame", Facts.of(new Object[] {"handle", this.handle, "virtual", virtual}));
            known = ((org.apache.spark.sql.classic.Dataset) frame).queryExecution().analyzed();
            this.plans.put(key, known);
            return known;
        }
        ducklake.statistics.LakeFiles.beginIn(known);
        return Plans.fresh(known);
    }

    public boolean truncateTable() {
        if (!this.facts.flag("writable"))
            throw Lake.failure("ducklake_spark.errors.InvalidInputError: " + name() + " is no table whose rows can be changed.");
        this.lake.ask("truncate", Facts.of(new Object[] {"handle", this.handle}));
        return true;
    }
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return new LakeScan(this); }
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new LakeWriteBuilder(this, info); }

    public String toString() { return name(); }
    public int hashCode() { return this.handle.hashCode(); }
    public boolean equals(Object other) {
        return other instanceof LakeTable && ((LakeTable) other).handle.equals(this.handle)
            && ((LakeTable) other).lake == this.lake && ((LakeTable) other).command == this.command;
    }
}

class VirtualColumn implements MetadataColumn {
    final String name;
    final DataType type;
    VirtualColumn(String name, DataType type) { this.name = name; this.type = type; }
    public String name() { return this.name; }
    public DataType dataType() { return this.type; }
    public boolean isNullable() { return true; }
    public String comment() { return "A virtual column of the lake."; }
}

/** What stands in plans until the optimizer puts the table's own plan there; it is never read. */
class LakeScan implements ScanBuilder, SupportsReportStatistics, Statistics {
    final LakeTable table;
    LakeScan(LakeTable table) { this.table = table; }
    public Scan build() { return this; }
    public StructType readSchema() { return this.table.schema(); }
    /** For those who ask before the optimizer has run: those of the plan that will stand there. */
    public Statistics estimateStatistics() { return this; }
    private org.apache.spark.sql.catalyst.plans.logical.Statistics known() {
        return this.table.plan(new java.util.ArrayList()).stats();
    }
    public OptionalLong sizeInBytes() { return OptionalLong.of(known().sizeInBytes().toLong()); }
    public OptionalLong numRows() {
        scala.Option rows = known().rowCount();
        return rows.isEmpty() ? OptionalLong.empty() : OptionalLong.of(((scala.math.BigInt) rows.get()).toLong());
    }
    public Batch toBatch() {
        throw new UnsupportedOperationException("The optimizer rule " + ReadRule.NAME + " did not run in this session.");
    }
}

class LakeWriteBuilder implements WriteBuilder, SupportsTruncate {
    final LakeTable table;
    final LogicalWriteInfo info;
    private boolean truncate;
    LakeWriteBuilder(LakeTable table, LogicalWriteInfo info) { this.table = table; this.info = info; }
    public WriteBuilder truncate() { this.truncate = true; return this; }
    public Write build() { return new LakeWrite(this.table, this.info, this.truncate); }
}

/** Spark's way to hand rows to a table that writes them itself. */
class LakeWrite implements V1Write, InsertableRelation {
    final LakeTable table;
    final LogicalWriteInfo info;
    final boolean truncate;
    LakeWrite(LakeTable table, LogicalWriteInfo info, boolean truncate) {
        this.table = table;
        this.info = info;
        this.truncate = truncate;
    }
    public InsertableRelation toInsertableRelation() { return this; }
    public void insert(org.apache.spark.sql.Dataset rows, boolean overwrite) {
        Map facts = Facts.of(new Object[] {"handle", this.table.handle, "truncate", Boolean.valueOf(this.truncate),
            "options", new HashMap(this.info.options().asCaseSensitiveMap())});
        java.util.List objects = new java.util.ArrayList();
        objects.add(rows);
        if (this.table.command != null) facts.put("command", Commands.described(this.table, objects));
        this.table.lake.ask("write", facts, objects.toArray());
    }
    public String description() {
        return this.table.command == null ? "append" : this.table.command.getClass().getSimpleName();
    }
    public String toString() { return "LakeWrite(" + this.table.name() + ", " + description() + ")"; }
}

/** CREATE TABLE AS and REPLACE TABLE: nothing happens before the rows are there, then all of it in one snapshot. */
class LakeStagedTable extends LakeTable implements StagedTable {
    LakeStagedTable(Lake lake, Facts facts) { super(lake, facts, null); }
    public void commitStagedChanges() { this.lake.ask("commitStaged", Facts.of(new Object[] {"handle", this.handle})); }
    public void abortStagedChanges() { this.lake.ask("abortStaged", Facts.of(new Object[] {"handle", this.handle})); }
    public org.apache.spark.sql.connector.metric.CustomTaskMetric[] reportDriverMetrics() {
        return new org.apache.spark.sql.connector.metric.CustomTaskMetric[0];
    }
}

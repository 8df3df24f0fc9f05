package ducklake.spark;

import java.util.ArrayList;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.AlterColumns;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeColumn;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTable;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTables;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ShowCreateTable;
import org.apache.spark.sql.catalyst.plans.logical.ShowPartitions;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.unsafe.types.UTF8String;

/** Statements on tables of a lake that Spark itself refuses: they are answered when they have been analyzed. */
class Answered {
    /** What stands in the place of such a statement, or null: it is none. */
    static LogicalPlan of(LogicalPlan plan) {
        String kind = plan.getClass().getSimpleName();
        if (kind.equals("CreateTableLike")) return like(plan);
        // Its child is a filter, of the rows that the constraint forbids.
        if (kind.equals("AddCheckConstraint")
                && Plans.relation(((LogicalPlan) ((scala.Product) plan).productElement(0)).children().apply(0)) != null)
            throw Lake.failure("ducklake_spark.errors.InvalidInputError: Tables of a lake have no CHECK constraints. "
                + "NOT NULL is what they have.");
        if (plan instanceof AnalyzeTables) return isOfLake(((AnalyzeTables) plan).child()) ? nothing() : null;
        if (!(plan instanceof AnalyzeTable || plan instanceof AnalyzeColumn || plan instanceof AlterColumns
                || plan instanceof ShowCreateTable || plan instanceof ShowPartitions)) return null;
        Object child = ((scala.Product) plan).productElement(0);
        if (!(child instanceof ResolvedTable) || !(((ResolvedTable) child).table() instanceof LakeTable)) return null;
        ResolvedTable on = (ResolvedTable) child;
        LakeTable table = (LakeTable) on.table();
        if (plan instanceof AlterColumns) return altered((AlterColumns) plan, on);
        if (plan instanceof ShowCreateTable) return shown((ShowCreateTable) plan, on, table);
        if (plan instanceof ShowPartitions)
            throw Lake.failure("ducklake_spark.errors.InvalidInputError: SHOW PARTITIONS is a statement for folders. "
                + "What a lake knows of its partitions stands in " + table.name() + ".partitions.");
        if (plan instanceof AnalyzeColumn) requireColumns((AnalyzeColumn) plan, table);
        return nothing();
    }
    private static boolean isOfLake(Object namespace) {
        return namespace instanceof ResolvedNamespace && ((ResolvedNamespace) namespace).catalog() instanceof LakeCatalog;
    }
    private static LogicalPlan local(Object output, Object rows) {
        return (LogicalPlan) Plans.make(LocalRelation.class, new Object[] {output, rows, Boolean.FALSE});
    }
    private static LogicalPlan nothing() { return local(Plans.NOTHING, Plans.NOTHING); }

    /** The statistics of a lake are written with its rows. */
    private static void requireColumns(AnalyzeColumn plan, LakeTable table) {
        if (plan.columnNames().isEmpty()) return;
        String[] known = table.schema().fieldNames();
        String[] names = EarlyRule.strings(plan.columnNames().get());
        for (int i = 0; i < names.length; i++) {
            boolean isThere = false;
            for (int j = 0; j < known.length; j++) isThere = isThere || known[j].equalsIgnoreCase(names[i]);
            if (!isThere)
                throw Lake.failure("ducklake_spark.errors.NotFoundError: The table " + table.name()
                    + " has no column \"" + names[i] + "\".");
        }
    }

    /** SET NOT NULL, which Spark takes for impossible: a lake looks whether there are NULLs. */
    private static LogicalPlan altered(AlterColumns plan, ResolvedTable on) {
        scala.collection.immutable.Seq changes = plan.changes();
        TableChange[] made = new TableChange[changes.size()];
        boolean requires = false;
        for (int i = 0; i < made.length; i++) {
            made[i] = (TableChange) changes.apply(i);
            requires = requires || made[i] instanceof TableChange.UpdateColumnNullability
                && !((TableChange.UpdateColumnNullability) made[i]).nullable();
        }
        if (!requires) return null;
        if (!Plans.isExplained()) ((LakeCatalog) on.catalog()).alterTable(on.identifier(), made);
        return nothing();
    }

    private static LogicalPlan shown(ShowCreateTable plan, ResolvedTable on, LakeTable table) {
        if (!"VIEW".equals(table.properties().get("table_type"))) return null;
        Object text = table.lake.ask("showView", Facts.of(on.identifier()));
        java.util.List rows = new ArrayList();
        rows.add(new GenericInternalRow(new Object[] {UTF8String.fromString((String) text)}));
        return local(plan.output(), Plans.list(rows));
    }

    /** CREATE TABLE LIKE, which is a statement for such catalogs from Spark 4.3 on. */
    private static LogicalPlan like(LogicalPlan plan) {
        Object child = ((scala.Product) plan).productElement(0);
        Object source = ((scala.Product) plan).productElement(1);
        if (!(child instanceof ResolvedIdentifier) || !(source instanceof ResolvedTable)) return null;
        ResolvedIdentifier as = (ResolvedIdentifier) child;
        if (!(as.catalog() instanceof LakeCatalog)) return null;
        LakeCatalog catalog = (LakeCatalog) as.catalog();
        ResolvedTable from = (ResolvedTable) source;
        org.apache.spark.sql.connector.catalog.Table table = from.table();
        if (table instanceof LakeTable && ((LakeTable) table).facts.flag("writable"))
            table = LakeCatalog.table(((LakeTable) table).lake, from.identifier(),
                new Object[] {"writes", Boolean.TRUE, "like", Boolean.TRUE});
        Map properties = new java.util.HashMap();
        if (table instanceof LakeTable) properties.putAll(table.properties());
        properties.remove("table_type");
        Object given = Changes.asked(plan, "properties");
        if (given != null)
            properties.putAll(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) given));
        scala.Option location = (scala.Option) Changes.asked(plan, "location");
        if (location != null && !location.isEmpty()) properties.put("location", location.get());
        scala.Option provider = (scala.Option) Changes.asked(plan, "provider");
        if (provider != null && !provider.isEmpty()) properties.put("provider", provider.get());
        else properties.remove("provider");
        if (Plans.isExplained()) return nothing();
        Identifier name = as.identifier();
        if (Boolean.TRUE.equals(Changes.asked(plan, "ifNotExists")) && catalog.tableExists(name)) return nothing();
        catalog.createTable(name, table.columns(), table.partitioning(), properties);
        return nothing();
    }
}

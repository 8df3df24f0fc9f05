package ducklake.spark;

import java.util.ArrayList;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.CurrentNamespace$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedStar;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.AlterViewAs;
import org.apache.spark.sql.catalyst.plans.logical.CreateView;
import org.apache.spark.sql.catalyst.plans.logical.DropView;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RenameTable;
import org.apache.spark.sql.catalyst.plans.logical.ShowViews;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What Spark would refuse before names are resolved: views, which it has in its own catalog only, functions of a lake in
 * FROM, and rows with columns that a table does not have, where the writer has the option mergeSchema.
 */
class EarlyRule extends Rule {
    private final org.apache.spark.sql.classic.SparkSession session;
    private final LakeQueries queries;
    EarlyRule(org.apache.spark.sql.classic.SparkSession session) {
        this.session = session;
        this.queries = new LakeQueries(this, session);
    }
    public String ruleName() { return "ducklake.spark.EarlyRule"; }

    public TreeNode apply(TreeNode tree) {
        LogicalPlan plan = this.queries.in((LogicalPlan) tree);
        if (plan instanceof CreateView || plan instanceof DropView) {
            Object child = ((scala.Product) plan).productElement(0);
            if (!(child instanceof UnresolvedIdentifier)) return plan;
            Named named = named(strings(((UnresolvedIdentifier) child).nameParts()));
            return named == null ? plan : changed(plan, named);
        }
        if (plan instanceof AlterViewAs || (plan instanceof RenameTable && ((RenameTable) plan).isView())) {
            Object parts = Changes.asked(((scala.Product) plan).productElement(0), "multipartIdentifier");
            Named named = parts == null ? null : named(strings(parts));
            return named == null ? plan : altered(plan, named);
        }
        if (plan instanceof ShowViews) return views((ShowViews) plan);
        if (plan instanceof InsertIntoStatement && FILLS_NOTHING) return filled((InsertIntoStatement) plan);
        if (plan instanceof V2WriteCommand) return merging(plan);
        return plan;
    }

    /** An object of a lake: its catalog and its name there. */
    static class Named {
        final LakeCatalog catalog;
        final Identifier ident;
        Named(LakeCatalog catalog, Identifier ident) { this.catalog = catalog; this.ident = ident; }
    }
    Named named(String[] parts) {
        CatalogManager manager = this.session.sessionState().catalogManager();
        if (parts.length > 1 && Lake.ATTACHED.containsKey(parts[0]) && manager.isCatalogRegistered(parts[0])) {
            CatalogPlugin found = manager.catalog(parts[0]);
            String[] namespace = (String[]) java.util.Arrays.copyOfRange(parts, 1, parts.length - 1);
            return found instanceof LakeCatalog
                ? new Named((LakeCatalog) found, Identifier.of(namespace, parts[parts.length - 1])) : null;
        }
        CatalogPlugin current = manager.currentCatalog();
        if (!(current instanceof LakeCatalog) || (parts.length > 1 && manager.isCatalogRegistered(parts[0]))) return null;
        String[] namespace = parts.length == 1 ? manager.currentNamespace()
            : (String[]) java.util.Arrays.copyOfRange(parts, 0, parts.length - 1);
        return new Named((LakeCatalog) current, Identifier.of(namespace, parts[parts.length - 1]));
    }
    static String[] strings(Object seq) {
        scala.collection.immutable.Seq given = (scala.collection.immutable.Seq) seq;
        String[] made = new String[given.size()];
        for (int i = 0; i < made.length; i++) made[i] = (String) given.apply(i);
        return made;
    }

    /** Spark 4.0 fills no columns of such catalogs that an INSERT leaves out: there they are named here, with defaults. */
    private static final boolean FILLS_NOTHING = org.apache.spark.package$.MODULE$.SPARK_VERSION().startsWith("4.0.");

    private LogicalPlan filled(InsertIntoStatement plan) {
        boolean listed = !plan.userSpecifiedCols().isEmpty();
        if (!(plan.table() instanceof UnresolvedRelation) || !(listed || plan.byName())) return plan;
        Named named = named(strings(((UnresolvedRelation) plan.table()).multipartIdentifier()));
        if (named == null) return plan;
        LogicalPlan query = listed ? plan.query() : org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(
            this.session, plan.query()).queryExecution().analyzed();
        java.util.List names = new ArrayList();
        java.util.List columns = new ArrayList();
        if (listed) {
            names.addAll(java.util.Arrays.asList(strings(plan.userSpecifiedCols())));
            columns.add(Plans.make(UnresolvedStar.class, new Object[] {scala.Option.empty()}));
        } else for (int i = 0; i < query.output().size(); i++) {
            names.add(((NamedExpression) query.output().apply(i)).name());
            columns.add(query.output().apply(i));
        }
        java.util.Set known = new java.util.TreeSet(String.CASE_INSENSITIVE_ORDER);
        known.addAll(names);
        scala.collection.Iterator keys = plan.partitionSpec().keysIterator();
        while (keys.hasNext()) known.add(keys.next());
        int before = columns.size();
        Table table = LakeCatalog.table(named.catalog.lake(), named.ident, new Object[] {"writes", Boolean.TRUE});
        StructField[] fields = ((LakeTable) table).schema().fields();
        for (int i = 0; i < fields.length; i++)
            if (!known.contains(fields[i].name()) && fields[i].metadata().contains("CURRENT_DEFAULT")) {
                names.add(fields[i].name());
                columns.add(new Alias((Expression) Changes.told(this.session.sessionState().sqlParser(), "parseExpression",
                    new Object[] {fields[i].metadata().getString("CURRENT_DEFAULT")}), fields[i].name(),
                    NamedExpression$.MODULE$.newExprId(), Plans.NOTHING, scala.Option.empty(), Plans.NOTHING));
            }
        if (columns.size() == before) return plan;
        Object made = Plans.with(plan, 3, new Project(Plans.list(columns), query));
        return (LogicalPlan) (listed ? Plans.with((scala.Product) made, 2, Plans.list(names)) : made);
    }

    /** Spark does this while it analyzes, as it does CALL; not for EXPLAIN. */
    private LogicalPlan changed(LogicalPlan plan, Named named) {
        boolean drops = plan instanceof DropView;
        Map facts = Facts.of(named.ident, new Object[] {
            "ifExists", drops ? Changes.asked(plan, "ifExists") : Boolean.FALSE});
        if (!drops) {
            java.util.List columns = new ArrayList();
            scala.collection.immutable.Seq given = (scala.collection.immutable.Seq) Changes.asked(plan, "userSpecifiedColumns");
            for (int i = 0; i < given.size(); i++) columns.add(((scala.Tuple2) given.apply(i))._1());
            facts.put("columns", columns);
            facts.put("text", option(Changes.asked(plan, "originalText")));
            facts.put("comment", option(Changes.asked(plan, "comment")));
            facts.put("ifNotExists", Changes.asked(plan, "allowExisting"));
            facts.put("orReplace", Changes.asked(plan, "replace"));
        }
        if (!Plans.isExplained()) named.catalog.lake().ask(drops ? "dropView" : "createView", facts);
        return local(Plans.NOTHING, Plans.NOTHING);
    }
    private LogicalPlan altered(LogicalPlan plan, Named named) {
        Map facts = Facts.of(named.ident, plan instanceof AlterViewAs
            ? new Object[] {"text", ((AlterViewAs) plan).originalText()}
            : new Object[] {"newName", strings(((RenameTable) plan).newName())});
        if (!Plans.isExplained()) named.catalog.lake().ask(plan instanceof AlterViewAs ? "alterView" : "renameView", facts);
        return local(Plans.NOTHING, Plans.NOTHING);
    }
    private static Object option(Object value) { return ((scala.Option) value).isEmpty() ? null : ((scala.Option) value).get(); }
    private static LogicalPlan local(Object output, Object rows) {
        return (LogicalPlan) Plans.make(LocalRelation.class, new Object[] {output, rows, Boolean.FALSE});
    }

    private LogicalPlan views(ShowViews plan) {
        Object where = ((scala.Product) plan).productElement(0);
        Named named = null;
        if (where instanceof UnresolvedNamespace) {
            String[] parts = strings(((UnresolvedNamespace) where).multipartIdentifier());
            String[] path = (String[]) java.util.Arrays.copyOf(parts, parts.length + 1);
            path[parts.length] = "";
            named = parts.length == 0 ? null : named(path);
        } else if (where == CurrentNamespace$.MODULE$ || where.getClass().getSimpleName().startsWith("CurrentNamespace"))
            named = named(new String[] {""});
        if (named == null) return plan;
        Object pattern = option(Changes.asked(plan, "pattern"));
        String[] names = named.catalog.lake().names("listViews",
            Facts.of(named.ident, new Object[] {"pattern", pattern}));
        java.util.List rows = new ArrayList();
        UTF8String namespace = UTF8String.fromString(
            named.ident.namespace().length == 0 ? "main" : named.ident.namespace()[0]);
        for (int i = 0; i < names.length; i++)
            rows.add(new GenericInternalRow(new Object[] {namespace, UTF8String.fromString(names[i]), Boolean.FALSE}));
        return local(plan.output(), Plans.list(rows));
    }

    private LogicalPlan merging(LogicalPlan plan) {
        Object options = Changes.asked(plan, "writeOptions");
        if (options == null || !Boolean.TRUE.equals(Changes.asked(plan, "isByName")) || !merges(options)) return plan;
        Object table = ((scala.Product) plan).productElement(0);
        DataSourceV2Relation relation = Plans.relation(table);
        if (relation == null && table instanceof UnresolvedRelation) {
            Named named = named(strings(((UnresolvedRelation) table).multipartIdentifier()));
            if (named == null) return plan;
            relation = (DataSourceV2Relation) Changes.told(DataSourceV2Relation$.MODULE$, "create", new Object[] {
                named.catalog.loadTable(named.ident), scala.Option.apply(named.catalog), scala.Option.apply(named.ident)});
        }
        if (relation == null || !(relation.table() instanceof LakeTable)) return plan;
        LakeTable known = (LakeTable) relation.table();
        if (known.facts.flag("anySchema") || known instanceof LakeStagedTable) return plan;
        Map facts = new java.util.HashMap(known.facts.all);
        facts.put("anySchema", Boolean.TRUE);
        Object any = Plans.with(relation, 0, new LakeTable(known.lake, new Facts(facts), known.command));
        return (LogicalPlan) Plans.with((scala.Product) plan, 0, any);
    }
    private static boolean merges(Object options) {
        scala.collection.Iterator each = ((scala.collection.immutable.Map) options).iterator();
        while (each.hasNext()) {
            scala.Tuple2 option = (scala.Tuple2) each.next();
            if ("mergeschema".equalsIgnoreCase((String) option._1()) && "true".equalsIgnoreCase((String) option._2()))
                return true;
        }
        return false;
    }
}

class EarlyRuleOf extends scala.runtime.AbstractFunction1 {
    public Object apply(Object session) { return new EarlyRule((org.apache.spark.sql.classic.SparkSession) session); }
}

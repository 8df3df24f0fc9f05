package ducklake.spark;

import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/** What Python calls. */
public class Plugin {
    public Plugin() {}

    /** Makes a lake known by its name, and lets a session have the rules; those that it makes have them too. */
    public Lake register(org.apache.spark.sql.classic.SparkSession session, String name, BiFunction python) throws Exception {
        Lake lake = new Lake(name, python);
        Lake.ATTACHED.put(name, lake);
        synchronized (Plugin.class) {
            if (!((scala.collection.mutable.Buffer) field(session.extensions(), "optimizerRules").get(session.extensions()))
                    .exists(new Is(ReadRuleOf.class))) {
                session.extensions().injectOptimizerRule(new ReadRuleOf());
                session.extensions().injectPostHocResolutionRule(new CommandRuleOf());
                session.extensions().injectHintResolutionRule(new EarlyRuleOf());
            }
            // This session's analyzer was made before: its lists of rules are replaced.
            add(session.sessionState().analyzer(), "hintResolutionRules", new EarlyRule(session));
            add(session.sessionState().analyzer(), "postHocResolutionRules", new CommandRule());
        }
        return lake;
    }
    private static void add(Object analyzer, String name, Object rule) throws Exception {
        java.lang.reflect.Field field = field(analyzer, name);
        scala.collection.immutable.Seq rules = (scala.collection.immutable.Seq) field.get(analyzer);
        if (!rules.exists(new Is(rule.getClass()))) field.set(analyzer, rules.appended(rule));
    }
    /** Forgets a lake, unless another one of its name was attached since. */
    public boolean unregister(Lake lake) { return Lake.ATTACHED.remove(lake.name, lake); }
    /** Lets a session forget a catalog that it has made already. */
    public void forget(org.apache.spark.sql.classic.SparkSession session, String name) throws Exception {
        org.apache.spark.sql.connector.catalog.CatalogManager manager = session.sessionState().catalogManager();
        if (manager.currentCatalog().name().equals(name)) manager.setCurrentCatalog("spark_catalog");
        synchronized (manager) {
            ((scala.collection.mutable.Map) field(manager, "catalogs").get(manager)).remove(name);
        }
    }
    private static java.lang.reflect.Field field(Object owner, String name) throws Exception {
        for (Class each = owner.getClass(); each != null; each = each.getSuperclass()) {
            java.lang.reflect.Field[] all = each.getDeclaredFields();
            for (int i = 0; i < all.length; i++)
                // Scala writes the name of a private field in a long form.
                if (all[i].getName().equals(name) || all[i].getName().endsWith("$$" + name)) {
                    all[i].setAccessible(true);
                    return all[i];
                }
        }
        throw new NoSuchFieldException(owner.getClass() + "." + name);
    }

    /** A DataFrame whose columns have the ids by which a statement knows the table's. */
    public Object known(org.apache.spark.sql.classic.Dataset frame, Object relation) {
        return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(frame.sparkSession(),
            Plans.known(frame.queryExecution().analyzed(), ((DataSourceV2Relation) relation).output()));
    }
    /** The rows of a plan, or of a DataFrame; of tables that were loaded at one snapshot as they are at another. */
    public Object frame(org.apache.spark.sql.classic.SparkSession session, Object rows, Object relation, int from, int to) {
        LogicalPlan plan = rows instanceof LogicalPlan ? (LogicalPlan) rows
            : ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().analyzed();
        LogicalPlan moved = from == to ? plan : later(relation, from, to).in(plan);
        return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(session, moved);
    }
    /** The same for an expression, as a Column. */
    public Object column(Object expression, Object relation, int from, int to) {
        Expression moved = from == to ? (Expression) expression : later(relation, from, to).in((Expression) expression);
        return org.apache.spark.sql.classic.ExpressionUtils$.MODULE$.column(moved);
    }
    private static Later later(Object relation, int from, int to) {
        return new Later(((LakeTable) ((DataSourceV2Relation) relation).table()).lake, from, to);
    }
    /** Makes the catalog now: so it is listed, and what is wrong with it is found. */
    public String catalog(org.apache.spark.sql.classic.SparkSession session, String name) {
        return session.sessionState().catalogManager().catalog(name).name();
    }
}

class Is extends scala.runtime.AbstractFunction1 {
    private final Class kind;
    Is(Class kind) { this.kind = kind; }
    public Object apply(Object other) { return Boolean.valueOf(this.kind.isInstance(other)); }
}

package ducklake.spark;

import java.util.ArrayList;
import java.util.Collections;
import org.apache.spark.sql.catalyst.analysis.DeduplicateRelations$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;

/** Catalyst's plans. Case classes are made by reflection: their constructors change from version to version. */
class Plans {
    static final scala.collection.immutable.Seq NOTHING = scala.collection.immutable.Nil$.MODULE$;

    /** The relation of a lake behind aliases, or null. */
    static DataSourceV2Relation relation(Object plan) {
        while (plan instanceof SubqueryAlias) plan = ((SubqueryAlias) plan).child();
        if (!(plan instanceof DataSourceV2Relation)) return null;
        DataSourceV2Relation found = (DataSourceV2Relation) plan;
        return found.table() instanceof LakeTable ? found : null;
    }
    /** Whether a person asked for the plan: Spark explains every query that it runs, for its own records. */
    static boolean isExplained() {
        StackTraceElement[] calls = new Throwable().getStackTrace();
        for (int i = 0; i < calls.length; i++) {
            String caller = calls[i].getClassName();
            if (caller.endsWith(".SQLExecution$")) return false;
            if (caller.endsWith(".ExplainCommand") || caller.endsWith(".PythonSQLUtils$")) return true;
        }
        return false;
    }
    /** A case class with one of its values replaced. */
    static Object with(scala.Product value, int place, Object replacement) {
        Object[] values = new Object[value.productArity()];
        for (int i = 0; i < values.length; i++) values[i] = i == place ? replacement : value.productElement(i);
        return make(value.getClass(), values);
    }
    static Object make(Class kind, Object[] given) {
        try {
            java.lang.reflect.Constructor[] all = kind.getConstructors();
            for (int i = 0; i < all.length; i++) {
                int count = all[i].getParameterTypes().length;
                if (count < given.length) continue;
                Object[] values = new Object[count];
                for (int j = 0; j < count; j++) values[j] = j < given.length ? given[j] : scala.Option.empty();
                return all[i].newInstance(values);
            }
        } catch (Exception e) { throw new RuntimeException(e); }
        throw new IllegalStateException("No constructor of " + kind);
    }
    /** The same plan with new ids, as the right side of a self-join gets them. */
    static LogicalPlan fresh(LogicalPlan plan) {
        LogicalPlan join = new Join(plan, plan, org.apache.spark.sql.catalyst.plans.Inner$.MODULE$, scala.Option.empty(),
            JoinHint$.MODULE$.NONE());
        return ((Join) DeduplicateRelations$.MODULE$.apply(join)).right();
    }
    /** The plan with just these attributes, found by their names. */
    static LogicalPlan shaped(LogicalPlan plan, scala.collection.immutable.Seq attributes, String title) {
        java.util.Map found = new java.util.HashMap();
        for (int i = 0; i < plan.output().size(); i++) {
            NamedExpression each = (NamedExpression) plan.output().apply(i);
            found.put(each.name(), each);
        }
        java.util.List columns = new ArrayList();
        for (int i = 0; i < attributes.size(); i++) {
            AttributeReference as = (AttributeReference) attributes.apply(i);
            Expression column = (Expression) found.get(as.name());
            if (column == null || !DataType.equalsIgnoreNullability(column.dataType(), as.dataType()))
                throw Lake.failure("ducklake_spark.errors.ConflictError: The column \"" + as.name() + "\" of " + title
                    + " is not what it was when the statement began. Run it again.");
            columns.add(alias((NamedExpression) column, as));
        }
        return new Project(list(columns), plan);
    }
    private static Alias alias(NamedExpression column, AttributeReference as) {
        return new Alias((Expression) column, as.name(), as.exprId(), as.qualifier(),
            scala.Option.apply(as.metadata()), NOTHING);
    }
    /** The plan with its columns under the ids of the attributes of the same names; other columns stay as they are. */
    static LogicalPlan known(LogicalPlan plan, scala.collection.immutable.Seq attributes) {
        java.util.Map wanted = new java.util.HashMap();
        for (int i = 0; i < attributes.size(); i++) {
            AttributeReference each = (AttributeReference) attributes.apply(i);
            wanted.put(each.name(), each);
        }
        java.util.List columns = new ArrayList();
        for (int i = 0; i < plan.output().size(); i++) {
            NamedExpression column = (NamedExpression) plan.output().apply(i);
            AttributeReference as = (AttributeReference) wanted.remove(column.name());
            columns.add(as == null ? column : (NamedExpression) alias(column, as));
        }
        return new Project(list(columns), plan);
    }
    /** Attributes of a relation that are no columns of its table: the virtual columns that a query uses. */
    static java.util.List virtual(DataSourceV2Relation relation) {
        java.util.Set own = new java.util.HashSet(java.util.Arrays.asList(((LakeTable) relation.table()).schema().fieldNames()));
        java.util.List names = new ArrayList();
        for (int i = 0; i < relation.output().size(); i++) {
            String name = ((NamedExpression) relation.output().apply(i)).name();
            if (!own.contains(name)) names.add(name);
        }
        return names;
    }
    static scala.collection.immutable.Seq list(java.util.List items) {
        return scala.jdk.javaapi.CollectionConverters.asScala(items).toList();
    }
}

/** Attributes of the two sides of a merge under the names by which our merge calls them. */
class Sides extends scala.runtime.AbstractPartialFunction {
    final AttributeSet target;
    final AttributeSet source;
    Sides(AttributeSet target, AttributeSet source) { this.target = target; this.source = source; }
    public boolean isDefinedAt(Object each) { return each instanceof AttributeReference; }
    public Object applyOrElse(Object each, scala.Function1 otherwise) {
        if (!isDefinedAt(each)) return otherwise.apply(each);
        AttributeReference attribute = (AttributeReference) each;
        String side = this.target.contains(attribute) ? "target"
            : this.source != null && this.source.contains(attribute) ? "source" : null;
        return side == null ? attribute
            : attribute.withQualifier(Plans.list(Collections.singletonList(side)));
    }
}

/**
 * Tables of a lake as they are at a later snapshot. A statement is analyzed at one snapshot, and may be run at another,
 * because others commit meanwhile: what it reads goes along with the table that it changes. A DataFrame that was made at
 * an earlier snapshot, and a snapshot that was asked for, stay.
 */
class Later extends scala.runtime.AbstractPartialFunction {
    final Lake lake;
    final int from;
    final int to;
    Later(Lake lake, int from, int to) { this.lake = lake; this.from = from; this.to = to; }
    public boolean isDefinedAt(Object plan) {
        if (!(plan instanceof DataSourceV2Relation) || Plans.relation(plan) == null) return false;
        LakeTable table = (LakeTable) ((DataSourceV2Relation) plan).table();
        return table.lake == this.lake && Integer.valueOf(this.from).equals(table.facts.all.get("follows"));
    }
    public Object applyOrElse(Object plan, scala.Function1 otherwise) {
        if (!isDefinedAt(plan)) return otherwise.apply(plan);
        LakeTable table = (LakeTable) ((DataSourceV2Relation) plan).table();
        java.util.Map handle = (java.util.Map) Lake.value(table.handle);
        handle.put("version", Integer.valueOf(this.to));
        java.util.Map facts = new java.util.HashMap(table.facts.all);
        facts.put("handle", Lake.text(handle));
        facts.remove("plans");
        return Plans.with((DataSourceV2Relation) plan, 0, new LakeTable(this.lake, new Facts(facts), null));
    }
    LogicalPlan in(LogicalPlan plan) { return (LogicalPlan) plan.transformDownWithSubqueries(this); }
    Expression in(Expression expression) { return (Expression) expression.transformDown(new LaterQueries(this)); }
}

/** The same for the queries in an expression. */
class LaterQueries extends scala.runtime.AbstractPartialFunction {
    final Later later;
    LaterQueries(Later later) { this.later = later; }
    public boolean isDefinedAt(Object each) { return each instanceof SubqueryExpression; }
    public Object applyOrElse(Object each, scala.Function1 otherwise) {
        if (!isDefinedAt(each)) return otherwise.apply(each);
        return Changes.told(each, "withNewPlan",
            new Object[] {this.later.in((LogicalPlan) Changes.asked(each, "plan"))});
    }
}

package ducklake.spark;

import java.util.ArrayList;
import java.util.Map;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.BindParameters$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Functions of a lake in FROM, for which Spark has no kind of catalog, its clause CHANGES, and tables that are read with the
 * option readChangeFeed: in their place stands the plan of the lake's DataFrame.
 */
class LakeQueries extends scala.runtime.AbstractPartialFunction {
    private static final scala.Enumeration.Value FUNCTION = TreePattern$.MODULE$.UNRESOLVED_TABLE_VALUED_FUNCTION();
    /** Of Spark 4.2 and later. */
    private static final scala.Enumeration.Value CHANGES =
        (scala.Enumeration.Value) ducklake.spark.Changes.asked(TreePattern$.MODULE$, "RELATION_CHANGES");

    private final EarlyRule early;
    private final org.apache.spark.sql.classic.SparkSession session;
    LakeQueries(EarlyRule early, org.apache.spark.sql.classic.SparkSession session) {
        this.early = early;
        this.session = session;
    }
    LogicalPlan in(LogicalPlan plan) {
        boolean any = plan.containsPattern(FUNCTION) || (CHANGES != null && plan.containsPattern(CHANGES))
            || plan.containsPattern(TreePattern$.MODULE$.UNRESOLVED_RELATION());
        if (!any) return plan;
        // Arguments are wanted now; some versions of Spark put in those of spark.sql(args=...) later.
        boolean given = plan.containsPattern(TreePattern$.MODULE$.PARAMETERIZED_QUERY());
        LogicalPlan bound = given ? BindParameters$.MODULE$.apply(plan) : plan;
        return (LogicalPlan) bound.transformDownWithSubqueries(this);
    }

    private static boolean isChanges(Object plan) { return plan.getClass().getSimpleName().equals("RelationChanges"); }
    private static boolean isFeed(Object plan) {
        return plan instanceof UnresolvedRelation && !((UnresolvedRelation) plan).isStreaming()
            && "true".equalsIgnoreCase(((UnresolvedRelation) plan).options().get("readChangeFeed"));
    }
    public boolean isDefinedAt(Object plan) {
        return plan instanceof UnresolvedTableValuedFunction || isChanges(plan) || isFeed(plan);
    }
    public Object applyOrElse(Object plan, scala.Function1 otherwise) {
        if (!isDefinedAt(plan)) return otherwise.apply(plan);
        LogicalPlan found = isFeed(plan) ? feed((UnresolvedRelation) plan)
            : isChanges(plan) ? changes((scala.Product) plan) : function((UnresolvedTableValuedFunction) plan);
        return found == null ? plan : found;
    }

    private LogicalPlan function(UnresolvedTableValuedFunction plan) {
        String[] parts = EarlyRule.strings(plan.name());
        // The parser of Spark 4.0 takes names of one part only.
        String[] inside = parts[0].split("\\.");
        if (parts.length == 1 && inside.length > 1 && Lake.ATTACHED.containsKey(inside[0])) parts = inside;
        EarlyRule.Named named = this.early.named(parts);
        if (named == null) return null;
        boolean certain = parts[0].equals(named.catalog.name());
        // Without the lake's name only its own functions are meant: all others are Spark's.
        String[] namespace = parts.length == 1 ? new String[0] : named.ident.namespace();
        Map facts = Facts.of(new Object[] {
            "namespace", namespace, "name", named.ident.name(), "certain", Boolean.valueOf(certain)});
        if (!named.catalog.lake().flag("hasFunction", facts)) return null;
        java.util.List values = new ArrayList();
        Map byName = new java.util.LinkedHashMap();
        for (int i = 0; i < plan.functionArgs().size(); i++) {
            Object each = plan.functionArgs().apply(i);
            if (each instanceof NamedArgumentExpression)
                byName.put(((NamedArgumentExpression) each).key(), value(((NamedArgumentExpression) each).value()));
            else values.add(value((Expression) each));
        }
        facts.put("values", values);
        facts.put("named", byName);
        return aliased(named.catalog.lake().ask("function", facts), named.ident.name(), named);
    }

    private LogicalPlan changes(scala.Product plan) {
        if (!(plan.productElement(0) instanceof UnresolvedRelation)) return null;
        UnresolvedRelation relation = (UnresolvedRelation) plan.productElement(0);
        EarlyRule.Named named = this.early.named(EarlyRule.strings(relation.multipartIdentifier()));
        if (named == null) return null;
        if (relation.isStreaming())
            throw Lake.failure("ducklake_spark.errors.InvalidInputError: CHANGES of a lake are no stream. Use "
                + "spark.readStream.option(\"readChangeFeed\", \"true\").table(...).");
        Object context = plan.productElement(1);
        Object range = ducklake.spark.Changes.asked(context, "range");
        Map facts = Facts.of(named.ident, new Object[] {
            "mode", ducklake.spark.Changes.asked(context, "deduplicationMode").toString()});
        String[] asked = {"startingVersion", "endingVersion", "startingTimestamp", "endingTimestamp",
            "startingBoundInclusive", "endingBoundInclusive"};
        for (int i = 0; i < asked.length; i++) {
            Object found = ducklake.spark.Changes.asked(range, asked[i]);
            if (found instanceof java.util.Optional) found = ((java.util.Optional) found).orElse(null);
            if (found != null) facts.put(asked[i], found);
        }
        return aliased(named.catalog.lake().ask("changes", facts), named.ident.name(), named);
    }

    /** A table that is read with the option readChangeFeed, as Delta has it. */
    private LogicalPlan feed(UnresolvedRelation relation) {
        EarlyRule.Named named = this.early.named(EarlyRule.strings(relation.multipartIdentifier()));
        if (named == null) return null;
        Map facts = Facts.of(named.ident, new Object[] {"options", relation.options().asCaseSensitiveMap()});
        return aliased(named.catalog.lake().ask("feed", facts), named.ident.name(), named);
    }

    private static LogicalPlan aliased(Object frame, String name, EarlyRule.Named named) {
        java.util.List qualifier = new ArrayList();
        qualifier.add(named.catalog.name());
        for (int i = 0; i < named.ident.namespace().length; i++) qualifier.add(named.ident.namespace()[i]);
        LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset) frame).queryExecution().analyzed();
        return new SubqueryAlias(new AliasIdentifier(name, Plans.list(qualifier)), plan);
    }

    /** What an argument comes to: Spark computes it as a query of one row. */
    private Object value(Expression argument) {
        Alias column = new Alias(argument, "value", NamedExpression$.MODULE$.newExprId(), Plans.NOTHING, scala.Option.empty(),
            Plans.NOTHING);
        LogicalPlan one = new Project(Plans.list(java.util.Collections.singletonList((Object) column)), new OneRowRelation());
        org.apache.spark.sql.classic.Dataset rows = org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(this.session, one);
        InternalRow row = rows.queryExecution().executedPlan().executeCollect()[0];
        if (row.isNullAt(0)) return null;
        DataType type = rows.schema().apply(0).dataType();
        Object found = row.get(0, type);
        if (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType))
            return Facts.of(new Object[] {"micros", found, "zoned", Boolean.valueOf(type.equals(DataTypes.TimestampType))});
        if (type.equals(DataTypes.DateType)) return Facts.of(new Object[] {"days", found});
        return found instanceof Number || found instanceof Boolean ? found : found.toString();
    }
}

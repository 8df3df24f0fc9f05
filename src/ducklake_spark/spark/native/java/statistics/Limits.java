package ducklake.statistics;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * The first rows of a table without conditions. In the order of a column whose bounds are known, they are no greater than
 * a bound below which there are enough rows for sure: a filter says so, and leaves out files and row groups. Without an
 * order, the first files that have enough rows are listed, and no others.
 *
 * A limit of each task alone is none that a user wrote, and stays as it is.
 */
public class Limits extends scala.runtime.AbstractPartialFunction {
    public static final Limits RULE = new Limits();
    private static final int MOST = 1000000;

    public static LogicalPlan in(LogicalPlan plan) { return (LogicalPlan) plan.transformDown(RULE); }

    public boolean isDefinedAt(Object plan) { return plan instanceof GlobalLimit; }
    public Object applyOrElse(Object plan, scala.Function1 otherwise) {
        if (!isDefinedAt(plan)) return otherwise.apply(plan);
        LogicalPlan child = ((GlobalLimit) plan).child();
        LogicalPlan made = child instanceof Offset ? with(child, limited(((Offset) child).child())) : limited(child);
        return made == null ? plan : with((LogicalPlan) plan, made);
    }

    /** The same plan over another one; null for null. */
    private static LogicalPlan with(LogicalPlan plan, LogicalPlan child) {
        if (child == null) return null;
        List children = new ArrayList();
        children.add(child);
        return (LogicalPlan) plan.withNewChildren(Aggregates.list(children));
    }

    private static LogicalPlan limited(LogicalPlan plan) {
        int count = count(plan);
        return count < 1 ? null : with(plan, fewer(((LocalLimit) plan).child(), count, true));
    }
    /** What a limit of each task is, or -1. */
    private static int count(LogicalPlan plan) {
        if (!(plan instanceof LocalLimit) || !(((LocalLimit) plan).limitExpr() instanceof Literal)) return -1;
        Object value = ((Literal) ((LocalLimit) plan).limitExpr()).value();
        return value instanceof Integer && ((Integer) value).intValue() <= MOST ? ((Integer) value).intValue() : -1;
    }

    /** The plan with fewer files, of which any so many rows are wanted, or the first ones in an order; null if there are none. */
    private static LogicalPlan fewer(LogicalPlan plan, int count, boolean mayBeOrdered) {
        if (plan instanceof Project) return with(plan, fewer(((Project) plan).child(), count, mayBeOrdered));
        if (plan instanceof Sort) return mayBeOrdered ? bounded((Sort) plan, count) : null;
        // Spark's own, of each part of a union.
        if (plan instanceof LocalLimit)
            return count(plan) == count && !mayBeOrdered ? with(plan, fewer(((LocalLimit) plan).child(), count, false)) : null;
        if (plan instanceof Union) {
            List children = new ArrayList();
            boolean any = false;
            for (int i = 0; i < plan.children().size(); i++) {
                LogicalPlan part = (LogicalPlan) plan.children().apply(i);
                LogicalPlan made = fewer(part, count, false);
                any |= made != null;
                children.add(made == null ? part : made);
            }
            return any ? (LogicalPlan) plan.withNewChildren(Aggregates.list(children)) : null;
        }
        LakeFiles files = Aggregates.files(plan);
        if (files == null || files.total < 2) return null;
        HadoopFsRelation all = (HadoopFsRelation) ((LogicalRelation) plan).relation();
        HadoopFsRelation some = new HadoopFsRelation(files.first(count), all.partitionSchema(), all.dataSchema(),
            all.bucketSpec(), all.fileFormat(), all.options(), all.sparkSession());
        Object[] values = new Object[plan.productArity()];
        for (int i = 0; i < values.length; i++) values[i] = i == 0 ? some : plan.productElement(i);
        return (LogicalPlan) plan.makeCopy(values);
    }

    private static LogicalPlan bounded(Sort plan, int count) {
        if (!plan.global() || plan.order().isEmpty()) return null;
        SortOrder first = (SortOrder) plan.order().head();
        if (!(first.child() instanceof Attribute)) return null;
        Attribute column = (Attribute) first.child();
        boolean isAscending = first.direction() == Ascending$.MODULE$;
        List wanted = new ArrayList();
        wanted.add(column);
        List leaves = new ArrayList();
        if (!Aggregates.leaves(plan.child(), wanted, leaves)) return null;
        Object bound = null;
        int files = 0;
        scala.math.Ordering order = null;
        for (int i = 0; i < leaves.size(); i++) {
            if (!(leaves.get(i) instanceof FilesLeaf)) continue;
            files += ((FilesLeaf) leaves.get(i)).files.total;
            Object found = ((FilesLeaf) leaves.get(i)).bound(count, isAscending, column.dataType());
            if (found == null) continue;
            if (order == null) order = org.apache.spark.sql.catalyst.util.TypeUtils$.MODULE$.getInterpretedOrdering(column.dataType());
            if (bound == null || (isAscending ? order.compare(found, bound) < 0 : order.compare(found, bound) > 0)) bound = found;
        }
        if (bound == null || files < 2) return null;
        Literal limit = new Literal(bound, column.dataType());
        Expression kept = isAscending ? (Expression) new LessThanOrEqual(column, limit) : (Expression) new GreaterThanOrEqual(column, limit);
        if (column.nullable() && first.nullOrdering() == NullsFirst$.MODULE$) kept = new Or(new IsNull(column), kept);
        return with(plan, new Filter(kept, plan.child()));
    }
}

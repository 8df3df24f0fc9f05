package ducklake.spark;

import org.apache.spark.sql.catalyst.optimizer.InlineCTE;
import org.apache.spark.sql.catalyst.plans.logical.AppendData$;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * Reads: in place of a table of a lake stands the plan of its DataFrame, before filters and columns are pushed down, or
 * what the catalog knows of its rows.
 */
class ReadRule extends Rule {
    static final String NAME = "ducklake.spark.ReadRule";
    private final Reads reads;
    ReadRule(org.apache.spark.sql.classic.SparkSession session) { this.reads = new Reads(session); }
    public String ruleName() { return NAME; }
    public TreeNode apply(TreeNode plan) {
        LogicalPlan read = ducklake.statistics.Aggregates.in((LogicalPlan) ((LogicalPlan) plan).transformDown(this.reads));
        read = ducklake.statistics.Limits.in(read);
        Kept kept = new Kept(read);
        if (kept.any() && Plans.isExplained()) kept.list();
        return read;
    }
}

/** For EXPLAIN, which files the filters keep is found out before a scan does: the index shows how many of how many. */
class Kept {
    private static final Object MANY = new Object();
    private final java.util.Map filters = new java.util.IdentityHashMap();

    Kept(LogicalPlan plan) { find(plan, null); }
    boolean any() { return !this.filters.isEmpty(); }
    void list() {
        java.util.Iterator each = this.filters.entrySet().iterator();
        while (each.hasNext()) {
            java.util.Map.Entry one = (java.util.Map.Entry) each.next();
            // An index that two scans share can show what one of them keeps only.
            if (one.getValue() == MANY) continue;
            java.util.List given = one.getValue() == null ? new java.util.ArrayList()
                : java.util.Collections.singletonList(one.getValue());
            ((FileIndex) one.getKey()).listFiles(Plans.NOTHING, Plans.list(given));
        }
    }
    private static boolean isOurs(FileIndex index) {
        return index.getClass().getName().equals("ducklake.statistics.LakeFiles")
            || java.lang.reflect.Proxy.isProxyClass(index.getClass());
    }
    private void find(LogicalPlan plan, Object filter) {
        if (plan instanceof LogicalRelation && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation) {
            FileIndex index = ((HadoopFsRelation) ((LogicalRelation) plan).relation()).location();
            if (isOurs(index))
                this.filters.put(index, this.filters.containsKey(index) ? MANY : filter);
        }
        for (int i = 0; i < plan.children().size(); i++)
            find((LogicalPlan) plan.children().apply(i), plan instanceof Filter ? ((Filter) plan).condition() : null);
    }
}

class Reads extends scala.runtime.AbstractPartialFunction {
    private final org.apache.spark.sql.classic.SparkSession session;
    Reads(org.apache.spark.sql.classic.SparkSession session) { this.session = session; }
    public boolean isDefinedAt(Object plan) { return plan instanceof DataSourceV2Relation && Plans.relation(plan) != null; }
    public Object applyOrElse(Object plan, scala.Function1 otherwise) {
        if (!isDefinedAt(plan)) return otherwise.apply(plan);
        DataSourceV2Relation relation = (DataSourceV2Relation) plan;
        LogicalPlan ours = ((LakeTable) relation.table()).plan(Plans.virtual(relation));
        return Plans.shaped(caughtUp(ours), relation.output(), relation.table().name());
    }
    /** What the optimizer does to every plan before operators are optimized: that is over when this rule runs. */
    private LogicalPlan caughtUp(LogicalPlan plan) {
        Object batches = Changes.asked(this.session.sessionState().optimizer(), "batches");
        scala.collection.Iterator each = ((scala.collection.immutable.Seq) batches).iterator();
        while (each.hasNext()) {
            Object batch = each.next();
            if (((String) Changes.asked(batch, "name")).startsWith("Operator Optimization")) return plan;
            scala.collection.immutable.Seq rules = (scala.collection.immutable.Seq) Changes.asked(batch, "rules");
            int most = ((Integer) Changes.asked(Changes.asked(batch, "strategy"), "maxIterations")).intValue();
            LogicalPlan before = null;
            for (int turn = 0; turn < most && plan != before && (before == null || !plan.fastEquals(before)); turn++) {
                before = plan;
                for (int i = 0; i < rules.size(); i++) plan = (LogicalPlan) ((Rule) rules.apply(i)).apply(plan);
            }
        }
        throw new IllegalStateException("This version of Spark has no batch to optimize operators.");
    }
}

class ReadRuleOf extends scala.runtime.AbstractFunction1 {
    public Object apply(Object session) { return new ReadRule((org.apache.spark.sql.classic.SparkSession) session); }
}

/** DELETE, UPDATE, MERGE and overwrites become an append to a table that knows the statement. */
class CommandRule extends Rule {
    public String ruleName() { return "ducklake.spark.CommandRule"; }
    public TreeNode apply(TreeNode tree) {
        LogicalPlan plan = (LogicalPlan) tree;
        if (!plan.resolved()) return plan;
        LogicalPlan answered = Answered.of(plan);
        if (answered != null) return answered;
        if (plan instanceof WithCTE) {
            LogicalPlan inside = ((WithCTE) plan).plan();
            boolean changesRows = inside instanceof DeleteFromTable || inside instanceof UpdateTable
                || inside instanceof MergeIntoTable;
            if (!changesRows || Plans.relation(target(inside)) == null) return plan;
            plan = (LogicalPlan) ((Rule) Plans.make(InlineCTE.class, new Object[] {
                Boolean.TRUE, Boolean.FALSE})).apply(plan);
        }
        DataSourceV2Relation relation = Plans.relation(target(plan));
        if (relation == null || ((LakeTable) relation.table()).command != null) return plan;
        LakeTable table = (LakeTable) relation.table();
        Object told = Plans.with(relation, 0, new LakeTable(table.lake, table.facts, plan));
        LogicalPlan query = plan instanceof V2WriteCommand ? ((V2WriteCommand) plan).query()
            : (LogicalPlan) Plans.make(LocalRelation.class, new Object[] {relation.output(), Plans.NOTHING, Boolean.FALSE});
        return append(told, query, options(plan));
    }
    static Object options(LogicalPlan plan) {
        return plan instanceof OverwriteByExpression ? ((OverwriteByExpression) plan).writeOptions()
            : plan instanceof OverwritePartitionsDynamic ? ((OverwritePartitionsDynamic) plan).writeOptions()
            : (Object) scala.collection.immutable.Map$.MODULE$.empty();
    }
    /** The table of such a statement: its first value. */
    static Object target(LogicalPlan plan) {
        boolean known = plan instanceof DeleteFromTable || plan instanceof UpdateTable || plan instanceof MergeIntoTable
            || plan instanceof OverwriteByExpression || plan instanceof OverwritePartitionsDynamic;
        return known ? ((scala.Product) plan).productElement(0) : null;
    }
    static LogicalPlan append(Object relation, LogicalPlan query, Object options) {
        try {
            java.lang.reflect.Method[] all = AppendData$.MODULE$.getClass().getMethods();
            for (int i = 0; i < all.length; i++)
                if (all[i].getName().equals("byPosition")) {
                    Object[] values = all[i].getParameterTypes().length == 3
                        ? new Object[] {relation, query, options}
                        : new Object[] {relation, query, options, Boolean.FALSE};
                    return (LogicalPlan) all[i].invoke(AppendData$.MODULE$, values);
                }
        } catch (Exception e) { throw new RuntimeException(e); }
        throw new IllegalStateException("AppendData has no byPosition in this version of Spark.");
    }
}

class CommandRuleOf extends scala.runtime.AbstractFunction1 {
    public Object apply(Object session) { return new CommandRule(); }
}

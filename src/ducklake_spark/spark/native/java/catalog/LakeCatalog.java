package ducklake.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.CatalogV2Util$;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/** A lake as a catalog of Spark. Sessions make their own; all of one name are the lake that was attached last. */
public class LakeCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
    private String name;

    public LakeCatalog() {}
    public void initialize(String name, CaseInsensitiveStringMap options) { this.name = name; }
    public String name() { return this.name; }
    Lake lake() { return Lake.named(this.name); }

    public String[] defaultNamespace() { return new String[] {"main"}; }
    public Set capabilities() {
        return new HashSet(Arrays.asList(new Object[] {TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE}));
    }

    // Tables.

    static Table table(Lake lake, Identifier ident, Object[] more) {
        return new LakeTable(lake, lake.facts("load", Facts.of(ident, more)), null);
    }
    public Table loadTable(Identifier ident) { return table(lake(), ident, new Object[0]); }
    /** The target of a statement that writes: only it shows defaults, which CREATE TABLE LIKE would inherit. */
    public Table loadTable(Identifier ident, Set privileges) {
        return table(lake(), ident, new Object[] {"writes", Boolean.TRUE});
    }
    public Table loadTable(Identifier ident, String version) {
        return table(lake(), ident, new Object[] {"version", version});
    }
    public Table loadTable(Identifier ident, long micros) {
        return table(lake(), ident, new Object[] {"micros", Long.valueOf(micros)});
    }
    public boolean tableExists(Identifier ident) { return lake().flag("tableExists", Facts.of(ident)); }
    public void invalidateTable(Identifier ident) {}

    public Identifier[] listTables(String[] namespace) { return listed("listTables", namespace); }
    private Identifier[] listed(String what, String[] namespace) {
        String[] names = lake().names(what, Facts.of(new Object[] {"namespace", namespace}));
        Identifier[] found = new Identifier[names.length];
        for (int i = 0; i < found.length; i++) found[i] = Identifier.of(namespace, names[i]);
        return found;
    }

    /** Transforms as their names and arguments: their classes are not public, so Py4J could not ask them. */
    static java.util.List described(Transform[] keys) {
        java.util.List made = new java.util.ArrayList();
        for (int i = 0; i < keys.length; i++) {
            java.util.List key = new java.util.ArrayList();
            key.add(keys[i].name());
            addArguments(key, keys[i].arguments());
            made.add(key);
        }
        return made;
    }
    private static void addArguments(java.util.List key, org.apache.spark.sql.connector.expressions.Expression[] arguments) {
        for (int i = 0; i < arguments.length; i++) {
            if (arguments[i] instanceof NamedReference) key.add(((NamedReference) arguments[i]).fieldNames());
            else if (arguments[i] instanceof Literal) key.add(((Literal) arguments[i]).value());
            else key.add(arguments[i].describe());
        }
    }
    static Map definition(Identifier ident, Column[] columns, Transform[] keys, Map properties, String mode) {
        return Facts.of(ident, new Object[] {"schema", CatalogV2Util$.MODULE$.v2ColumnsToStructType(columns).json(),
            "keys", described(keys), "properties", properties, "mode", mode});
    }
    /** Spark would make the table, and then say that it is of another format than the stream. */
    private void requireFormat(Identifier ident, Map properties) {
        if (properties.get("provider") == null || "ducklake".equalsIgnoreCase((String) properties.get("provider"))) return;
        StackTraceElement[] calls = new Throwable().getStackTrace();
        for (int i = 0; i < calls.length; i++)
            if (calls[i].getClassName().endsWith(".DataStreamWriter"))
                throw Lake.failure("ducklake_spark.errors.InvalidInputError: A stream into a table of a lake names its format: "
                    + "writeStream.format(\"ducklake\"), then toTable(\"" + this.name + "." + ident + "\").");
    }
    public Table createTable(Identifier ident, Column[] columns, Transform[] keys, Map properties) {
        requireFormat(ident, properties);
        lake().ask("create", definition(ident, columns, keys, properties, "create"));
        return loadTable(ident);
    }
    private StagedTable stage(Identifier ident, Column[] columns, Transform[] keys, Map properties, String mode) {
        Lake lake = lake();
        return new LakeStagedTable(lake, lake.facts("stage", definition(ident, columns, keys, properties, mode)));
    }
    public StagedTable stageCreate(Identifier i, Column[] c, Transform[] k, Map p) { return stage(i, c, k, p, "create"); }
    public StagedTable stageReplace(Identifier i, Column[] c, Transform[] k, Map p) {
        return stage(i, c, k, p, "replace");
    }
    public StagedTable stageCreateOrReplace(Identifier i, Column[] c, Transform[] k, Map p) {
        return stage(i, c, k, p, "create or replace");
    }

    public Table alterTable(Identifier ident, TableChange[] changes) {
        java.util.List made = new java.util.ArrayList();
        for (int i = 0; i < changes.length; i++) made.add(Changes.described(changes[i]));
        lake().ask("alter", Facts.of(ident, new Object[] {"changes", made}));
        return loadTable(ident);
    }
    public boolean dropTable(Identifier ident) { return lake().flag("drop", Facts.of(ident)); }
    public boolean purgeTable(Identifier ident) { return dropTable(ident); }
    public void renameTable(Identifier from, Identifier to) {
        lake().ask("rename", Facts.of(from, new Object[] {"newNamespace", to.namespace(), "newName", to.name()}));
    }

    // Namespaces.

    public String[][] listNamespaces() {
        String[] names = lake().names("listNamespaces", new HashMap());
        String[][] found = new String[names.length][];
        for (int i = 0; i < found.length; i++) found[i] = new String[] {names[i]};
        return found;
    }
    public String[][] listNamespaces(String[] parent) {
        if (parent.length == 0) return listNamespaces();
        loadNamespaceMetadata(parent);
        return new String[0][];
    }
    public Map loadNamespaceMetadata(String[] namespace) {
        return lake().facts("namespace", Facts.of(new Object[] {"namespace", namespace})).all;
    }
    public void createNamespace(String[] namespace, Map metadata) {
        lake().ask("createNamespace", Facts.of(new Object[] {"namespace", namespace, "properties", metadata}));
    }
    public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
        lake().ask("alterNamespace", Facts.of(new Object[] {"namespace", namespace}));
    }
    public boolean dropNamespace(String[] namespace, boolean cascade) {
        return lake().flag("dropNamespace",
            Facts.of(new Object[] {"namespace", namespace, "cascade", Boolean.valueOf(cascade)}));
    }

    // Procedures.

    public UnboundProcedure loadProcedure(Identifier ident) {
        Lake lake = lake();
        return new LakeProcedure(lake, lake.facts("procedure", Facts.of(ident)));
    }
    public Identifier[] listProcedures(String[] namespace) { return listed("listProcedures", namespace); }

    // Functions of rows: a lake has none. Without the interface Spark refuses to list or look for any, its own too.

    public Identifier[] listFunctions(String[] namespace) { return new Identifier[0]; }
    public UnboundFunction loadFunction(Identifier ident) {
        Platform.throwException(new NoSuchFunctionException(ident));
        return null;
    }
}

/** Changes of a table as plain values. */
class Changes {
    static Map described(TableChange change) {
        Map made = new java.util.LinkedHashMap();
        made.put("kind", change.getClass().getSimpleName());
        if (change instanceof TableChange.ColumnChange)
            made.put("path", ((TableChange.ColumnChange) change).fieldNames());
        String[] asked = {"newName", "isNullable", "nullable", "comment", "newComment", "ifExists", "property", "value",
            "dataType", "newDataType", "defaultValue", "newDefaultValue", "newCurrentDefault", "position",
            "clusteringColumns"};
        for (int i = 0; i < asked.length; i++) {
            Object value = asked(change, asked[i]);
            if (value != null) made.put(asked[i], plain(value));
        }
        return made;
    }
    private static Object plain(Object value) {
        if (value instanceof DataType) return ((DataType) value).json();
        if (value instanceof Object[]) {
            java.util.List made = new java.util.ArrayList();
            Object[] items = (Object[]) value;
            for (int i = 0; i < items.length; i++)
                made.add(items[i] instanceof NamedReference ? ((NamedReference) items[i]).fieldNames() : (Object) items[i].toString());
            return made;
        }
        Object sql = asked(value, "getSql");
        if (sql != null) return sql;
        return value instanceof Boolean || value instanceof String ? value : value.toString();
    }
    /** What an object has to say; which methods a change has differs between versions of Spark. */
    static Object asked(Object target, String method) {
        java.lang.reflect.Method[] all = target.getClass().getMethods();
        for (int i = 0; i < all.length; i++)
            if (all[i].getName().equals(method) && all[i].getParameterTypes().length == 0 && !all[i].isBridge()) {
                try {
                    all[i].setAccessible(true);
                    return all[i].invoke(target, new Object[0]);
                } catch (Exception e) { throw new RuntimeException(e); }
            }
        return null;
    }
    /** What an object makes of arguments. */
    static Object told(Object target, String method, Object[] arguments) {
        java.lang.reflect.Method[] all = target.getClass().getMethods();
        for (int i = 0; i < all.length; i++)
            if (all[i].getName().equals(method) && all[i].getParameterTypes().length == arguments.length) {
                try { return all[i].invoke(target, arguments); }
                catch (Exception e) { throw new RuntimeException(e); }
            }
        throw new IllegalStateException(target.getClass() + " has no " + method);
    }
}

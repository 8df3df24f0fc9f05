package ducklake.spark;

import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat$;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable$;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType$;
import org.apache.spark.sql.types.StructType;

/** A table as streams see it: readStream.table and toTable find the format "ducklake" in it, and the table as its path. */
class StreamTable {
    static CatalogTable of(java.util.List names, String path, StructType schema) {
        try {
            Object place = new scala.Some(new java.net.URI(null, null, path, null));
            java.lang.reflect.Constructor made = CatalogTable.class.getConstructors()[0];
            Object[] values = new Object[made.getParameterTypes().length];
            values[0] = new TableIdentifier((String) names.get(2), new scala.Some(names.get(1)), new scala.Some(names.get(0)));
            values[1] = CatalogTableType$.MODULE$.MANAGED();
            values[2] = Plans.with((scala.Product) CatalogStorageFormat$.MODULE$.empty(), 0, place);
            values[3] = schema;
            values[4] = new scala.Some("ducklake");
            // The rest differs between versions of Spark, and has defaults.
            for (int i = 5; i < values.length; i++)
                values[i] = CatalogTable$.MODULE$.getClass().getMethod("apply$default$" + (i + 1), new Class[0])
                    .invoke(CatalogTable$.MODULE$, new Object[0]);
            return (CatalogTable) made.newInstance(values);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }
}

// What grafana_test.py compiles a dashboard against: Grafana's own types, for the panels that pfc uses.
import type * as schema from "@grafana/schema";
import type * as bargauge from "@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
import type * as heatmap from "@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as timeline from "@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type * as table from "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as timeseries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

// JSON has no enums: a member of an enum of strings is its text here.
type Json<T> = unknown extends T ? T
  : T extends string ? (string extends T ? string : `${T}`)
  : T extends object ? { [Key in keyof T]: Json<T[Key]> }
  : T;

// Prometheus' queries and annotations are the plugin's own, and not in the schema.
interface Query {
  refId: string;
  expr: string;
  format: "table" | "time_series" | "heatmap";
  instant: boolean;
  legendFormat: string;
  range: boolean;
}
interface Annotation extends Omit<Json<schema.AnnotationQuery>, "target"> {
  tagKeys: string;
  target: Omit<Query, "format"> & { interval: string };
  textFormat: string;
  titleFormat: string;
  useValueForTime: boolean;
}

interface Panel<Type extends string, Options, Custom>
  extends Omit<Json<schema.Panel>, "type" | "options" | "fieldConfig" | "targets"> {
  type: Type;
  description: string;
  options: Partial<Json<Options>>;
  targets: Query[];
  fieldConfig: {
    defaults: Omit<Json<schema.FieldConfig>, "custom"> & { custom?: Partial<Json<Custom>> };
    overrides: Json<schema.FieldConfigSource["overrides"]>;
  };
}
type AnyPanel =
  | Panel<"bargauge", bargauge.Options, {}>
  | Panel<"heatmap", heatmap.Options, heatmap.FieldConfig>
  | Panel<"stat", stat.Options, {}>
  | Panel<"state-timeline", timeline.Options, timeline.FieldConfig>
  | Panel<"table", table.Options, {}>
  | Panel<"timeseries", timeseries.Options, timeseries.FieldConfig>;
interface Row extends Omit<Json<schema.RowPanel>, "type" | "panels"> {
  type: "row";
  panels: AnyPanel[];
}
interface Variable extends Json<schema.VariableModel> {
  datasource?: schema.DataSourceRef;
  definition?: string;
}

export interface Dashboard
  extends Omit<Json<schema.Dashboard>, "panels" | "annotations" | "templating"> {
  annotations: { list: Annotation[] };
  templating: { list: Variable[] };
  panels: (Row | AnyPanel)[];
}
